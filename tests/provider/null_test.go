package provider

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNullResourceIsReplacedWhenTriggersChange(t *testing.T) {
	f := newFolder(t, `resource "null_resource" "foo" {}`)
	f.apply()
	f.agrees()
	first := f.state()["null_resource.foo"].Values["id"]
	require.Regexp(t, `^\d+$`, first)
	require.Contains(t, f.must("plan", "-no-color"), "No changes")

	f.configure(`resource "null_resource" "foo" {
		triggers = { version = "2" }
	}`)
	f.apply()
	f.agrees()
	assert.NotEqual(t, first, f.state()["null_resource.foo"].Values["id"])
	f.destroy()
	assert.Equal(t, []string{"created", "deleted", "created", "deleted"}, f.events())
}

func TestNullResourceRunsProvisioners(t *testing.T) {
	f := newFolder(t, `resource "null_resource" "foo" {
		provisioner "local-exec" {
			command = "exit 3"
		}
	}`)
	assert.Contains(t, f.applyFails(), "exit status 3")
	assert.True(t, f.state()["null_resource.foo"].Tainted)
}

func TestNullDataSourceGivesBackItsInputs(t *testing.T) {
	f := newFolder(t, `
		data "null_data_source" "d" {
			inputs = { greeting = "hello" }
		}
		output "greeting" {
			value = data.null_data_source.d.outputs["greeting"]
		}
		output "default" {
			value = data.null_data_source.d.has_computed_default
		}`)
	f.apply()
	assert.Equal(t, "hello", f.must("output", "-raw", "greeting"))
	assert.Equal(t, "default", f.must("output", "-raw", "default"))
	assert.Empty(t, f.events(), "nothing was made")
}
