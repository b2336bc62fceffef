package e2e

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// encrypted is a configuration whose state tofu encrypts before it sends it.
func encrypted(value string) string {
	return fmt.Sprintf(`
		terraform {
		  encryption {
		    key_provider "pbkdf2" "k" { passphrase = "correct horse battery staple" }
		    method "aes_gcm" "m" { keys = key_provider.pbkdf2.k }
		    state {
		      method   = method.aes_gcm.m
		      enforced = true
		    }
		  }
		}
		resource "terraform_data" "a" { input = %q }
		output "a" { value = terraform_data.a.output }
		output "hidden" {
		  value     = "sesame"
		  sensitive = true
		}`, value)
}

// seesEncryptedState checks that the server holds ciphertext, byte for byte what tofu
// sent, and that everything can be read all the same.
func (f *folder) seesEncryptedState(value string) {
	f.t.Helper()
	current, err := f.stack.api.StateVersions.ReadCurrent(ctx, f.current().ID)
	require.NoError(f.t, err)
	stored := f.stateBytes()
	assert.NotContains(f.t, string(stored), value)
	var file struct {
		Serial        int64
		Lineage       string
		EncryptedData string `json:"encrypted_data"`
		Resources     []any
	}
	require.NoError(f.t, json.Unmarshal(stored, &file))
	assert.NotEmpty(f.t, file.EncryptedData)
	assert.Empty(f.t, file.Resources)
	assert.Equal(f.t, current.Serial, file.Serial)

	var pulled struct {
		Serial  int64
		Lineage string
		Outputs map[string]struct{ Value any }
	}
	require.NoError(f.t, json.Unmarshal([]byte(f.tofu("state", "pull").stdout), &pulled))
	assert.Equal(f.t, file.Serial, pulled.Serial)
	assert.Equal(f.t, file.Lineage, pulled.Lineage)
	assert.Equal(f.t, value, pulled.Outputs["a"].Value)
	assert.Equal(f.t, value, f.output("a"))
	assert.Equal(f.t, "sesame", f.output("hidden"))
	assert.Equal(f.t, 0, f.tofu("plan", "-detailed-exitcode").code, "it reads its own state")
}

func TestStateThatTofuEncryptsLocally(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, encrypted("first-value"))
	f.localWorkspace()
	f.init()
	f.ok("apply", "-auto-approve")
	f.seesEncryptedState("first-value")
	f.write("main.tf", encrypted("second-value"))
	f.ok("apply", "-auto-approve")
	f.seesEncryptedState("second-value")
	f.ok("destroy", "-auto-approve")
}

func TestStateThatTofuEncryptsOnTheRunner(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, encrypted("first-value"))
	f.init()
	f.ok("apply", "-auto-approve")
	f.seesEncryptedState("first-value")
	f.write("main.tf", encrypted("second-value"))
	f.ok("apply", "-auto-approve")
	f.seesEncryptedState("second-value")
}

// Cases 10 and 35: the server gives back the very bytes that it got.
func TestStateBytesComeBackAsTheyWent(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"odd spelling":     "{ \"version\":4,\n\t\"serial\": 4503599627370497, \"lineage\":\"l\", \"terraform_version\":\"1.12.0\",\"resources\":[],\"outputs\":{\"x\":{\"value\":\"<a> & \\u00e9 é\",\"type\":\"string\"}},\"zz\":1.0e0}\r\n \n",
		"client encrypted": `{"serial":7,"lineage":"l","meta":{"key_provider.pbkdf2.k":"e30="},"encrypted_data":"AAECAw==","encryption_version":"v0"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := shared.newWorkspace(t, workspaceName(t))
			_, err := shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
			require.NoError(t, err)
			var outer struct{ Serial int64 }
			require.NoError(t, json.Unmarshal([]byte(content), &outer))
			sum := md5.Sum([]byte(content))
			_, err = shared.api.StateVersions.Upload(ctx, w.ID, tfe.StateVersionUploadOptions{
				StateVersionCreateOptions: tfe.StateVersionCreateOptions{
					Serial: &outer.Serial, Lineage: tfe.String("l"), MD5: tfe.String(hex.EncodeToString(sum[:])),
				},
				RawState: []byte(content),
			})
			require.NoError(t, err)
			current, err := shared.api.StateVersions.ReadCurrent(ctx, w.ID)
			require.NoError(t, err)
			assert.Equal(t, outer.Serial, current.Serial)
			back, err := shared.api.StateVersions.Download(ctx, current.DownloadURL)
			require.NoError(t, err)
			assert.Equal(t, content, string(back))
		})
	}
}
