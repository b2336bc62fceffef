package ledger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func lines(t *testing.T, path string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var found []map[string]any
	for _, line := range bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n")) {
		var entry map[string]any
		require.NoError(t, json.Unmarshal(line, &entry), "line %q", line)
		found = append(found, entry)
	}
	return found
}

func TestEntryTellsWhatWhoAndWhen(t *testing.T) {
	t.Setenv("TFE_RUN_ID", "run-abc")
	path := filepath.Join(t.TempDir(), "ledger")
	l, err := Open(path)
	require.NoError(t, err)
	require.NoError(t, l.Record(Created, Object{Type: "fault_plain", ID: "obj-1", Name: "a"}))

	entry := lines(t, path)[0]
	at, err := time.Parse(time.RFC3339Nano, entry["time"].(string))
	require.NoError(t, err)
	assert.WithinDuration(t, time.Now(), at, time.Minute)
	delete(entry, "time")
	assert.Equal(t, map[string]any{
		"run": "run-abc", "pid": float64(os.Getpid()),
		"event": "created", "type": "fault_plain", "id": "obj-1", "name": "a",
	}, entry)
}

func TestEnvironmentNamesTheFileWhereNothingElseDoes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(FromEnvironment, filepath.Join(dir, "environment"))

	byName, err := Open(filepath.Join(dir, "named"))
	require.NoError(t, err)
	require.NoError(t, byName.Record(Created, Object{ID: "named"}))
	byEnvironment, err := Open("")
	require.NoError(t, err)
	require.NoError(t, byEnvironment.Record(Created, Object{ID: "environment"}))

	for _, name := range []string{"named", "environment"} {
		entries := lines(t, filepath.Join(dir, name))
		require.Len(t, entries, 1)
		assert.Equal(t, name, entries[0]["id"])
	}
}

func TestNoLedgerRecordsNothing(t *testing.T) {
	t.Setenv(FromEnvironment, "")
	l, err := Open("")
	require.NoError(t, err)
	assert.Nil(t, l)
	assert.NoError(t, l.Record(Created, Object{}))
}

func TestFolderThatIsNotThere(t *testing.T) {
	_, err := Open(filepath.Join(t.TempDir(), "absent", "ledger"))
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// Two ledgers on one file stand for the two processes that tofu may run at once.
func TestWritersAtOnceDoNotMixLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	const writers, each = 2, 500
	var all sync.WaitGroup
	for writer := range writers {
		l, err := Open(path)
		require.NoError(t, err)
		all.Go(func() {
			for i := range each {
				assert.NoError(t, l.Record(Created, Object{Type: "fault_plain", ID: fmt.Sprintf("%d-%d", writer, i)}))
			}
		})
	}
	all.Wait()
	seen := map[any]bool{}
	for _, entry := range lines(t, path) {
		seen[entry["id"]] = true
	}
	assert.Len(t, seen, writers*each)
}
