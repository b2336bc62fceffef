//go:build linux

package pgcluster

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Where root may make no user namespace, as in most containers, the programs run as another
// user, although the folders on the way to the data are root's alone.
func TestRootFallsBackToAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root needs another user")
	}
	opts := Options{Dir: t.TempDir()}
	ctx := context.Background()
	c, err := start(ctx, opts, otherUsers())
	require.NoError(t, err)
	status, err := os.ReadFile("/proc/" + strconv.Itoa(c.Pid()) + "/status")
	c.Stop()
	require.NoError(t, err)
	require.NoError(t, c.Err())
	_, uids, _ := strings.Cut(string(status), "\nUid:\t")
	assert.False(t, strings.HasPrefix(uids, "0\t"), "the server is not root")

	c, err = Start(ctx, opts) // the files go back to root where namespaces can be had
	require.NoError(t, err)
	c.Stop()
	assert.NoError(t, c.Err())
}
