package runnerapi

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/runs"
)

// PL-03: whatever an outcome depends on is in the manifest, and so in its digest.
func TestEveryInputChangesTheManifest(t *testing.T) {
	t.Parallel()
	facts := func(phase authz.Phase) runs.Facts {
		return runs.Facts{
			Attempt: dispatch.Attempt{ID: "att-1", Phase: phase, TofuVersion: "1.12.6"},
			Run: runs.Run{
				ID: "run-1", WorkspaceID: "ws-1", WorkspaceName: "app", OrganizationName: "acme", WorkingDirectory: "prod",
				Refresh: true, TargetAddrs: []string{"a.b"}, ReplaceAddrs: []string{"c.d"}, VariablesSealed: []byte("sealed"), PlanTofuDigest: "t",
			},
			Configuration: artifacts.Object{ID: "obj-1", SHA256: "c", Size: 1}, Plan: artifacts.Object{ID: "obj-2", SHA256: "p", Size: 2},
			LockFile: artifacts.Object{ID: "obj-3", SHA256: "l", Size: 3}, Settings: runs.Defaults(),
		}
	}
	digest := func(f runs.Facts) string {
		t.Helper()
		text, err := manifest(f)
		require.NoError(t, err)
		return sha256Of(text)
	}
	both := map[string]func(*runs.Facts){
		"attempt":           func(f *runs.Facts) { f.Attempt.ID = "att-2" },
		"version":           func(f *runs.Facts) { f.Attempt.TofuVersion = "1.12.7" },
		"run":               func(f *runs.Facts) { f.Run.ID = "run-2" },
		"organization":      func(f *runs.Facts) { f.Run.OrganizationName = "other" },
		"workspace":         func(f *runs.Facts) { f.Run.WorkspaceID = "ws-2" },
		"workspace's name":  func(f *runs.Facts) { f.Run.WorkspaceName = "other" },
		"working directory": func(f *runs.Facts) { f.Run.WorkingDirectory = "test" },
		"destroy":           func(f *runs.Facts) { f.Run.IsDestroy = true },
		"refresh":           func(f *runs.Facts) { f.Run.Refresh = false },
		"refresh only":      func(f *runs.Facts) { f.Run.RefreshOnly = true },
		"targets":           func(f *runs.Facts) { f.Run.TargetAddrs = nil },
		"replacements":      func(f *runs.Facts) { f.Run.ReplaceAddrs = []string{"c.e"} },
		"generation":        func(f *runs.Facts) { f.Run.GenerateConfig = true },
		"encryption":        func(f *runs.Facts) { f.Run.ClientEncrypted = true },
		"variables":         func(f *runs.Facts) { f.Run.VariablesSealed = []byte("others") },
		"configuration":     func(f *runs.Facts) { f.Configuration.SHA256 = "d" },
		"length of a run":   func(f *runs.Facts) { f.Settings.RunTTL += time.Second },
		"time to stop":      func(f *runs.Facts) { f.Settings.InterruptGrace += time.Second },
		"length of a log":   func(f *runs.Facts) { f.Settings.LogLimit++ },
	}
	apply := map[string]func(*runs.Facts){
		"plan":            func(f *runs.Facts) { f.Plan.SHA256 = "q" },
		"lock file":       func(f *runs.Facts) { f.LockFile.SHA256 = "m" },
		"no lock file":    func(f *runs.Facts) { f.LockFile = artifacts.Object{} },
		"planning binary": func(f *runs.Facts) { f.Run.PlanTofuDigest = "u" },
	}
	for phase, changes := range map[authz.Phase][]map[string]func(*runs.Facts){authz.Plan: {both}, authz.Apply: {both, apply}} {
		assert.Equal(t, digest(facts(phase)), digest(facts(phase)))
		seen := map[string]string{digest(facts(phase)): "nothing"}
		for _, list := range changes {
			for name, change := range list {
				f := facts(phase)
				change(&f)
				sum := digest(f)
				assert.Empty(t, seen[sum], fmt.Sprint(phase, ": ", name))
				seen[sum] = name
			}
		}
	}
	assert.NotEqual(t, digest(facts(authz.Plan)), digest(facts(authz.Apply)))
}
