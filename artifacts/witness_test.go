package artifacts_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// TestAWitnessIsReadWithoutTheDatabase: sealed, bound to its place, and the same however
// often it is put.
func TestAWitnessIsReadWithoutTheDatabase(t *testing.T) {
	ctx, f := context.Background(), newFixture(t)
	w := artifacts.Witness{
		Organization: f.org, Workspace: ids.New[ids.Workspace](), Run: ids.New[ids.Run](), Attempt: ids.New[ids.Attempt](), Epoch: 41, Sandbox: "box", Nonce: "n",
		StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 678_000, time.UTC),
	}
	_, found, err := f.Witnessed(ctx, w.Organization, w.Workspace, w.Run)
	require.NoError(t, err)
	assert.False(t, found)
	require.NoError(t, f.PutWitness(ctx, w))
	require.NoError(t, f.PutWitness(ctx, w))
	f.db.Close()
	got, found, err := f.Witnessed(ctx, w.Organization, w.Workspace, w.Run)
	require.NoError(t, err)
	assert.True(t, found)
	assert.Equal(t, w, got)

	key := func(run ids.Run) string {
		return string(w.Organization) + "/" + string(w.Workspace) + "/witness/" + string(run)
	}
	sealed := f.store.Bytes(key(w.Run))
	assert.NotContains(t, string(sealed), "box")
	other := ids.New[ids.Run]()
	f.store.Replace(key(other), sealed)
	_, _, err = f.Witnessed(ctx, w.Organization, w.Workspace, other)
	assert.True(t, fault.HasCode(err, "sealed_value_corrupt"), "a witness counts only in its place: %v", err)
	sealed[len(sealed)-1] ^= 1
	f.store.Replace(key(w.Run), sealed)
	_, _, err = f.Witnessed(ctx, w.Organization, w.Workspace, w.Run)
	assert.True(t, fault.HasCode(err, "sealed_value_corrupt"), "%v", err)
	f.store.SetDown(true)
	_, _, err = f.Witnessed(ctx, w.Organization, w.Workspace, w.Run)
	assert.True(t, fault.Is(err, fault.Unavailable), "nobody says that there is none: %v", err)
	assert.True(t, fault.Is(f.PutWitness(ctx, w), fault.Unavailable))
}
