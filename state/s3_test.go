package state_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
)

// gatewayStore is a real S3 server on a folder; a test process can have one.
func gatewayStore(t *testing.T) artifacts.ObjectStore {
	const bucket, key, secret = "holdfast-test", "test-access", "test-secret-key"
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, bucket), 0o700))
	backend, err := posix.New(dir, meta.XattrMeta{}, posix.PosixOpts{CopyObjectThreshold: 5 << 30})
	require.NoError(t, err)
	address, err := storetest.FreeAddress()
	require.NoError(t, err)
	serving, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = embedgw.RunVersityGW(serving, backend, &embedgw.Config{
			RootUserAccess: key, RootUserSecret: secret, Ports: []string{address}, MaxConnections: 100, MaxRequests: 100, MultipartMaxParts: 10_000, Quiet: true, KeepAlive: true,
		})
	}()
	t.Cleanup(func() { stop(); <-ended })
	store, err := artifacts.NewS3(artifacts.S3Config{Endpoint: "http://" + address, Bucket: bucket, AccessKeyID: key, SecretAccessKey: secret})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return store.Ping(ctx) == nil }, time.Minute, 20*time.Millisecond) // it does not say when it is ready
	return store
}

func TestPublishThroughS3(t *testing.T) {
	t.Parallel()
	w := newWorldOn(t, gatewayStore(t))
	w.lock(w.ada)
	for serial, size := range []int{1, 70_000, 12 << 20} { // the last takes several parts
		content := file(int64(serial), lineage, strings.Repeat("x", size))
		v := w.publish(w.ada, int64(serial), content)
		assert.Equal(t, v.ID, w.current())
		assert.True(t, bytes.Equal(content, w.download(w.ada, v.ID)), "byte for byte")
	}
}
