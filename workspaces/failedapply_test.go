package workspaces_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/workspaces"
)

// A person looks at every failed apply of a production workspace, however it came to be one.
func TestAProductionWorkspaceNeverReleasesByItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release := workspaces.Settings{FailedApply: ptr(workspaces.ReleaseWhenProven)}
	production := workspaces.Settings{EnvironmentClass: ptr(workspaces.Production)}
	both := workspaces.Settings{FailedApply: release.FailedApply, EnvironmentClass: production.EnvironmentClass}
	refused := func(err error, text string) {
		t.Helper()
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
		assert.ErrorContains(t, err, text)
	}
	_, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: both})
	refused(err, "production")

	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: production})
	require.NoError(t, err)
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: release})
	refused(err, "production")
	changed, err := w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: workspaces.Settings{FailedApply: release.FailedApply, EnvironmentClass: ptr(workspaces.Other)}})
	require.NoError(t, err)
	assert.Equal(t, []any{workspaces.Other, workspaces.ReleaseWhenProven}, []any{changed.EnvironmentClass, changed.FailedApply})
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: production})
	refused(err, "production")
	_, err = w.Update(ctx, w.member, ws.ID, workspaces.Changes{Settings: release})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)

	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: workspaces.Settings{FailedApply: ptr(workspaces.FailedApply("always"))}})
	refused(err, "release-when-proven")
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: workspaces.Settings{EnvironmentClass: ptr(workspaces.EnvironmentClass("test"))}})
	refused(err, "production or other")
}
