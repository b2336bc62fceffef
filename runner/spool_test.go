package runner

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testSpool(t *testing.T, limit int64) *spool {
	s, err := newSpool(filepath.Join(t.TempDir(), "log"), limit, anyBytes)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.file.Close() })
	return s
}

// drain reads what is ready from offset on, in small pieces.
func drain(s *spool, offset int64) (text []byte, last bool) {
	buf := make([]byte, 7)
	for {
		n, last := s.read(offset, buf)
		text = append(text, buf[:n]...)
		offset += int64(n)
		if n == 0 || last {
			return text, last
		}
	}
}

func TestSpoolWithinLimit(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 799, 800, 801, 999, 1000} {
		s := testSpool(t, 1000)
		text := bytes.Repeat([]byte("0123456789"), 100)[:size]
		for _, b := range text {
			_, _ = s.Write([]byte{b})
		}
		ready, last := drain(s, 0)
		assert.False(t, last)
		assert.Equal(t, string(text[:min(size, 800)]), string(ready), "the head is shipped while tofu runs")
		s.close()
		whole, last := drain(s, 0)
		assert.True(t, last)
		assert.Equal(t, string(text), string(whole), size)
		assert.EqualValues(t, size, s.size())
		assert.False(t, s.truncated())
	}
}

func TestSpoolOverLimit(t *testing.T) {
	t.Parallel()
	for _, size := range []int{1001, 1063, 1100, 5000} {
		for _, piece := range []int{1, 13, size} {
			s := testSpool(t, 1000)
			var text strings.Builder
			for i := 0; text.Len() < size; i++ {
				fmt.Fprintf(&text, "%d,", i)
			}
			all := text.String()[:size]
			for rest := all; rest != ""; rest = rest[min(piece, len(rest)):] {
				_, _ = s.Write([]byte(rest[:min(piece, len(rest))]))
			}
			s.close()
			whole, last := drain(s, 0)
			require.True(t, last)
			assert.True(t, s.truncated(), "PL-04")
			assert.LessOrEqual(t, len(whole), 1000)
			head, rest, found := strings.Cut(string(whole), "\n[... ")
			require.True(t, found)
			count, tail, found := strings.Cut(rest, " bytes left out ...]\n")
			require.True(t, found)
			assert.Equal(t, all[:800], head)
			assert.Equal(t, fmt.Sprint(size-len(head)-len(tail)), count)
			assert.Len(t, tail, 200-markerRoom)
			assert.True(t, strings.HasSuffix(all, tail), "the error is at the end")
			again, _ := drain(s, 500)
			assert.Equal(t, string(whole[500:]), string(again), "a server that lost bytes gets the same again")
		}
	}
}

// A disk that takes nothing more costs the middle of the log, not tofu's run.
func TestSpoolWithoutDisk(t *testing.T) {
	t.Parallel()
	s := testSpool(t, 1000)
	_, _ = s.Write([]byte("before "))
	require.NoError(t, s.file.Close())
	n, err := s.Write([]byte(strings.Repeat("x", 900) + "the end"))
	assert.NoError(t, err)
	assert.Equal(t, 907, n)
	s.close()
	assert.True(t, s.truncated())
	whole, last := drain(s, s.head)
	assert.True(t, last)
	assert.Contains(t, string(whole), "bytes left out")
	assert.True(t, strings.HasSuffix(string(whole), "the end"))
	lost, _ := drain(s, 0)
	assert.EqualValues(t, s.size(), len(lost), "offsets stay")
}

func TestSpoolDelimiters(t *testing.T) {
	t.Parallel()
	s := testSpool(t, 1000)
	in := []byte("a\x02b\x03\xff\xfe\x00ü")
	_, _ = s.Write(in)
	s.close()
	whole, _ := drain(s, 0)
	assert.Equal(t, "a b \xff\xfe\x00ü", string(whole))
	assert.Equal(t, "a\x02b\x03\xff\xfe\x00ü", string(in), "the writer's bytes are its own")
	_, err := s.Write([]byte("late"))
	assert.NoError(t, err)
}
