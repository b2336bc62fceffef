package runs

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestCommentsAreKeptSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace())
	_, err := w.runs.CommentOn(ctx, w.owner, run.ID, "looks right")
	require.NoError(t, err)
	_, err = w.runs.CommentOn(ctx, w.owner, run.ID, "")
	assert.ErrorContains(t, err, "Body can't be blank")
	_, err = w.runs.CommentOn(ctx, w.owner, run.ID, strings.Repeat("x", maxComment+1))
	assert.True(t, fault.Is(err, fault.Invalid))
	_, err = w.runs.CommentOn(ctx, w.member, run.ID, "mine")
	assert.True(t, fault.Is(err, fault.Forbidden))
	list, err := w.runs.Comments(ctx, w.member, run.ID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, "looks right", list[0].Body)
	assert.Equal(t, []ids.Comment{list[0].ID}, w.get(run.ID).Comments)
	assert.Zero(t, count(w, "select count(*) from comments where position('looks right'::bytea in body_sealed) > 0", nil))
}

func TestWhoConfirmsIsShownAndHisCommentKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	assert.Empty(t, w.get(run).ConfirmedBy)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{Comment: "go on"}))
	d := w.get(run)
	assert.Equal(t, w.owner.User, d.ConfirmedBy)
	require.Len(t, d.Comments, 1)
	c, err := w.runs.Comment(ctx, w.member, d.Comments[0])
	require.NoError(t, err)
	assert.Equal(t, "go on", c.Body)
}

func TestRunsAreFiltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	waiting := w.waiting(ws)
	queued := w.run(ws, func(n *NewRun) { n.Message = "second of two" }).ID
	only := w.run(ws, planOnly).ID
	is := func(f Filter, want ...ids.Run) {
		t.Helper()
		got := []ids.Run{}
		for _, d := range w.runsOf(ws, f) {
			got = append(got, d.ID)
		}
		assert.Equal(t, append([]ids.Run{}, want...), got)
	}
	is(Filter{}, queued, waiting)
	is(Filter{PlanOnly: true}, only, queued, waiting)
	is(Filter{PlanOnly: true, Operations: []string{"plan_only"}}, only)
	is(Filter{Statuses: []string{string(AwaitingApproval)}}, waiting)
	is(Filter{Search: "Second OF"}, queued)
	is(Filter{Search: string(waiting)}, waiting)
	is(Filter{User: "ada"}, queued, waiting)
	is(Filter{User: "bob"})
	is(Filter{Nothing: true})
	list, more, err := w.runs.OrganizationRuns(ctx, w.member, "acme", Filter{Limit: 1})
	require.NoError(t, err)
	assert.True(t, more)
	assert.Equal(t, queued, list[0].ID)
	_, more, err = w.runs.OrganizationRuns(ctx, w.member, "acme", Filter{Limit: 1, Offset: 1})
	require.NoError(t, err)
	assert.False(t, more)
}

func TestOnlyARunThatPlansMayNameItsVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	version := func(v string) func(*NewRun) { return func(n *NewRun) { n.TerraformVersion = v } }
	_, err := w.tryRun(ws, version("1.0.0"))
	assert.True(t, fault.Is(err, fault.Invalid))
	_, err = w.tryRun(ws, planOnly, version("newest"))
	assert.True(t, fault.Is(err, fault.Invalid))
	assert.Equal(t, "1.0.0", w.run(ws, planOnly, version("1.0.0")).TerraformVersion)
}

func TestTheBytesOfOldConfigurations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	old := w.configuration(ws)
	wantCode(t, w.runs.Archive(ctx, w.owner, old), fault.Conflict, "transition_not_allowed")
	run := w.run(ws)
	newer := w.configuration(ws)
	wantCode(t, w.runs.HideConfiguration(ctx, w.owner, run.ConfigurationVersionID), fault.Conflict, "transition_not_allowed") // a run needs it
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run.ID, ""))

	require.NoError(t, w.runs.HideConfiguration(ctx, w.owner, old))
	_, err := w.runs.DownloadConfiguration(ctx, w.owner, old)
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.tryRun(ws, func(n *NewRun) { n.Configuration = old })
	assert.True(t, fault.HasCode(err, "configuration_not_uploaded"))
	require.NoError(t, w.runs.RestoreConfiguration(ctx, w.owner, old))
	body, err := w.runs.DownloadConfiguration(ctx, w.owner, old)
	require.NoError(t, err)
	require.NoError(t, body.Close())
	require.NoError(t, w.runs.HideConfiguration(ctx, w.owner, old))
	require.NoError(t, w.runs.DeleteConfiguration(ctx, w.owner, old))
	wantCode(t, w.runs.RestoreConfiguration(ctx, w.owner, old), fault.Conflict, "transition_not_allowed")
	require.NoError(t, w.runs.Archive(ctx, w.owner, newer), "there is a newer one by now")
	kept := func() int {
		return count(w, "select count(*) from objects where kind = 'configuration' and status = 'stored'", postgres.Args{})
	}
	for _, gone := range []ids.ConfigurationVersion{old, newer} {
		before := kept()
		wantCode(t, w.runs.UploadConfiguration(ctx, gone, bytes.NewReader(tarball("late"))), fault.Conflict, "configuration_archived")
		assert.Equal(t, before, kept(), "nothing points to what came too late")
	}
	newest := w.configuration(ws)
	wantCode(t, w.runs.Archive(ctx, w.owner, newest), fault.Conflict, "transition_not_allowed")
	assert.True(t, fault.Is(w.runs.Archive(ctx, w.member, newest), fault.Forbidden))
}

func TestRetentionGivesUpWhatIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	old, newer := w.configuration(ws), w.configuration(ws)
	first := w.publish(w.lockedBy(ws), ws, 1)
	second := w.publish(w.owner, ws, 2)
	w.exec("update configuration_versions set created_at = created_at - interval '10 days' where id <> @id", postgres.Args{"id": newer})
	require.NoError(t, w.runs.Retain(ctx))
	_, err := w.runs.DownloadConfiguration(ctx, w.owner, old)
	if err == nil {
		_, err = w.spaces.SetOrganizationRetention(ctx, w.owner, "acme", ptr(9))
	}
	require.NoError(t, err, "without a policy everything stays")
	require.NoError(t, w.runs.Retain(ctx))
	_, err = w.runs.DownloadConfiguration(ctx, w.owner, old)
	assert.True(t, fault.Is(err, fault.NotFound))
	for _, kept := range []ids.ConfigurationVersion{newer} {
		body, err := w.runs.DownloadConfiguration(ctx, w.owner, kept)
		require.NoError(t, err)
		require.NoError(t, body.Close())
	}
	for _, v := range []ids.StateVersion{first, second} {
		body, _, err := w.state.Download(ctx, w.owner, v)
		require.NoError(t, err, "they are of today")
		require.NoError(t, body.Close())
	}
}

// lockedBy locks the workspace for its owner and gives him.
func (w *world) lockedBy(ws ids.Workspace) authz.Actor {
	w.Helper()
	_, err := w.runs.Lock(ctx, w.owner, ws, "")
	require.NoError(w, err)
	return w.owner
}
