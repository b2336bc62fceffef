package runs

import (
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// tearingDown brings a teardown of a workspace with a state to its accepted apply.
func (w *world) tearingDown(ws ids.Workspace) *executor {
	w.Helper()
	w.confirmed(ws).apply(1)
	run := w.waiting(ws, as(OperationTeardown))
	require.NoError(w, w.runs.Confirm(ctx, w.owner, run, Decision{}))
	return w.take(run)
}

func (w *world) wantGone(ws ids.Workspace) {
	w.Helper()
	_, err := w.spaces.Get(ctx, w.owner, ws)
	require.True(w, fault.Is(err, fault.NotFound), "the workspace is there: %v", err)
}

func TestATeardownTakesItsWorkspaceWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	_, err := w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "secret", Value: "x", Category: workspaces.Terraform, Sensitive: true})
	require.NoError(t, err)
	e := w.tearingDown(ws)
	waits, looks := w.run(ws), w.run(ws, planOnly)
	unused, err := w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{})
	require.NoError(t, err)
	epoch := w.fence(ws).Epoch
	e.apply(2)

	d := w.wantStatus(e.RunID, Succeeded)
	assert.True(t, d.IsDestroy)
	assert.NotEmpty(t, d.ResultingVersionID)
	w.wantReleased(e.RunID)
	w.wantGone(ws)
	assert.Greater(t, w.fence(ws).Epoch, epoch)
	assert.False(t, w.fence(ws).Held())
	for _, run := range []ids.Run{waits.ID, looks.ID} {
		other := w.wantStatus(run, Canceled)
		assert.Equal(t, "workspace_deleted", other.DurableReason)
		assert.Len(t, other.History, 2, "it was not promoted before")
	}
	assert.Zero(t, count(w, "select count(*) from variables where workspace_id = @ws", postgres.Args{"ws": ws}))
	assert.Zero(t, count(w, "select count(*) from configuration_versions where workspace_id = @ws and (status <> 'archived' or object_id is not null)", postgres.Args{"ws": ws}))
	_, _, err = w.runs.objects.Open(ctx, d.OrganizationID, d.ConfigurationObjectID)
	assert.True(t, fault.Is(err, fault.NotFound), "its bytes are given up: %v", err)
	err = w.runs.UploadConfiguration(ctx, unused.ID, strings.NewReader(string(tarball("late"))))
	assert.Error(t, err, "an upload that comes late")
	assert.Equal(t, 1, count(w, "select count(*) from configuration_versions where id = @id and status = 'archived'", postgres.Args{"id": unused.ID}))

	assert.Equal(t, 2, count(w, "select count(*) from state_versions where workspace_id = @ws and status = 'finalized'", postgres.Args{"ws": ws}), "states are kept")
	assert.Equal(t, mainPath, d.steps(), "history is kept")
	for _, action := range []string{"workspace.deleted", "workspace.variables-purged"} {
		assert.Equal(t, 1, count(w, "select count(*) from audit_entries where object_id = @ws and action = @a and actor_id = @u", postgres.Args{"ws": ws, "a": action, "u": w.owner.User}), action)
	}
	_, err = w.spaces.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: d.WorkspaceName})
	assert.NoError(t, err, "its name is free")
}

func TestATeardownOfAnEmptyWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.take(w.run(ws, as(OperationTeardown)).ID)
	e.plan(false)
	w.wantStatus(e.RunID, Succeeded)
	w.wantGone(ws)
}

func TestATeardownThatLeavesSomethingKeepsTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.tearingDown(ws)
	next := w.run(ws)
	e.start()
	content := fmt.Sprintf(`{"version":4,"terraform_version":"%s","serial":2,"lineage":"%s","outputs":{},"resources":[{"mode":"managed","type":"a","name":"b","provider":"provider[\"registry.opentofu.org/x/a\"]","instances":[{"attributes":{}}]}]}`, tofu, lineage)
	sum := md5.Sum([]byte(content))
	v, _, err := w.state.Begin(ctx, e.actor, ws, state.Create{Serial: 2, Lineage: lineage, MD5: hex.EncodeToString(sum[:])})
	require.NoError(t, err)
	_, err = w.state.Upload(ctx, v.ID, strings.NewReader(content))
	require.NoError(t, err)
	e.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()})
	d := w.wantStatus(e.RunID, Succeeded)
	assert.Equal(t, "workspace_kept", d.DurableReason)
	assert.Contains(t, d.StatusMessage, "1 known")
	_, err = w.spaces.Get(ctx, w.owner, ws)
	require.NoError(t, err)
	w.wantAdmitted(next.ID)
}

// The right is looked at when the workspace goes, not only when that was asked for.
func TestATeardownNeedsTheRightToDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.tearingDown(ws)
	next := w.run(ws)
	w.exec("update memberships set role = 'member' where user_id = @user", postgres.Args{"user": w.owner.User})
	w.exec("insert into team_memberships (organization_id, team_id, user_id) select organization_id, id, @user from teams where name = 'readers-of-bob'", postgres.Args{"user": w.owner.User})
	e.apply(2)
	d := w.wantStatus(e.RunID, Succeeded)
	assert.Equal(t, "workspace_kept", d.DurableReason)
	assert.Contains(t, d.StatusMessage, "workspace:delete")
	w.wantAdmitted(next.ID)
}

func TestATeardownThatFailsOrIsRefusedKeepsTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	e := w.tearingDown(ws)
	e.start()
	e.done(Done{Outcome: OutcomeErrored, TofuStarted: true, ExitCode: 1})
	w.wantStatus(e.RunID, ApplyFailed)
	run := w.waiting(ws, as(OperationTeardown))
	require.NoError(t, w.runs.Discard(ctx, w.owner, run, Decision{}))
	_, err := w.spaces.Get(ctx, w.owner, ws)
	require.NoError(t, err)

	forbidden := w.workspaceWith(workspaces.Settings{AllowDestroyPlan: ptr(false)})
	_, err = w.tryRun(forbidden, as(OperationTeardown))
	wantCode(t, err, fault.Invalid, "invalid_attribute")
}
