package runner

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// checkEncryption refuses a configuration that cannot encrypt its state, where the
// server takes no other: the apply would make things and then could not say so. It
// finds what names no encryption at all; whether the one that is named works for the
// state, the server sees when the bytes arrive.
func (a *attempt) checkEncryption(environment []wire.Variable) error {
	if !a.manifest.EncryptedState {
		return nil
	}
	if slices.ContainsFunc(environment, func(v wire.Variable) bool { return v.Key == "TF_ENCRYPTION" && v.Value != "" }) {
		return nil
	}
	entries, err := os.ReadDir(a.sandbox.work)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !isConfiguration(entry.Name()) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(a.sandbox.work, entry.Name()))
		if err == nil && bytes.Contains(text, []byte("encryption")) {
			return nil
		}
	}
	return fail("The workspace takes only a state that OpenTofu has encrypted, and neither has this configuration an `encryption` block nor the workspace a variable TF_ENCRYPTION. Add one with a method for the state.")
}
