package tfeapi

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runs"
)

// TestEveryWindowOfALog compares every offset and limit with the same cut of the whole text.
func TestEveryWindowOfALog(t *testing.T) {
	for _, l := range []struct {
		raw   string
		final bool
		whole string
	}{
		{"", false, "\x02"}, {"", true, "\x02\x03"}, {"hello", false, "\x02hello"}, {"hello", true, "\x02hello\x03"},
	} {
		slice := func(offset, limit int64) (runs.LogSlice, error) {
			size := int64(len(l.raw))
			from := min(offset, size)
			return runs.LogSlice{Data: []byte(l.raw[from:min(from+limit, size)]), Size: size, Final: l.final}, nil
		}
		for offset := range len(l.whole) + 3 {
			for limit := range len(l.whole) + 3 {
				got, _, err := window(int64(offset), int64(limit), slice)
				require.NoError(t, err)
				from := min(offset, len(l.whole))
				want := l.whole[from:min(from+limit, len(l.whole))]
				assert.Equal(t, want, string(got), fmt.Sprintf("%q from %d, %d bytes", l.whole, offset, limit))
			}
		}
	}
}

func TestTheEndByteDoesNotOvertakeMissingBytes(t *testing.T) {
	got, _, err := window(0, 100, func(int64, int64) (runs.LogSlice, error) {
		return runs.LogSlice{Data: []byte("abc"), Size: 10, Final: true}, nil
	})
	require.NoError(t, err)
	assert.Equal(t, "\x02abc", string(got))
}

func TestAWindowPassesErrorsOn(t *testing.T) {
	broken := errors.New("broken")
	_, _, err := window(0, 100, func(int64, int64) (runs.LogSlice, error) { return runs.LogSlice{}, broken })
	assert.ErrorIs(t, err, broken)
}
