package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A stack as a user starts it: a hostile configuration finds none of its secrets, while it
// plans, applies and publishes like any other.
func TestAHostileRunFindsNothingOfTheStack(t *testing.T) {
	t.Parallel()
	if exec.Command("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "true").Run() != nil {
		t.Skip("bubblewrap is not installed, or the system gives no namespaces to users: runs are not isolated here, and nothing says that they are")
	}
	s := isolatingStack(t, t.TempDir(), "auto") // as a user starts it
	w := s.newWorkspace(t, "w")
	var script strings.Builder
	for _, secret := range []string{"admin-token", "admin-password", "runner-token", "s3-credentials", "env", "tofu.rc", "keys/keyring.json", "tls/server-key.pem", "postgres/data/PG_VERSION", "logs/server.log", "runner/lock"} {
		fmt.Fprintf(&script, "test -e '%s' && echo FOUND %s\n", filepath.Join(s.dir, secret), secret)
	}
	script.WriteString("cat /proc/*/environ | tr '\\\\0' '\\\\n' | grep -E 'HOLDFAST_(DATABASE|S3|KEYRING|RUNNER_TOKEN)' && echo FOUND a variable\necho SEARCHED\n")
	r := s.newRun(t, w.ID, resource("hostile", script.String())+`output "a" { value = terraform_data.hostile.output }`)
	facts := s.ended(t, r.ID)
	require.Equal(t, "applied", facts.Status, facts.StatusMessage)
	assert.Equal(t, "hostile", s.outputs(t, w.ID)["a"])
	read, err := s.api.Runs.Read(ctx, r.ID)
	require.NoError(t, err)
	apply, err := s.api.Applies.Read(ctx, read.Apply.ID)
	require.NoError(t, err)
	log := s.as(t, "", http.MethodGet, apply.LogReadURL, nil).body
	assert.Contains(t, log, "(local-exec): SEARCHED")
	assert.NotContains(t, log, "(local-exec): FOUND")
}
