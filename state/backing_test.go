package state_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// two publishes two versions, of which the second is current.
func (w world) two() (old, now state.Version) {
	w.Helper()
	tok := w.lock(w.ada)
	old, now = w.publish(w.ada, 1, file(1, lineage, "a")), w.publish(w.ada, 2, file(2, lineage, "b"))
	w.release(tok)
	return old, now
}

func TestTheBytesOfAnOldVersionAreHiddenRestoredAndGivenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, now := w.two()
	wantFault(t, w.Hide(ctx, w.ada, now.ID), fault.Conflict, "transition_not_allowed") // it is current
	wantFault(t, w.Restore(ctx, w.ada, old.ID), fault.Conflict, "transition_not_allowed")
	wantFault(t, w.Delete(ctx, w.ada, old.ID), fault.Conflict, "transition_not_allowed")
	assert.True(t, fault.Is(w.Hide(ctx, w.mia, old.ID), fault.Forbidden))
	assert.True(t, fault.Is(w.Hide(ctx, w.eve, old.ID), fault.NotFound))

	require.NoError(t, w.Hide(ctx, w.ada, old.ID))
	_, _, err := w.Download(ctx, w.ada, old.ID)
	wantFault(t, err, fault.NotFound, "bytes_hidden")
	tok := w.lock(w.ada)
	_, err = w.Rollback(ctx, w.ada, w.ws, old.ID)
	wantFault(t, err, fault.Conflict, "bytes_hidden")
	w.release(tok)

	require.NoError(t, w.Restore(ctx, w.ada, old.ID))
	assert.Equal(t, file(1, lineage, "a"), w.download(w.ada, old.ID))

	require.NoError(t, w.Hide(ctx, w.ada, old.ID))
	require.NoError(t, w.Delete(ctx, w.ada, old.ID))
	wantFault(t, w.Restore(ctx, w.ada, old.ID), fault.Conflict, "transition_not_allowed")
	outputs, err := w.Outputs(ctx, w.ada, old.ID)
	require.NoError(t, err)
	assert.Empty(t, outputs, "they are no more than the bytes they came from")
	assert.Equal(t, "discarded", value[string](w, "select status from objects where id = @id", postgres.Args{"id": old.Object}))
	kept := w.version(old.ID)
	assert.Equal(t, old.SHA256, kept.SHA256, "what is known of the version stays")
	assert.Equal(t, 1, w.audited("state.deleted"))
}

func TestAnObjectThatARollbackSharesStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, _ := w.two()
	tok := w.lock(w.ada)
	again, err := w.Rollback(ctx, w.ada, w.ws, old.ID)
	require.NoError(t, err)
	w.release(fence.Token{Workspace: w.ws, Epoch: w.epoch(), Holder: tok.Holder}) // a rollback grows the epoch
	require.NoError(t, w.Hide(ctx, w.ada, old.ID))
	require.NoError(t, w.Delete(ctx, w.ada, old.ID))
	assert.Equal(t, file(1, lineage, "a"), w.download(w.ada, again.ID))
}

func TestRetirementKeepsWhatIsCurrent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, now := w.two()
	retire := func(id ids.StateVersion) error {
		return w.tx(func(tx postgres.Tx) error { return w.Service.Retire(ctx, tx, system, id) })
	}
	wantFault(t, retire(now.ID), fault.Conflict, "transition_not_allowed")
	require.NoError(t, retire(old.ID))
	_, _, err := w.Download(ctx, w.ada, old.ID)
	wantFault(t, err, fault.NotFound, "bytes_hidden")
	kept := w.version(old.ID)
	assert.Equal(t, []any{old.SHA256, old.Size, old.Serial}, []any{kept.SHA256, kept.Size, kept.Serial}, "row and digest stay (ST-24)")
}

func TestTheKeysOfInstancesAreKept(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, now := w.two()
	assert.Equal(t, []string{"0", "1"}, w.version(now.ID).Resources[0].Keys)
}

// The same bytes under a new lock are a new version, whatever serial is declared (amendment 15).
func TestTheBytesOfTheCurrentVersionMayBePublishedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	content := file(5, lineage, "a")
	tok := w.lock(w.ada)
	first := w.publish(w.ada, 0, content)
	w.release(tok)
	tok = w.lock(w.ada)
	second := w.publish(w.ada, 1, content)
	w.release(tok)
	assert.NotEqual(t, first.ID, second.ID)
	assert.Equal(t, second.ID, w.current())
	assert.EqualValues(t, 5, second.Serial)
	assert.EqualValues(t, 1, second.DeclaredSerial)
}
