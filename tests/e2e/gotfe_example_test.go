package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheExampleOfGoTFE runs examples/go-tfe as its reader does: the first time it makes
// everything, the second time it changes the output.
func TestTheExampleOfGoTFE(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "go-tfe")
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", program, "./examples/go-tfe")
	build.Dir = filepath.Join("..", "..")
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)

	example := func(args ...string) (outputs map[string]any, told string, err error) {
		cmd := exec.CommandContext(t.Context(), program, append([]string{"-workspace", "example-of-go-tfe", "-project", "Example of go-tfe"}, args...)...)
		cmd.Dir = filepath.Join("..", "..")
		var printed, errors bytes.Buffer
		cmd.Stdout, cmd.Stderr = &printed, &errors
		cmd.Env = append(os.Environ(), "TFE_ADDRESS="+shared.address(), "TFE_TOKEN="+shared.token(), "SSL_CERT_FILE="+shared.environ["SSL_CERT_FILE"])
		if err = cmd.Run(); err == nil {
			require.NoError(t, json.Unmarshal(printed.Bytes(), &outputs), printed.String())
		}
		return outputs, errors.String(), err
	}
	outputs, told, err := example()
	require.NoError(t, err, told)
	assert.Equal(t, map[string]any{"greeting": "Hello from go-tfe", "key": nil}, outputs)
	assert.Contains(t, told, "the plan adds 1, changes 0 and destroys 0")
	outputs, told, err = example("-greeting", `it's "quoted"`)
	require.NoError(t, err, told)
	assert.Equal(t, `it's "quoted"`, outputs["greeting"])
	assert.Contains(t, told, "the plan adds 0, changes 1 and destroys 0")

	w, err := shared.api.Workspaces.Read(ctx, "demo", "example-of-go-tfe")
	require.NoError(t, err)
	project, err := shared.api.Projects.Read(ctx, w.Project.ID)
	require.NoError(t, err)
	assert.Equal(t, "Example of go-tfe", project.Name)
	list, err := shared.api.Runs.List(ctx, w.ID, nil)
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	for _, r := range list.Items {
		assert.Equal(t, tfe.RunApplied, r.Status)
	}

	broken := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(broken, "main.tf"), []byte("variable \"greeting\" {}\noutput \"x\" { value = nothing.there }\n"), 0o600))
	_, told, err = example("-configuration", broken)
	require.Error(t, err, "a plan that failed is no success")
	assert.Contains(t, told, "ended as errored")
}
