package recovery

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// fate is what the network does to a request.
type fate int

const (
	passes  fate = iota
	lost         // the connection breaks, and the server has seen nothing
	halved       // the connection breaks when the server has half of the body
	refused      // something on the way answers 403
)

// network lies between a runner and its server.
type network struct {
	address string // https://localhost:PORT
	door    *http.Server
	rule    atomic.Pointer[func(*http.Request) fate]
}

// newNetwork lets everything pass to the server at target, until a rule says otherwise.
func newNetwork(t *testing.T, target string) *network {
	t.Helper()
	tlsDir := filepath.Join(shared.Dir, "tls")
	certificate, err := tls.LoadX509KeyPair(filepath.Join(tlsDir, "server.pem"), filepath.Join(tlsDir, "server-key.pem"))
	require.NoError(t, err)
	bundle, err := os.ReadFile(shared.Environ["SSL_CERT_FILE"])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(bundle))
	to, err := url.Parse(target)
	require.NoError(t, err)
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	n := &network{address: "https://localhost:" + port}
	n.calm()
	silent := log.New(io.Discard, "", 0)
	forward := &httputil.ReverseProxy{
		Rewrite:      func(p *httputil.ProxyRequest) { p.SetURL(to); p.Out.Host = p.In.Host },
		Transport:    &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true},
		ErrorLog:     silent,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	n.door = &http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		// Each request has its connection, so that one can break: HTTP/1.1.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:     silent,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch (*n.rule.Load())(r) {
			case lost:
				panic(http.ErrAbortHandler)
			case halved:
				r.Body = io.NopCloser(&half{r.Body, r.ContentLength / 2})
			case refused:
				http.Error(w, "not from here", http.StatusForbidden)
				return
			}
			forward.ServeHTTP(w, r)
		}),
	}
	go func() { _ = n.door.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = n.door.Close() })
	return n
}

func (n *network) calm() { n.obey(func(*http.Request) fate { return passes }) }

func (n *network) obey(rule func(*http.Request) fate) { n.rule.Store(&rule) }

// half reads the first bytes of a body and then breaks.
type half struct {
	from io.Reader
	left int64
}

func (h *half) Read(p []byte) (int, error) {
	if h.left <= 0 {
		return 0, errors.New("the connection broke")
	}
	n, err := h.from.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}
