package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTheExamplePoliciesByTheirReadme: the commands in it, as they stand there.
func TestTheExamplePoliciesByTheirReadme(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("the commands use jq")
	}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	readme, err := os.ReadFile(filepath.Join(root, "examples", "policies", "README.md"))
	require.NoError(t, err)
	script := "set -e\n"
	for line := range strings.Lines(string(readme)) {
		if command, ok := strings.CutPrefix(line, "    "); ok {
			script += command
		}
	}
	require.Contains(t, script, "curl")
	org, err := shared.api.Organizations.Create(ctx, tfe.OrganizationCreateOptions{Name: tfe.String("examples"), Email: tfe.String("ops@example.com")})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(root, "examples"), filepath.Join(dir, "examples")))
	cmd := exec.Command("sh", "-c", script)
	cmd.Dir = dir
	cmd.Env = shared.commandEnviron("TOKEN="+shared.token(), "URL="+shared.address(), "ORG="+org.Name)
	r := finish(cmd)
	require.Equal(t, 0, r.code, r.said)
	lines := strings.Fields(r.stdout)
	require.NotEmpty(t, lines, r.said)
	assert.Equal(t, "6", lines[len(lines)-1], r.said)
}
