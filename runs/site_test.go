package runs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/workspaces"
)

var root = authz.Actor{Kind: authz.UserActor, User: "user-root", Name: "root", SiteAdmin: true}

// TestForceCancelNow needs no cancel and no waiting, and ends no apply (G-44).
func TestForceCancelNow(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	planning, waits := w.run(ws), w.run(ws)
	e := w.take(planning.ID)
	err := w.runs.ForceCancelNow(ctx, w.owner, planning.ID, "")
	assert.True(t, fault.Is(err, fault.NotFound), "an owner is no site admin: %v", err)
	require.NoError(t, w.runs.ForceCancelNow(ctx, root, waits.ID, "not needed"))
	w.wantStatus(waits.ID, Canceled)
	require.NoError(t, w.runs.ForceCancelNow(ctx, root, planning.ID, "stuck"))
	assert.Equal(t, ForceCanceled, w.wantStatus(planning.ID, Canceled).DurableReason)
	require.Error(t, e.tryDone(planned(true)), "its runner has no authority any more")
	w.wantFree(ws)
	decided := w.waiting(ws)
	require.NoError(t, w.runs.ForceCancelNow(ctx, root, decided, ""))
	w.wantStatus(decided, Canceled)
	wantCode(t, w.runs.ForceCancelNow(ctx, root, decided, ""), fault.Conflict, "invalid_transition")

	applies := w.applying(ws)
	wantCode(t, w.runs.ForceCancelNow(ctx, root, applies.RunID, ""), fault.Conflict, "invalid_transition")
	w.wantStatus(applies.RunID, Applying)
}

// TestAPlanOrApplyIsCanceledAfterItsTime: by the organization's limit, or else the site's. What
// was written to is not free by that.
func TestAPlanOrApplyIsCanceledAfterItsTime(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	plans := w.run(ws)
	e := w.take(plans.ID)
	late := func(e *executor, column string) {
		w.exec("update attempts set "+column+" = clock_timestamp() - interval '2 hours' where id = @id", postgres.Args{"id": e.ID})
	}
	late(e, "accepted_at")
	w.sweep()
	assert.Nil(t, w.get(plans.ID).CancelRequestedAt, "the site gives it longer")
	w.exec("update organizations set plan_timeout_seconds = 3600, apply_timeout_seconds = 10800", nil)
	w.sweep()
	assert.NotNil(t, w.get(plans.ID).CancelRequestedAt)
	assert.Equal(t, 1, count(w, "select count(*) from audit_entries where object_id = @r and action = 'run.cancel-requested' and reason like 'The plan took longer than the 1h0m0s%'", postgres.Args{"r": plans.ID}))
	w.sweep()
	e.done(Done{Outcome: OutcomeCanceled, TofuStarted: true})
	w.wantStatus(plans.ID, Canceled)

	applies := w.applying(ws)
	late(applies, "apply_started_at")
	w.sweep()
	assert.Nil(t, w.get(applies.RunID).CancelRequestedAt)
	w.exec("update organizations set apply_timeout_seconds = 3600", nil)
	w.sweep()
	assert.NotNil(t, w.get(applies.RunID).CancelRequestedAt)
	w.wantStatus(applies.RunID, Applying)
	applies.done(Done{Outcome: OutcomeCanceled, TofuStarted: true, ExitCode: 1})
	w.wantHeld(applies.RunID)
}

// TestNoRunBeginsWithADisabledVersion: latest is another one then, and who wants this one is told.
func TestNoRunBeginsWithADisabledVersion(t *testing.T) {
	w := newWorld(t)
	w.poll()
	catalogue := site.New(w.db)
	list, _, err := catalogue.ToolVersions(ctx, system, site.Terraform, site.ToolVersionFilter{Version: tofu})
	require.NoError(t, err)
	require.Len(t, list, 1, "the runner brought it")
	no, exact := false, tofu
	wants := w.workspaceWith(workspaces.Settings{TerraformVersion: &exact})
	_, err = catalogue.UpdateToolVersion(ctx, system, site.Terraform, list[0].ID, site.ToolVersionChanges{Enabled: &no})
	require.NoError(t, err)
	for ws, says := range map[ids.Workspace]string{w.workspace(): "Every version of OpenTofu that the runners have is disabled", wants: "Every version of OpenTofu"} {
		r := w.run(ws)
		assert.Contains(t, w.wantStatus(r.ID, PlanFailed).StatusMessage, says)
	}
	w.exec("insert into runner_group_versions (group_id, version) select id, '9.0.1' from runner_groups", nil)
	w.exec("update tool_versions set enabled = true where version = '9.0.1'", nil)
	assert.Equal(t, "9.0.1", w.run(w.workspace()).TerraformVersion, "latest is what may be used")
	assert.Contains(t, w.wantStatus(w.run(wants).ID, PlanFailed).StatusMessage, "OpenTofu "+tofu+" is disabled on this site. Set the workspace's terraform-version to 9.0.1 or to latest.")
}

// TestNothingStartsInADisabledOrganization, also not what is queued already.
func TestNothingStartsInADisabledOrganization(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	queued := w.run(ws)
	w.exec("update organizations set disabled_at = clock_timestamp()", nil)
	_, err := w.tryRun(w.workspace())
	wantCode(t, err, fault.Forbidden, "organization_suspended")
	_, found := w.poll()
	assert.False(t, found)
	assert.Contains(t, w.get(queued.ID).GateReason, "disabled")
	w.exec("update organizations set disabled_at = null", nil)
	w.take(queued.ID)
}

func TestTheRunsOfTheSite(t *testing.T) {
	w := newWorld(t)
	one, other := w.run(w.workspace()), w.run(w.workspace())
	w.exec("update runs set created_at = clock_timestamp() - interval '2 days' where id = @id", postgres.Args{"id": one.ID})
	made := w.get(other.ID).CreatedAt
	before := made.AddDate(0, 0, -1)
	for _, c := range []struct {
		filter SiteFilter
		want   []ids.Run
	}{
		{SiteFilter{}, []ids.Run{other.ID, one.ID}}, {SiteFilter{Query: string(one.ID)}, []ids.Run{one.ID}}, {SiteFilter{Since: &before}, []ids.Run{other.ID}},
		{SiteFilter{Until: &before}, []ids.Run{one.ID}}, {SiteFilter{Statuses: []string{"planning"}}, nil}, {SiteFilter{Nothing: true}, nil},
		{SiteFilter{Query: one.WorkspaceName}, []ids.Run{one.ID}},
	} {
		c.filter.Limit = 20
		list, more, err := w.runs.OfSite(ctx, root, c.filter)
		require.NoError(t, err)
		assert.False(t, more)
		var found []ids.Run
		for _, d := range list {
			found = append(found, d.ID)
		}
		assert.Equal(t, c.want, found, "%+v", c.filter)
	}
	list, more, err := w.runs.OfSite(ctx, root, SiteFilter{Limit: 1})
	require.NoError(t, err)
	assert.Len(t, list, 1)
	assert.True(t, more)
	_, _, err = w.runs.OfSite(ctx, w.owner, SiteFilter{Limit: 1})
	assert.True(t, fault.Is(err, fault.NotFound))
}

// TestARunProvesWhatItIs to whom its workspace names, with a token that ends with its attempt.
func TestARunProvesWhatItIs(t *testing.T) {
	w := newWorld(t)
	settings := Defaults()
	var asked []site.Claims
	settings.Identity = func(_ context.Context, c site.Claims) (string, error) {
		asked = append(asked, c)
		return "signed", nil
	}
	w = w.with(settings)
	ws := w.workspace()
	e := w.take(w.run(ws).ID)
	list, err := w.runs.InputVariables(ctx, e.actor)
	require.NoError(t, err)
	assert.Empty(t, list, "nobody asked for it")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, e.RunID, ""))
	e.done(Done{Outcome: OutcomeCanceled})

	_, err = w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: workspaces.IdentityAudience, Value: "aws.workload.identity", Category: workspaces.Env})
	require.NoError(t, err)
	e = w.take(w.run(ws).ID)
	list, err = w.runs.InputVariables(ctx, e.actor)
	require.NoError(t, err)
	assert.Contains(t, list, Variable{Key: "TFC_WORKLOAD_IDENTITY_TOKEN", Value: "signed", Env: true})
	require.Len(t, asked, 1)
	assert.Equal(t, "aws.workload.identity", asked[0].Audience)
	assert.Equal(t, "plan", asked[0].Phase)
	assert.Equal(t, string(e.RunID), asked[0].RunID)
	assert.NotEmpty(t, asked[0].ProjectName)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		a, err := dispatch.Get(ctx, tx, e.ID)
		assert.Equal(t, a.TokenExpiresAt.Unix(), asked[0].ExpiresAt.Unix())
		return err
	}))
}

// TestAnApplyProvesWhatItIsAnew: what the plan was given is long over when somebody confirms, and
// the apply gets a token of its own, which is not in the plan (case 62).
func TestAnApplyProvesWhatItIsAnew(t *testing.T) {
	w := newWorld(t)
	settings := Defaults()
	var asked []site.Claims
	settings.Identity = func(_ context.Context, c site.Claims) (string, error) {
		asked = append(asked, c)
		return "signed-for-" + c.Phase, nil
	}
	w = w.with(settings)
	ws := w.workspace()
	_, err := w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: workspaces.IdentityAudience, Value: "aws.workload.identity", Category: workspaces.Env})
	require.NoError(t, err)
	given := func(e *executor) string {
		list, err := w.runs.InputVariables(ctx, e.actor)
		require.NoError(t, err)
		for _, v := range list {
			if v.Key == "TFC_WORKLOAD_IDENTITY_TOKEN" {
				return v.Value
			}
		}
		return ""
	}
	run := w.run(ws)
	planning := w.take(run.ID)
	assert.Equal(t, "signed-for-plan", given(planning))
	planning.plan(true)
	over := "update attempts set token_expires_at = clock_timestamp() - interval '30 minutes' where run_id = @id"
	w.exec(over, postgres.Args{"id": run.ID})
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run.ID, Decision{}))
	applying := w.take(run.ID)
	assert.Equal(t, "signed-for-apply", given(applying))
	require.Len(t, asked, 2)
	assert.True(t, asked[1].ExpiresAt.After(time.Now()), "it ends %s", asked[1].ExpiresAt)
	assert.Equal(t, []string{"apply", string(run.ID)}, []string{asked[1].Phase, asked[1].RunID})
}
