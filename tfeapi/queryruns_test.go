package tfeapi

import (
	"io"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// OpenTofu has no command query: a query run ends as errored, says why, and has no result.
func TestAQueryRunEndsHonestly(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ws := w.workspace("app")
	_, err := w.client.QueryRuns.Create(ctx, tfe.QueryRunCreateOptions{Workspace: ws})
	assert.ErrorContains(t, err, "no uploaded configuration version")
	there := w.queue(ws, tfe.RunCreateOptions{}) // with a configuration
	query, err := w.client.QueryRuns.Create(ctx, tfe.QueryRunCreateOptions{Workspace: ws, GenerateConfigOut: tfe.Bool(false)})
	require.NoError(t, err)
	assert.Equal(t, []any{tfe.QueryRunErrored, false, there.ConfigurationVersion.ID}, []any{query.Status, query.GenerateConfigOut, query.ConfigurationVersion.ID})
	assert.False(t, query.StatusTimestamps.ErroredAt.IsZero())
	assert.True(t, query.StatusTimestamps.FinishedAt.IsZero())
	log, err := w.client.QueryRuns.Logs(ctx, query.ID)
	require.NoError(t, err)
	said, err := io.ReadAll(log)
	require.NoError(t, err)
	assert.Contains(t, string(said), "OpenTofu, which has no command `query`")
	assert.Equal(t, query, func() *tfe.QueryRun { q, _ := w.client.QueryRuns.Read(ctx, query.ID); return q }())
	for _, end := range []error{w.client.QueryRuns.Cancel(ctx, query.ID), w.client.QueryRuns.ForceCancel(ctx, query.ID)} {
		assert.ErrorContains(t, end, "transition not allowed")
	}
	other := w.workspace("other")
	_, err = w.client.QueryRuns.Create(ctx, tfe.QueryRunCreateOptions{Workspace: other, ConfigurationVersion: there.ConfigurationVersion})
	assert.ErrorIs(t, err, tfe.ErrResourceNotFound, "another workspace's configuration")
	list, err := w.client.QueryRuns.List(ctx, ws.ID, &tfe.QueryRunListOptions{Include: []tfe.QueryRunIncludeOpt{tfe.QueryRunCreatedBy}})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	assert.Equal(t, "ann", list.Items[0].CreatedBy.Username)
	_, err = w.as(w.bob).QueryRuns.Create(ctx, tfe.QueryRunCreateOptions{Workspace: ws})
	assert.Error(t, err, "bob only reads")
	_, err = w.as(w.bob).QueryRuns.Read(ctx, query.ID)
	assert.NoError(t, err)
}
