package main

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCPUIn(t *testing.T) {
	t.Parallel()
	// user 300, system 40, ended children 5 and 6; the name holds what separates fields.
	ticks, parent, err := cpuIn("4242 (post) gres: (x) S 17 4242 4242 0 -1 4194304 900 800 1 2 300 40 5 6 20 0 1 0 99 1000 200 18446744073709551615")
	require.NoError(t, err)
	require.Equal(t, int64(351), ticks)
	require.Equal(t, 17, parent)
	for _, broken := range []string{"", "4242 S 17", "4242 (postgres) S 17 4242"} {
		_, _, err := cpuIn(broken)
		require.Error(t, err, broken)
	}
}

func TestCPUOfThisProcess(t *testing.T) {
	t.Parallel()
	before := cpuOf(os.Getpid())
	require.Eventually(t, func() bool { // it uses some by asking
		return cpuOf(os.Getpid()) > before
	}, time.Minute, time.Millisecond)
	require.Zero(t, cpuOf(-1))
}
