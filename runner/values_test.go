package runner

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// Whatever is wrong with a value, no log and no message shows it.
func TestValuesAreNotInTheLogs(t *testing.T) {
	t.Parallel()
	const invalid = "The value of variable db_password is not a valid HCL expression. It cannot use references and functions."
	for name, row := range map[string]struct {
		kind  string
		value wire.Variable
		says  string // in the human log
	}{
		"no separator":           {"any", wire.Variable{Value: `["hunter2SECRET" "b"]`, HCL: true}, invalid},
		"open string":            {"any", wire.Variable{Value: `"hunter2SECRET`, HCL: true}, invalid},
		"more than a value":      {"any", wire.Variable{Value: "1\nhunter2SECRET = 2", HCL: true}, invalid},
		"open heredoc":           {"any", wire.Variable{Value: "<<E\nhunter2SECRET", HCL: true}, invalid},
		"a name":                 {"any", wire.Variable{Value: "hunter2SECRET", HCL: true}, invalid},
		"a name in lines":        {"any", wire.Variable{Value: "[\n\"x\",\n  hunter2SECRET, \n]", HCL: true}, invalid},
		"a function":             {"any", wire.Variable{Value: `upper("hunter2SECRET")`, HCL: true}, invalid},
		"an attribute":           {"any", wire.Variable{Value: "{ a = 1 }.hunter2SECRET", HCL: true}, invalid},
		"a key twice":            {"any", wire.Variable{Value: `{ for x in ["hunter2SECRET", "hunter2SECRET"] : x => x }`, HCL: true}, invalid},
		"another type":           {"number", wire.Variable{Value: `"hunter2SECRET"`, HCL: true}, "The given value is not suitable for var.db_password"},
		"another type, long":     {"number", wire.Variable{Value: `"` + strings.Repeat("x", 40<<10) + `hunter2SECRET"`, HCL: true}, "The given value is not suitable for var.db_password"},
		"another type, in lines": {"number", wire.Variable{Value: "[\n\"hunter2SECRET\", \n\"x\"\n]", HCL: true}, "The given value is not suitable for var.db_password"},
		"another type, heredoc":  {"number", wire.Variable{Value: "<<E\nhunter2SECRET\nE\n", HCL: true}, "The given value is not suitable for var.db_password"},
		"another type, literal":  {"number", wire.Variable{Value: "hunter2SECRET"}, "The given value is not suitable for var.db_password"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `
variable "a_list" {}
variable "db_password" { type = ` + row.kind + ` }
variable "beside" {}`})
			row.value.Key = "db_password"
			f.variables.Terraform = []wire.Variable{
				{Key: "a_list", Value: `["otherSECRET"]`, HCL: true}, {Key: "beside", Value: "thirdSECRET"}, row.value,
			}
			start(t, f.config())
			done := f.await()
			require.Equal(t, wire.OutcomeErrored, done.Outcome)
			if row.says == invalid {
				assert.Equal(t, invalid, done.Message)
			} else {
				assert.Contains(t, f.logText(), row.says)
				assert.Contains(t, f.eventText(), `"type":"diagnostic"`)
			}
			for _, text := range []string{f.logText(), f.eventText(), done.Message} {
				assert.NotContains(t, text, "SECRET")
			}
		})
	}
}
