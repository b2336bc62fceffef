package dispatch_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

const noLimit = 1 << 30

func (w world) appendLog(id ids.Attempt, start int64, data string, limit int64) (next int64, err error) {
	err = w.tx(func(tx postgres.Tx) error {
		a, err := dispatch.Lock(ctx, tx, id)
		if err != nil {
			return err
		}
		next, err = w.AppendLog(ctx, tx, a, dispatch.Human, start, []byte(data), limit)
		return err
	})
	return next, err
}

func (w world) mustAppend(id ids.Attempt, start int64, data string) {
	w.Helper()
	next, err := w.appendLog(id, start, data, noLimit)
	require.NoError(w, err)
	require.Equal(w, start+int64(len(data)), next)
}

func (w world) readLog(id ids.Attempt, offset, limit int64) (text string) {
	w.Helper()
	data, err := w.ReadLog(ctx, w.get(id), dispatch.Human, offset, limit)
	require.NoError(w, err)
	return string(data)
}

// windows reads every part of the log and compares with the text.
func (w world) windows(id ids.Attempt, text string) {
	w.Helper()
	for offset := range int64(len(text) + 2) {
		for limit := range int64(len(text) + 2) {
			from := min(int(offset), len(text))
			want := text[from:min(from+int(limit), len(text))]
			require.Equal(w, want, w.readLog(id, offset, limit), "from %d at most %d", offset, limit)
		}
	}
}

func TestLogIsAppendedAndRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Plan)
	assert.Empty(t, w.readLog(a.ID, 0, 100))
	w.mustAppend(a.ID, 0, "one\n")
	w.mustAppend(a.ID, 4, "2\n")
	w.mustAppend(a.ID, 6, "\x02and\x03")
	w.windows(a.ID, "one\n2\n and ")

	next, err := w.appendLog(a.ID, 0, "one\n", noLimit)
	require.NoError(t, err, "a piece the server has already")
	assert.Equal(t, int64(11), next)
	next, err = w.appendLog(a.ID, 6, "\x02and\x03", noLimit)
	require.NoError(t, err, "its digest is that of what was sent")
	assert.Equal(t, int64(11), next)
	next, err = w.appendLog(a.ID, 11, "", noLimit)
	require.NoError(t, err)
	assert.Equal(t, int64(11), next)
	for start, data := range map[int64]string{0: "ONE\n", 1: "ne\n", 4: "2\nmore", 12: "gap", -1: "x", 3: ""} {
		_, err := w.appendLog(a.ID, start, data, noLimit)
		wantFault(t, err, fault.Conflict, "log_offset")
		assert.Contains(t, err.Error(), "11 bytes")
	}
	_, err = w.appendLog(a.ID, 11, "over", 14)
	wantFault(t, err, fault.TooLarge, "log_too_large")
	_, err = w.appendLog(a.ID, 11, strings.Repeat("x", dispatch.MaxChunk+1), noLimit)
	wantFault(t, err, fault.TooLarge, "chunk_too_large")
	assert.Equal(t, "one\n2\n and ", w.readLog(a.ID, 0, 100), "nothing of what was refused")
	w.do(func(tx postgres.Tx) error {
		n, err := postgres.Value[int](ctx, tx, "select count(*) from log_chunks where position('one'::bytea in sealed) > 0", nil)
		assert.Zero(t, n, "chunks are sealed")
		return err
	})

	w.finish(a)
	next, err = w.appendLog(a.ID, 4, "2\n", noLimit)
	require.NoError(t, err, "a lost answer asked for again")
	assert.Equal(t, int64(11), next)
	_, err = w.appendLog(a.ID, 11, "late", noLimit)
	wantFault(t, err, fault.Conflict, "log_offset")
}

func TestLogIsFolded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	text := "some lines\nof a log\n"
	a := w.running(authz.Plan)
	w.mustAppend(a.ID, 0, text[:7])
	w.mustAppend(a.ID, 7, text[7:])
	silent := w.running(authz.Plan)
	fold := func() int {
		n, err := w.Fold(ctx, 10)
		require.NoError(t, err)
		return n
	}
	assert.Zero(t, fold(), "a running one is not")
	w.finish(w.get(a.ID))
	w.finish(silent)
	before := w.get(a.ID)
	assert.Equal(t, 1, fold(), "nor one without a log")
	late, err := w.ReadLog(ctx, before, dispatch.Human, 3, noLimit)
	require.NoError(t, err)
	assert.Equal(t, text[3:], string(late), "whoever read the attempt before the fold still gets its log")
	assert.Zero(t, fold())
	assert.NotEmpty(t, w.get(a.ID).LogObjectID)
	w.do(func(tx postgres.Tx) error {
		n, err := postgres.Value[int](ctx, tx, "select count(*) from log_chunks", nil)
		assert.Zero(t, n)
		return err
	})
	w.windows(a.ID, text)
	for _, key := range w.store.Keys() {
		assert.NotContains(t, string(w.store.Bytes(key)), "some lines")
	}
}

func TestALargeLogIsFoldedWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Apply)
	var text bytes.Buffer
	for i := range 5 {
		piece := strings.Repeat(string(rune('a'+i)), 100_000+i)
		w.mustAppend(a.ID, int64(text.Len()), piece)
		text.WriteString(piece)
	}
	w.finish(w.get(a.ID))
	n, err := w.Fold(ctx, 1)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	assert.Equal(t, text.String(), w.readLog(a.ID, 0, noLimit))
	assert.Equal(t, "ab", w.readLog(a.ID, 99_999, 2))
}

// A log is read in many small pieces; its object is opened once in a MiB.
func TestPiecesOfAFoldedLogDoNotOpenItAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Apply)
	var text strings.Builder
	for i := 0; text.Len() < 2_500_000; i++ {
		piece := strings.Repeat(fmt.Sprintf("line %d\n", i), 20_000)
		w.mustAppend(a.ID, int64(text.Len()), piece)
		text.WriteString(piece)
	}
	w.finish(w.get(a.ID))
	n, err := w.Fold(ctx, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	read := func() string {
		var got strings.Builder
		for got.Len() < text.Len() {
			got.WriteString(w.readLog(a.ID, int64(got.Len()), 16_001))
		}
		return got.String()
	}
	assert.True(t, text.String() == read(), "the whole log")
	w.store.SetDown(true)
	assert.True(t, text.String() == read(), "it was opened again")
	w.store.SetDown(false)

	small := w.running(authz.Apply) // what is used less goes
	for range 20 {
		w.mustAppend(small.ID, 0, "small\n")
		w.finish(w.get(small.ID))
		_, err := w.Fold(ctx, 10)
		require.NoError(t, err)
		assert.Equal(t, "small\n", w.readLog(small.ID, 0, 100))
		small = w.running(authz.Apply)
	}
	w.store.SetDown(true)
	_, err = w.ReadLog(ctx, w.get(a.ID), dispatch.Human, 0, 100)
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

// A store that is down, or one log that is damaged, loses nothing and stops no other.
func TestFoldGoesOnAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var attempts [3]dispatch.Attempt
	for i := range attempts {
		attempts[i] = w.running(authz.Plan)
		w.mustAppend(attempts[i].ID, 0, "log\n")
		w.finish(w.get(attempts[i].ID))
	}
	w.store.SetDown(true)
	n, err := w.Fold(ctx, 10)
	assert.True(t, n == 0 && fault.Is(err, fault.Unavailable), "%d %v", n, err)
	w.store.SetDown(false)
	assert.Equal(t, "log\n", w.readLog(attempts[0].ID, 0, 10))

	w.exec("update log_chunks set sealed = 'x' where attempt_id = @id", postgres.Args{"id": attempts[0].ID})
	n, err = w.Fold(ctx, 10)
	assert.Equal(t, 2, n)
	require.Error(t, err)
	assert.Contains(t, err.Error(), string(attempts[0].ID))
	assert.Equal(t, "log\n", w.readLog(attempts[2].ID, 0, 10))
}

// Two servers that fold one log leave one object.
func TestTwoServersFoldOneLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Plan)
	w.mustAppend(a.ID, 0, "log\n")
	w.finish(w.get(a.ID))
	done := make(chan struct{})
	for range 2 {
		go func() {
			_, _ = w.Fold(ctx, 1) // the slower one may find the chunks gone
			done <- struct{}{}
		}()
	}
	<-done
	<-done
	assert.Equal(t, "log\n", w.readLog(a.ID, 0, 10))
	w.do(func(tx postgres.Tx) error {
		n, err := postgres.Value[int](ctx, tx, "select count(*) from objects where kind = 'log' and status = 'stored'", nil)
		assert.Equal(t, 1, n)
		return err
	})
}

// TestTheTwoLogsOfAnAttemptAreApart: each has offsets, chunks and an object of its own.
func TestTheTwoLogsOfAnAttemptAreApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.running(authz.Plan)
	w.mustAppend(a.ID, 0, "text")
	appendEvents := func(start int64, data string) (next int64, err error) {
		err = w.tx(func(tx postgres.Tx) error {
			a, err := dispatch.Lock(ctx, tx, a.ID)
			if err != nil {
				return err
			}
			next, err = w.AppendLog(ctx, tx, a, dispatch.JSON, start, []byte(data), 2)
			return err
		})
		return next, err
	}
	events := func() string {
		data, err := w.ReadLog(ctx, w.get(a.ID), dispatch.JSON, 0, 100)
		require.NoError(t, err)
		return string(data)
	}
	next, err := appendEvents(0, "{}\n")
	require.NoError(t, err)
	assert.Equal(t, int64(3), next)
	next, err = appendEvents(0, "{}\n")
	require.NoError(t, err, "a piece the server has already")
	assert.Equal(t, int64(3), next)
	_, err = appendEvents(0, "text")
	wantFault(t, err, fault.Conflict, "log_offset")
	_, err = appendEvents(3, "123456")
	wantFault(t, err, fault.TooLarge, "log_too_large")
	next, err = appendEvents(3, "12345")
	require.NoError(t, err, "four times what the text may have")
	assert.Equal(t, int64(8), next)
	assert.Equal(t, "{}\n12345", events())
	assert.Equal(t, "text", w.readLog(a.ID, 0, 100))

	w.finish(w.get(a.ID))
	n, err := w.Fold(ctx, 10)
	require.NoError(t, err)
	assert.Equal(t, 1, n)
	n, err = w.Fold(ctx, 10)
	require.NoError(t, err)
	assert.Zero(t, n)
	folded := w.get(a.ID)
	assert.NotEmpty(t, folded.JSONLogObjectID)
	assert.NotEqual(t, folded.LogObjectID, folded.JSONLogObjectID)
	assert.Equal(t, "{}\n12345", events())
	assert.Equal(t, "text", w.readLog(a.ID, 0, 100))
}
