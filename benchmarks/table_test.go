package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	require.Equal(t, 2*time.Second, sample{3 * time.Second, time.Second, 2 * time.Second}.median())
	require.Equal(t, 1500*time.Millisecond, sample{2 * time.Second, time.Second}.median())
	require.Zero(t, sample{}.median())
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	var hundred sample
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i)*time.Millisecond)
	}
	require.Equal(t, 99*time.Millisecond, hundred.percentile(99))
	require.Equal(t, 50*time.Millisecond, hundred.percentile(50))
	require.Equal(t, 100*time.Millisecond, hundred.percentile(100))
	require.Equal(t, time.Millisecond, hundred.percentile(0))
	require.Equal(t, 3*time.Second, sample{time.Second, 3 * time.Second}.percentile(99))
	require.Zero(t, sample{}.percentile(99))
}

func TestSpread(t *testing.T) {
	t.Parallel()
	require.Equal(t, "1.0 ms – 2.00 s", spread(sample{2 * time.Second, time.Millisecond, time.Second}))
	require.Empty(t, spread(sample{time.Second}))
}

func TestATableNamesTheGoalsThatWereMissed(t *testing.T) {
	t.Parallel()
	table := table{section: "trivial"}
	table.time("plan", "tofu plan", sample{time.Second, 2 * time.Second}, over(2*time.Second, time.Second, "the floor"), table.judge("≤ 3 s", true))
	require.Contains(t, table.String(), "No goal was missed.")
	table.time("apply", "tofu apply", sample{time.Millisecond}, "", table.judge("≤ 0 s", false))
	text := table.String()
	require.Regexp(t, `\| trivial \| plan  \| 2 \| 1\.50 s \| 1\.00 s – 2\.00 s \| \+1\.00 s over the floor \| ≤ 3 s: met    \| .tofu plan.  \|`, text)
	require.Contains(t, text, "1.0 ms")
	require.Contains(t, text, "Goals missed: trivial ≤ 0 s\n")
}
