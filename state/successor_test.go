package state_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/state"
)

// TestOnlyTheSerialIsRewritten: whatever stands around it stays as it is, also beyond the
// first buffer, and a serial of something else in the file is not touched.
func TestOnlyTheSerialIsRewritten(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000)
	for name, text := range map[string]string{
		"as tofu writes it":  `{"version":4,"serial": @,"lineage":"l","resources":[{"serial":7}]}`,
		"with white space":   "{ \"serial\"\n\t:  @  ,\"lineage\":\"l\"}\n",
		"behind much":        `{"check":"` + long + `","lineage":"l","serial":@}`,
		"in front of much":   `{"serial":@,"lineage":"l","check":"` + long + `"}`,
		"in another casing":  `{"Serial":@,"lineage":"l"}`,
		"across two buffers": `{"check":"` + strings.Repeat("x", 64<<10-25) + `","serial":@,"lineage":"l"}`,
	} {
		for _, serial := range []string{"7", "12345678"} {
			original := strings.ReplaceAll(text, "@", serial)
			f, err := state.Inspect(strings.NewReader(original))
			require.NoError(t, err, name)
			got, err := io.ReadAll(iotest.HalfReader(f.WithSerial(strings.NewReader(original), 42)))
			require.NoError(t, err, name)
			assert.Equal(t, strings.ReplaceAll(text, "@", "42"), string(got), name)
		}
	}
}

func TestWhatIsNoStateIsNotInspected(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"version":4}`, `{"serial":1}`, `{"lineage":"l"}`, `{"serial":1,"serial":1,"lineage":"l"}`, "not json"} {
		_, err := state.Inspect(strings.NewReader(text))
		assert.True(t, fault.HasCode(err, "state_malformed"), "%q: %v", text, err)
	}
	_, err := state.Inspect(iotest.ErrReader(assert.AnError))
	assert.ErrorIs(t, err, assert.AnError)
}
