package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// encryption is a block by which tofu encrypts states and plans, with another passphrase
// for each key.
func encryption(key, more string) string {
	return fmt.Sprintf(`
		terraform {
		  encryption {
		    key_provider "pbkdf2" "k" {
		      passphrase               = "correct %[1]s battery staple"
		      encrypted_metadata_alias = %[1]q
		    }
		    method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
		    state {
		      method   = method.aes_gcm.m
		      enforced = true
		    }
		    plan {
		      method   = method.aes_gcm.m
		      enforced = true
		    }
		    %[2]s
		  }
		}
		`, key, more)
}

func secretive(value string) string {
	return fmt.Sprintf(`
		resource "terraform_data" "a" { input = %q }
		output "shown" { value = { list = [terraform_data.a.output], number = 7 } }
		output "name" { value = terraform_data.a.output }
		output "hidden" {
		  value     = "sesame"
		  sensitive = true
		}`, value)
}

// insist turns client-encrypted of the workspace w on or off.
func (d *desk) insist(on bool) {
	d.t.Helper()
	body := fmt.Appendf(nil, `{"data":{"type":"workspaces","attributes":{"client-encrypted":%t}}}`, on)
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, shared.environ["TFE_ADDRESS"]+"/api/v2/workspaces/"+d.workspace("w").ID, bytes.NewReader(body))
	require.NoError(d.t, err)
	request.Header.Set("Authorization", "Bearer "+shared.environ["TFE_TOKEN"])
	request.Header.Set("Content-Type", "application/vnd.api+json")
	response, err := shared.http.Do(request)
	require.NoError(d.t, err)
	defer func() { _ = response.Body.Close() }()
	require.Equal(d.t, http.StatusOK, response.StatusCode)
	var said struct {
		Data struct {
			Attributes struct {
				ClientEncrypted *bool `json:"client-encrypted"`
			}
		}
	}
	require.NoError(d.t, json.NewDecoder(response.Body).Decode(&said))
	require.Equal(d.t, &on, said.Data.Attributes.ClientEncrypted)
}

// keepsCiphertextOnly checks that the server has the current state of w, and nothing of it
// in a form that it can read.
func (d *desk) keepsCiphertextOnly() {
	d.t.Helper()
	w := d.workspace("w")
	current, err := shared.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(d.t, err)
	assert.Empty(d.t, current.JSONDownloadURL)
	stored, err := shared.api.StateVersions.Download(ctx, current.DownloadURL)
	require.NoError(d.t, err)
	var file map[string]json.RawMessage
	require.NoError(d.t, json.Unmarshal(stored, &file))
	assert.Contains(d.t, file, "encrypted_data")
	assert.NotContains(d.t, file, "outputs")
	outputs, err := shared.api.StateVersionOutputs.ReadCurrent(ctx, w.ID)
	require.NoError(d.t, err)
	require.Len(d.t, outputs.Items, 1, "one without a type: the client reads the state")
	assert.Nil(d.t, outputs.Items[0].DetailedType)
	assert.Nil(d.t, outputs.Items[0].Value)
}

func TestAWorkspaceThatTakesOnlyEncryptedState(t *testing.T) {
	t.Parallel()
	inBothModes(t, encryption("horse", "")+secretive("first"), func(t *testing.T, d *desk, f *folder) {
		outputs := func() (all map[string]struct {
			Value     any
			Type      any
			Sensitive bool
		},
		) {
			t.Helper()
			r := f.tofu("output", "-json")
			require.Equal(t, 0, r.code, r.said)
			require.NoError(t, json.Unmarshal([]byte(r.stdout), &all))
			return all
		}
		kept := outputs()
		known, err := shared.api.StateVersionOutputs.ReadCurrent(ctx, d.workspace("w").ID)
		require.NoError(t, err)
		assert.Len(t, known.Items, 3, "without the setting the server knows the outputs")

		d.insist(true)
		f.write("file-1.tf", encryption("horse", "")+secretive("second"))
		f.ok("apply", "-auto-approve")
		d.keepsCiphertextOnly()
		now := outputs()
		assert.Equal(t, "second", f.output("name"))
		assert.Equal(t, "sesame", f.output("hidden"))
		assert.Equal(t, kept["hidden"], now["hidden"])
		assert.Equal(t, kept["shown"].Type, now["shown"].Type)
		assert.Equal(t, map[string]any{"list": []any{"second"}, "number": 7.0}, now["shown"].Value)
		said := f.ok("output")
		assert.Contains(t, said, `name = "second"`)
		assert.Contains(t, said, "hidden = <sensitive>")
		f.fails([]string{`Output "absent" not found`}, "output", "absent")
		assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
		assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code)

		f.write("file-1.tf", encryption("horse", "")+`resource "terraform_data" "a" { input = "second" }`)
		f.ok("apply", "-auto-approve")
		d.keepsCiphertextOnly()
		assert.Contains(t, f.ok("output"), "No outputs found")
	})
}

// A state in plain is refused, and what tofu then leaves on disk can be pushed encrypted.
func TestAStateInPlainIsRefusedWhereEncryptionIsInsistedOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	options := remote(t)
	mode := "local"
	options.ExecutionMode = &mode
	d.newWorkspace("w", options)
	d.insist(true)
	f := d.folder(d.inCloud(`name = "w"`), secretive("first"))
	f.ok("init")
	f.fails([]string{"error uploading state: error HTTP response: 422", "errored.tfstate"}, "apply", "-auto-approve")
	refused := d.read(shared.environ["TFE_ADDRESS"]+"/api/v2/workspaces/"+d.workspace("w").ID+"/state-versions?filter[status]=discarded", shared.environ["TFE_TOKEN"], "")
	assert.Contains(t, refused, `"discard-reason":"state_not_encrypted"`, "the client does not say more")
	f.fails([]string{"No state file was found"}, "state", "list")
	assert.True(t, d.workspace("w").Locked, "the client keeps the lock for whoever pushes the state")

	f.ok("force-unlock", "-force", d.organization+"/w")
	f.write("file-1.tf", encryption("horse", "")+secretive("first"))
	f.ok("state", "push", "errored.tfstate")
	d.keepsCiphertextOnly()
	assert.Equal(t, 0, f.tofu("plan", "-detailed-exitcode").code, "the resource that was made is known")
}

// In a run that is known before the apply has made something.
func TestARunThatCannotEncryptItsStateEndsBeforeItsPlan(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("w", remote(t))
	d.insist(true)
	f := d.folder(d.inCloud(`name = "w"`), secretive("first"))
	f.ok("init")
	f.fails([]string{"takes only a state that OpenTofu has encrypted"}, "apply", "-auto-approve")
	assert.False(t, d.workspace("w").Locked)

	w := d.workspace("w")
	_, err := shared.api.Variables.Create(ctx, w.ID, tfe.VariableCreateOptions{
		Key: tfe.String("TF_ENCRYPTION"), Category: tfe.Category(tfe.CategoryEnv), Sensitive: tfe.Bool(true), Value: tfe.String(`
			key_provider "pbkdf2" "k" { passphrase = "correct horse battery staple" }
			method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
			state { method = method.aes_gcm.m }`),
	})
	require.NoError(t, err)
	assert.Contains(t, f.ok("apply", "-auto-approve"), complete, "the key may be known to the runner alone")
	d.keepsCiphertextOnly()
}

// tofu encrypts its own plan files, and a run's plan works all the same.
func TestPlansThatTofuEncrypts(t *testing.T) {
	t.Parallel()
	inBothModes(t, encryption("horse", "")+secretive("first"), func(t *testing.T, d *desk, f *folder) {
		f.write("file-1.tf", encryption("horse", "")+secretive("second"))
		f.ok("plan", "-out=saved")
		if d.workspace("w").ExecutionMode == "local" {
			saved, err := os.ReadFile(filepath.Join(f.dir, "saved"))
			require.NoError(t, err)
			assert.Contains(t, string(saved), `"encrypted_data"`)
		}
		assert.Contains(t, f.ok("show", "saved"), `"first" -> "second"`)
		assert.Contains(t, f.ok("apply", "saved"), "1 changed")
		assert.Equal(t, "second", f.output("name"))
	})
}

// Case 35: each reads with the key that it was told.
func TestRemoteStateOfAnEncryptedWorkspace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	options := remote(t)
	mode := "local"
	options.ExecutionMode = &mode
	d.newWorkspace("w", options)
	d.newWorkspace("reader", options)
	d.insist(true)
	source := d.folder(d.inCloud(`name = "w"`), encryption("horse", "")+`output "val" { value = "of the source" }`)
	source.ok("init")
	source.ok("apply", "-auto-approve")

	const theirs = `
		key_provider "pbkdf2" "theirs" {
		  passphrase               = "correct horse battery staple"
		  encrypted_metadata_alias = "horse"
		}
		method "aes_gcm" "theirs" { keys = key_provider.pbkdf2.theirs }
		remote_state_data_sources {
		  remote_state_data_source "other" { method = method.aes_gcm.theirs }
		}`
	f := d.folder(d.inCloud(`name = "reader"`), encryption("donkey", theirs)+d.remoteState(`name = "w"`))
	f.ok("init")
	f.ok("apply", "-auto-approve")
	assert.Equal(t, "of the source", f.output("seen"))
	f.write("file-1.tf", encryption("donkey", "")+d.remoteState(`name = "w"`))
	f.fails([]string{"encrypted"}, "plan")
}
