package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Cases 104, 106 and 109.
func TestALogIsFramedAndReadInSlices(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	r := shared.newRun(t, w.ID, resource("loud",
		`printf 'before \377\376 invalid, \002 start, \003 end, \033[31mred\033[0m, é\n'; seq 1 20000`))
	facts := shared.ended(t, r.ID)
	require.Equal(t, "applied", facts.Status, facts.StatusMessage)
	run, err := shared.api.Runs.Read(ctx, r.ID)
	require.NoError(t, err)
	plan, err := shared.api.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	apply, err := shared.api.Applies.Read(ctx, run.Apply.ID)
	require.NoError(t, err)
	assert.Equal(t, 1, apply.ResourceAdditions)

	for name, link := range map[string]string{"plan": plan.LogReadURL, "apply": apply.LogReadURL} {
		whole := readLog(t, link, 65536)
		assert.Equal(t, byte(0x02), whole[0], name)
		assert.Equal(t, byte(0x03), whole[len(whole)-1], name)
		assert.Equal(t, 1, strings.Count(whole, "\x02"), name)
		assert.Equal(t, 1, strings.Count(whole, "\x03"), name)
		assert.Equal(t, whole, readLog(t, link, 9973), "%s in slices of an odd size", name)
		assert.Equal(t, whole[:100], readLog(t, link, 7)[:100], "%s in small slices", name)
		for _, beyond := range []int{len(whole), len(whole) + 1000} {
			assert.Empty(t, slice(t, link, beyond, 100), "%s beyond its end", name)
		}
		if name == "apply" {
			assert.Contains(t, whole, "(local-exec): 20000\n")
			assert.Contains(t, whole, "é")
		}
	}
}

// readLog reads a log to its end as a client does.
func readLog(t *testing.T, link string, limit int) string {
	t.Helper()
	var whole strings.Builder
	for {
		part := slice(t, link, whole.Len(), limit)
		require.LessOrEqual(t, len(part), limit)
		if part == "" {
			return whole.String()
		}
		whole.WriteString(part)
		if limit < 100 && whole.Len() > 1000 {
			return whole.String() // enough to compare, without thousands of requests
		}
	}
}

func slice(t *testing.T, link string, offset, limit int) string {
	t.Helper()
	r := shared.as(t, "", http.MethodGet, fmt.Sprintf("%s?limit=%d&offset=%d", link, limit, offset), nil)
	require.Equal(t, http.StatusOK, r.status)
	return r.body
}
