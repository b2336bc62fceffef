package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A secret is nowhere in the stored bytes: objects, database and its log, logs of all
// services, folders of the runner.
func TestSecretsOfARunAreNowhereInPlain(t *testing.T) {
	t.Parallel()
	var secrets [3]string
	for i := range secrets {
		secrets[i] = hex.EncodeToString([]byte(rand.Text())[:12])
	}
	f := newFolder(t, shared, `
		variable "by_client" {}
		variable "by_workspace" {}
		resource "terraform_data" "a" { input = [var.by_client, var.by_workspace] }
		output "shown" { value = var.by_client }
		`+resource("says", `echo "the environment has $SECRET"`))
	f.init()
	for _, v := range []tfe.VariableCreateOptions{
		{Key: tfe.String("by_workspace"), Value: &secrets[1], Category: tfe.Category(tfe.CategoryTerraform), Sensitive: tfe.Bool(true)},
		{Key: tfe.String("SECRET"), Value: &secrets[2], Category: tfe.Category(tfe.CategoryEnv), Sensitive: tfe.Bool(true)},
	} {
		made, err := shared.api.Variables.Create(ctx, f.current().ID, v)
		require.NoError(t, err)
		assert.Empty(t, made.Value)
	}
	said := f.ok("apply", "-auto-approve", "-var", "by_client="+secrets[0])
	require.Contains(t, said, secrets[2], "the log's reader sees it")
	failed := f.tofu("plan", "-var", "by_client="+secrets[0], "-var", "undeclared="+secrets[0])
	require.Equal(t, 1, failed.code)

	var wanted [][]byte
	for _, secret := range secrets {
		wanted = append(wanted, disguises(secret)...)
	}
	// The search itself finds what is there.
	control := filepath.Join(shared.dir, "control")
	require.NoError(t, os.WriteFile(control, append([]byte("\x00"), wanted[len(wanted)-1]...), 0o600))
	assert.Equal(t, []string{control}, onlyControl(filesWith(t, shared.dir, wanted), control))
	require.NoError(t, os.Remove(control))
	eventually(t, "the runner to tidy up", func() bool { return len(filesWith(t, shared.dir, wanted)) == 0 })
}

func onlyControl(found []string, control string) []string {
	for _, path := range found {
		if path == control {
			return []string{path}
		}
	}
	return nil
}

// disguises are the secret in plain, and as base64 writes it at each of three alignments.
func disguises(secret string) [][]byte {
	forms := [][]byte{[]byte(secret)}
	for _, lead := range []string{"", "x", "xx"} {
		encoded := base64.StdEncoding.EncodeToString([]byte(lead + secret))
		forms = append(forms, []byte(encoded[4:len(encoded)-4])) // the ends depend on the neighbours
	}
	return forms
}

// filesWith lists the files that hold one of the texts. A file that vanishes meanwhile is none.
func filesWith(t *testing.T, dir string, texts [][]byte) (found []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil
		}
		for _, text := range texts {
			if bytes.Contains(content, text) {
				found = append(found, path)
				break
			}
		}
		return err
	})
	require.NoError(t, err)
	return found
}
