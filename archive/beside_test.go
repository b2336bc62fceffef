package archive

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever the check does with an archive, it is stored to its end, and the server lives.
func TestCheckBesideReadsEverything(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("x", 1<<20)
	full := errors.New("the store is full")
	for name, c := range map[string]struct {
		check func(io.Reader) error
		store error
		want  string
	}{
		"passes":          {check: func(io.Reader) error { return nil }},
		"refuses":         {check: func(io.Reader) error { return errors.New("no archive") }, want: "no archive"},
		"panics":          {check: func(io.Reader) error { panic("an entry of a new kind") }, want: "an entry of a new kind"},
		"is not asked":    {check: func(r io.Reader) error { _, err := io.ReadAll(r); return err }, store: full, want: "the store is full"},
		"panics, is full": {check: func(io.Reader) error { panic("an entry of a new kind") }, store: full, want: "the store is full"},
	} {
		t.Run(name, func(t *testing.T) {
			var stored []byte
			err := beside(strings.NewReader(content), func(r io.Reader) (err error) {
				stored, err = io.ReadAll(r)
				require.NoError(t, err)
				return c.store
			}, c.check)
			assert.Len(t, stored, len(content))
			if c.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, c.want)
		})
	}
}
