package artifacts_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/versity/versitygw/backend/meta"
	"github.com/versity/versitygw/backend/posix"
	"github.com/versity/versitygw/embedgw"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/fault"
)

const (
	bucket    = "holdfast-test"
	accessKey = "test-access"
	secretKey = "test-secret-key"
)

// gateway is the S3 server of this test process: versitygw allows one.
var gateway struct {
	once    sync.Once
	dir     string
	address string
	err     error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if gateway.dir != "" {
		_ = os.RemoveAll(gateway.dir)
	}
	os.Exit(code)
}

// startGateway gives the address of a real S3 server with an empty bucket.
func startGateway(t testing.TB) string {
	t.Helper()
	gateway.once.Do(func() { gateway.err = runGateway() })
	require.NoError(t, gateway.err)
	return gateway.address
}

func runGateway() (err error) {
	if gateway.dir, err = os.MkdirTemp("", "holdfast-s3-*"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(gateway.dir, bucket), 0o700); err != nil {
		return err
	}
	backend, err := posix.New(gateway.dir, meta.XattrMeta{}, posix.PosixOpts{CopyObjectThreshold: 5 << 30})
	if err != nil {
		return err
	}
	if gateway.address, err = storetest.FreeAddress(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- embedgw.RunVersityGW(context.Background(), backend, &embedgw.Config{
			RootUserAccess: accessKey, RootUserSecret: secretKey, Ports: []string{gateway.address},
			MaxConnections: 100, MaxRequests: 100, MultipartMaxParts: 10_000, Quiet: true, KeepAlive: true,
		})
	}()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for { // the gateway does not say when it is ready
		if conn, err := net.Dial("tcp", gateway.address); err == nil {
			return conn.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the S3 server ended: %w", err)
		case <-deadline.C:
			return fmt.Errorf("the S3 server did not start")
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func s3Config(address string) artifacts.S3Config {
	return artifacts.S3Config{Endpoint: "http://" + address, Bucket: bucket, AccessKeyID: accessKey, SecretAccessKey: secretKey}
}

func newS3(t testing.TB, cfg artifacts.S3Config) *artifacts.S3 {
	t.Helper()
	store, err := artifacts.NewS3(cfg)
	require.NoError(t, err)
	return store
}

func TestS3KeepsTheContract(t *testing.T) {
	for _, checksum := range []string{artifacts.ChecksumNone, artifacts.ChecksumCRC32, artifacts.ChecksumMD5} {
		t.Run(checksum, func(t *testing.T) {
			cfg := s3Config(startGateway(t))
			cfg.Checksum = checksum
			storetest.Contract(t, newS3(t, cfg))
		})
	}
	leftovers, err := filepath.Glob(filepath.Join(gateway.dir, bucket, ".sgwtmp", "multipart", "*", "*"))
	require.NoError(t, err)
	assert.Empty(t, leftovers, "uploads that broke off are aborted")
}

func TestS3DownIsUnavailable(t *testing.T) {
	store := newS3(t, s3Config("127.0.0.1:1")) // where nothing listens: that takes a system's rights

	assert.True(t, fault.Is(store.Ping(t.Context()), fault.Unavailable))
	err := store.Put(t.Context(), "x", strings.NewReader("x"))
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	_, err = store.Get(t.Context(), "x")
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

func TestS3RefusedIsUnavailable(t *testing.T) {
	noBucket := s3Config(startGateway(t))
	noBucket.Bucket = "holdfast-absent"
	wrongSecret := s3Config(startGateway(t))
	wrongSecret.SecretAccessKey = "another"
	for name, cfg := range map[string]artifacts.S3Config{"no bucket": noBucket, "wrong secret": wrongSecret} {
		store := newS3(t, cfg)
		assert.True(t, fault.Is(store.Ping(t.Context()), fault.Unavailable), name)
		err := store.Put(t.Context(), "x", strings.NewReader("x"))
		assert.True(t, fault.Is(err, fault.Unavailable), "%s: %v", name, err)
		_, err = store.Get(t.Context(), "x")
		assert.True(t, fault.Is(err, fault.Unavailable), "%s: a missing bucket is no missing object: %v", name, err)
		assert.NotContains(t, err.Error(), cfg.SecretAccessKey)
	}
}

// TestS3ConnectionLostWhileReading cuts the connection in the middle of an object:
// that is a store that went away, not a shorter object.
func TestS3ConnectionLostWhileReading(t *testing.T) {
	address := startGateway(t)
	require.NoError(t, newS3(t, s3Config(address)).Put(t.Context(), "cut", bytes.NewReader(make([]byte, 4<<20))))

	body, err := newS3(t, s3Config(cutAfter(t, address, 1<<20))).Get(t.Context(), "cut")
	require.NoError(t, err)
	n, err := io.Copy(io.Discard, body)
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	assert.Less(t, n, int64(4<<20))
	assert.NoError(t, body.Close())
}

// cutAfter is a proxy that ends each connection after that many bytes of the answer.
func cutAfter(t *testing.T, address string, bytes int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client) }()
			go func() {
				_, _ = io.CopyN(client, server, bytes)
				_, _ = client.Close(), server.Close()
			}()
		}
	}()
	return l.Addr().String()
}

func TestNewS3Refuses(t *testing.T) {
	for name, change := range map[string]func(*artifacts.S3Config){
		"no bucket":             func(c *artifacts.S3Config) { c.Bucket = "" },
		"no access key":         func(c *artifacts.S3Config) { c.AccessKeyID = "" },
		"no secret":             func(c *artifacts.S3Config) { c.SecretAccessKey = "" },
		"no scheme":             func(c *artifacts.S3Config) { c.Endpoint = "localhost:9000" },
		"other scheme":          func(c *artifacts.S3Config) { c.Endpoint = "ftp://localhost" },
		"secret in the address": func(c *artifacts.S3Config) { c.Endpoint = "http://user:test-secret-key@localhost" },
		"unknown checksum":      func(c *artifacts.S3Config) { c.Checksum = "sha1" },
	} {
		cfg := s3Config("localhost:9000")
		change(&cfg)
		_, err := artifacts.NewS3(cfg)
		require.Truef(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		assert.NotContains(t, err.Error(), secretKey)
	}
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("store", "config", s3Config("x"))
	assert.NotContains(t, fmt.Sprintf("%v %+v %s", s3Config("x"), s3Config("x"), s3Config("x"))+logged.String(), secretKey)
}
