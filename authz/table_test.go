package authz_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
)

var update = flag.Bool("update", false, "write the table of docs/rights.md anew")

const tableFile, tableMark = "../docs/rights.md", "<!-- the table -->\n"

// TestTheKeptTable holds the table of levels against the one that is written down for
// people: a level or an action that was changed by mistake shows here.
func TestTheKeptTable(t *testing.T) {
	var text strings.Builder
	text.WriteString("| level | gives |\n|---|---|\n")
	levels := authz.Levels()
	slices.Sort(levels)
	for _, level := range levels {
		given := []string{}
		for _, action := range authz.Actions {
			if level.Gives(action) {
				given = append(given, string(action))
			}
		}
		fmt.Fprintf(&text, "| `%s` | %s |\n", level, strings.Join(given, ", "))
	}
	kept, err := os.ReadFile(tableFile)
	require.NoError(t, err)
	before, after, found := strings.Cut(string(kept), tableMark)
	require.True(t, found)
	if *update {
		require.NoError(t, os.WriteFile(tableFile, []byte(before+tableMark+text.String()), 0o644))
		return
	}
	assert.Equal(t, after, text.String(), "if it is meant: go test ./authz -run TheKeptTable -update, and read the difference")
}
