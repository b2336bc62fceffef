package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

func TestCheckEncryption(t *testing.T) {
	t.Parallel()
	const block = "terraform {\n  encryption {}\n}\n"
	for name, c := range map[string]struct {
		files       map[string]string
		environment []wire.Variable
		refused     bool
	}{
		"nothing":                {nil, nil, true},
		"a block":                {map[string]string{"a.tf": "", "z.tf": block}, nil, false},
		"in OpenTofu's file":     {map[string]string{"a.tofu": block}, nil, false},
		"in JSON":                {map[string]string{"a.tf.json": `{"terraform":{"encryption":{}}}`}, nil, false},
		"in another file":        {map[string]string{"a.tf": "", "README.md": block, "a.tf.bak": block}, nil, true},
		"in a module":            {map[string]string{"a.tf": "", "m/a.tf": block}, nil, true},
		"in the environment":     {nil, []wire.Variable{{Key: "OTHER"}, {Key: "TF_ENCRYPTION", Value: "state {}"}}, false},
		"empty there":            {nil, []wire.Variable{{Key: "TF_ENCRYPTION"}}, true},
		"a folder like a file":   {map[string]string{"a.tf/encryption": "encryption"}, nil, true},
		"another variable of it": {nil, []wire.Variable{{Key: "TF_VAR_encryption", Value: "encryption"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &attempt{sandbox: sandbox{work: t.TempDir()}, manifest: wire.Manifest{EncryptedState: true}}
			for file, text := range c.files {
				path := filepath.Join(a.sandbox.work, file)
				require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
				require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			}
			if c.refused {
				require.ErrorContains(t, a.checkEncryption(c.environment), "takes only a state that OpenTofu has encrypted")
			} else {
				require.NoError(t, a.checkEncryption(c.environment))
			}
			a.manifest.EncryptedState = false
			assert.NoError(t, a.checkEncryption(c.environment), "elsewhere nobody asks")
		})
	}
}
