package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// The private key is a file for the runner's user alone, with which git calls ssh, and it goes
// with the sandbox.
func TestASSHKeyIsAFileOfTheSandbox(t *testing.T) {
	t.Parallel()
	s, err := newSandbox(filepath.Join(t.TempDir()))
	require.NoError(t, err)
	env := map[string]string{}
	require.NoError(t, s.giveSSHKey(env, "PRIVATE\r\n"))
	path := filepath.Join(s.path, "ssh-key")
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "PRIVATE\n", string(text), "ssh reads no key whose last line has no end")
	assert.Contains(t, env["GIT_SSH_COMMAND"], "-i "+shellWord(path)+" ")
	assert.Contains(t, env["GIT_SSH_COMMAND"], "IdentitiesOnly=yes")
	assert.NotContains(t, env["GIT_SSH_COMMAND"], "PRIVATE", "a command line is for everybody to read")
	require.NoError(t, removeSandbox(s.path))
	assert.NoFileExists(t, path)

	for name, key := range map[string]string{"none": "", "the user's own way": "PRIVATE"} {
		s, err := newSandbox(t.TempDir())
		require.NoError(t, err)
		env := map[string]string{}
		if key != "" {
			env["GIT_SSH_COMMAND"] = "my ssh"
		}
		require.NoError(t, s.giveSSHKey(env, key), name)
		assert.NoFileExists(t, filepath.Join(s.path, "ssh-key"), name)
		assert.NotContains(t, env["GIT_SSH_COMMAND"], "ssh-key", name)
	}
}

// The key is in nothing that a run hands over, also when the module cannot be fetched.
func TestARunHandsOverNothingOfItsSSHKey(t *testing.T) {
	t.Parallel()
	const key = "-----BEGIN OPENSSH PRIVATE KEY-----\nMADEUP0123456789\n-----END OPENSSH PRIVATE KEY-----"
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": "module \"m\" {\n  source = \"git::ssh://git@localhost:1/nowhere.git\"\n}\n"})
	f.variables = wire.Variables{Terraform: []wire.Variable{}, Environment: []wire.Variable{}, SSHKey: key}
	config := f.config()
	start(t, config)
	done := f.await()
	assert.NotEqual(t, wire.OutcomeFinished, done.Outcome, "nobody serves the module")
	log := f.logText()
	assert.Contains(t, log, "nowhere.git")
	assert.NotContains(t, log, "MADEUP")
	assert.NotContains(t, done.Message, "MADEUP")
	for kind, artifact := range f.artifacts {
		assert.NotContains(t, string(artifact), "MADEUP", kind)
	}
}
