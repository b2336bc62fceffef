package artifacts_test

import (
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/fault"
)

// Case 115: checksums arrive the same way over http, which TestS3KeepsTheContract uses, and
// over https. The certificate is trusted as in production: by SSL_CERT_FILE.
func TestS3OverTLSKeepsTheContract(t *testing.T) {
	address, certificate := startTLS(t, startGateway(t))
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(bundle, certificate, 0o600))
	t.Setenv("SSL_CERT_FILE", bundle) // read once, at the first verification in this process
	t.Setenv("SSL_CERT_DIR", t.TempDir())
	for _, checksum := range []string{artifacts.ChecksumNone, artifacts.ChecksumCRC32, artifacts.ChecksumMD5} {
		t.Run(checksum, func(t *testing.T) {
			cfg := s3Config(address)
			cfg.Endpoint, cfg.Checksum = "https://"+address, checksum
			storetest.Contract(t, newS3(t, cfg))
		})
	}
	other, _ := startTLS(t, startGateway(t))
	_, port, err := net.SplitHostPort(other)
	require.NoError(t, err)
	cfg := s3Config(other)
	cfg.Endpoint = "https://localhost:" + port // the certificate does not name it
	err = newS3(t, cfg).Ping(t.Context())
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
}

// startTLS ends TLS in front of a server, and gives its address and certificate.
func startTLS(t *testing.T, behind string) (address string, certificate []byte) {
	t.Helper()
	lender := httptest.NewTLSServer(nil)
	lender.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: lender.TLS.Certificates, MinVersion: tls.VersionTLS12})
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			go forward(front, behind)
		}
	}()
	return l.Addr().String(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: lender.Certificate().Raw})
}

func forward(front net.Conn, behind string) {
	defer func() { _ = front.Close() }()
	back, err := net.Dial("tcp", behind)
	if err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(back, front)
		_ = back.Close()
	}()
	_, _ = io.Copy(front, back)
}
