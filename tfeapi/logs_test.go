package tfeapi

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func logOf(raw, tail string, final bool) framedLog {
	return framedLog{size: int64(len(raw)), tail: tail, final: final, read: func(offset, limit int64) ([]byte, error) {
		return []byte(raw[offset : offset+limit]), nil
	}}
}

// TestEveryWindowOfALog compares every offset and limit with the same cut of the whole text.
func TestEveryWindowOfALog(t *testing.T) {
	for _, l := range []struct {
		raw, tail string
		final     bool
		whole     string
	}{
		{"", "", false, "\x02"},
		{"", "", true, "\x02\x03"},
		{"hello", "", false, "\x02hello"},
		{"hello", "", true, "\x02hello\x03"},
		{"", "why", true, "\x02why\x03"},
		{"hello", "why", true, "\x02hellowhy\x03"},
		{"hello", "why", false, "\x02hello"},
	} {
		for offset := range len(l.whole) + 3 {
			for limit := range len(l.whole) + 3 {
				got, err := logOf(l.raw, l.tail, l.final).window(int64(offset), int64(limit))
				require.NoError(t, err)
				from := min(offset, len(l.whole))
				want := l.whole[from:min(from+limit, len(l.whole))]
				assert.Equal(t, want, string(got), fmt.Sprintf("%q from %d, %d bytes", l.whole, offset, limit))
			}
		}
	}
}

func TestAShortReadEndsTheWindow(t *testing.T) {
	l := framedLog{size: 10, final: true, read: func(int64, int64) ([]byte, error) { return []byte("abc"), nil }}
	got, err := l.window(0, 100)
	require.NoError(t, err)
	assert.Equal(t, "\x02abc", string(got), "the end byte must not overtake bytes that are missing")
}
