package state_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/state"
)

// TestWhatACreateCosts bounds what PostgreSQL is asked for when a state is written as tofu does,
// and says that its commits wait for the disk (decision 32). Before statements were sent together the three took 7, 11 and 3
// exchanges, beside the one of each that finds out who asks.
func TestWhatACreateCosts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	w.publish(w.ada, 0, file(0, lineage, "x")) // a connection that is new asks for more
	within := func(what string, statements, exchanges int, fn func()) (said string) {
		t.Helper()
		work := testdb.Watch(w.db, fn)
		said = strings.Join(work.Statements, "\n")
		assert.LessOrEqual(t, work.Named(), statements, "statements of %s:\n%s", what, said)
		assert.LessOrEqual(t, work.Exchanges, exchanges, "exchanges of %s:\n%s", what, said)
		return said
	}
	const unflushed = "synchronous_commit = off"
	for serial := int64(1); serial < 4; serial++ {
		content := file(serial, lineage, "x")
		var v state.Version
		said := within("an announcement", 5, 4, func() { v = w.begin(w.ada, serial, content) })
		assert.NotContains(t, said, unflushed, "an announcement that was answered is on disk")
		said = within("an upload", 11, 7, func() {
			_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
			require.NoError(t, err)
		})
		assert.NotContains(t, said, unflushed, "what is acknowledged is on disk")
		within("a read", 1, 1, func() {
			got, err := w.Version(ctx, w.ada, v.ID)
			require.NoError(t, err)
			assert.NotEmpty(t, got.Resources)
		})
	}
}
