package runner

import (
	"archive/zip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// mirrorHost is a name that only the proxy of these tests knows.
const mirrorHost = "mirror.invalid"

// networkMirror serves the fault provider of tests/provider by the protocol of network
// mirrors, with a certificate of an authority of its own for mirrorHost.
type networkMirror struct {
	listen    string // where it really is
	authority []byte // PEM

	mu    sync.Mutex
	asked []string // paths, in order
}

func newNetworkMirror(t *testing.T) *networkMirror {
	t.Helper()
	built := t.TempDir()
	out, err := exec.Command("../tests/provider/build.sh", built).CombinedOutput()
	require.NoError(t, err, "%s", out)
	found, err := filepath.Glob(filepath.Join(built, "registry.opentofu.org/holdfast-run/fault/*", platform, "*"))
	require.NoError(t, err)
	require.Len(t, found, 1)
	version := filepath.Base(filepath.Dir(filepath.Dir(found[0])))
	archive := zipped(t, found[0])
	digest := sha256.Sum256(archive)

	const base = "/providers/registry.opentofu.org/holdfast-run/fault/"
	files := map[string][]byte{
		base + "index.json":      fmt.Appendf(nil, `{"versions":{%q:{}}}`, version),
		base + version + ".json": fmt.Appendf(nil, `{"archives":{%q:{"url":"fault.zip","hashes":["zh:%s"]}}}`, platform, hex.EncodeToString(digest[:])),
		base + "fault.zip":       archive,
	}
	m := &networkMirror{}
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, r.URL.Path)
		m.mu.Unlock()
		content, there := files[r.URL.Path]
		if !there {
			http.NotFound(w, r)
			return
		}
		if strings.HasSuffix(r.URL.Path, ".json") {
			w.Header().Set("Content-Type", "application/json")
		}
		_, _ = w.Write(content)
	}))
	var certificate tls.Certificate
	m.authority, certificate = certified(t, mirrorHost)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	web.StartTLS()
	t.Cleanup(web.Close)
	m.listen = web.Listener.Addr().String()
	return m
}

func (m *networkMirror) paths() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string{}, m.asked...)
}

// zipped packs one program as a provider's archive.
func zipped(t *testing.T, program string) []byte {
	t.Helper()
	var b strings.Builder
	pack := zip.NewWriter(&b)
	header := &zip.FileHeader{Name: filepath.Base(program), Method: zip.Store}
	header.SetMode(0o755)
	entry, err := pack.CreateHeader(header)
	require.NoError(t, err)
	content, err := os.ReadFile(program)
	require.NoError(t, err)
	_, err = entry.Write(content)
	require.NoError(t, err)
	require.NoError(t, pack.Close())
	return []byte(b.String())
}

// certified gives a new authority, and a certificate for the host that it has signed.
func certified(t *testing.T, host string) (authority []byte, leaf tls.Certificate) {
	t.Helper()
	until := time.Now().Add(time.Hour)
	make := func(template, parent *x509.Certificate, signer *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		if signer == nil {
			signer = key
		}
		raw, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
		require.NoError(t, err)
		return raw, key
	}
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "an authority of their own"}, NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	rootRaw, rootKey := make(root, root, nil)
	leafRaw, leafKey := make(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host}, NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, root, rootKey)
	authority = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootRaw})
	return authority, tls.Certificate{Certificate: [][]byte{leafRaw}, PrivateKey: leafKey}
}

// proxy tunnels to the mirror whoever asks for mirrorHost, and nobody else.
type proxy struct {
	url string

	mu    sync.Mutex
	asked []string
}

func newProxy(t *testing.T, m *networkMirror) *proxy {
	t.Helper()
	p := &proxy{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+r.Host)
		p.mu.Unlock()
		if r.Method != http.MethodConnect || r.Host != mirrorHost+":443" {
			http.Error(w, "not here", http.StatusForbidden)
			return
		}
		out, err := net.Dial("tcp", m.listen)
		if err != nil {
			http.Error(w, "gone", http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusOK)
		in, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = out.Close()
			return
		}
		go func() {
			_, _ = io.Copy(out, buffered)
			_ = out.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(in, out)
		_, _ = in.Close(), out.Close()
	}))
	t.Cleanup(web.Close)
	p.url = web.URL
	return p
}

func (p *proxy) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.asked...)
}

// trust adds an authority to those that the runner trusts.
func (c Config) trust(t *testing.T, authority []byte) {
	t.Helper()
	file, err := os.OpenFile(c.CAFile, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = file.Write(authority)
	require.NoError(t, err)
	require.NoError(t, file.Close())
}

const faultConfig = `
terraform {
  required_providers {
    fault = { source = "holdfast-run/fault" }
  }
}
resource "fault_plain" "a" { value = "made" }
`

// A provider comes from a network mirror, behind a proxy and with a certificate of a
// private authority, and no registry is asked. Not parallel: it sets the environment.
func TestNetworkMirrorThroughAProxy(t *testing.T) {
	m := newNetworkMirror(t)
	p := newProxy(t, m)
	t.Setenv("HTTPS_PROXY", p.url)
	t.Setenv("NO_PROXY", "")
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": faultConfig})
	cfg := f.config()
	cfg.NetworkMirror = "https://" + mirrorHost + "/providers" // the slash at the end is added
	cfg.trust(t, m.authority)
	start(t, cfg)
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	f.next("apply")
	done = f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.Contains(t, string(f.state), `"made"`)
	assert.Contains(t, m.paths(), "/providers/registry.opentofu.org/holdfast-run/fault/fault.zip")
	require.NotEmpty(t, p.requests())
	for _, asked := range p.requests() {
		assert.Equal(t, "CONNECT "+mirrorHost+":443", asked, "the mirror alone is asked, and the server without the proxy")
	}
}

// What keeps a provider away is told in the log of the run, and nothing is made.
func TestNetworkMirrorThatCannotBeUsed(t *testing.T) {
	m := newNetworkMirror(t)
	p := newProxy(t, m)
	for name, c := range map[string]struct {
		noProxy       string
		trusted       bool
		configuration string
		want          string
	}{
		"an authority that is not trusted": {"", false, faultConfig, "certificate signed by unknown authority"},
		"no proxy for it":                  {mirrorHost, true, faultConfig, "lookup " + mirrorHost},
		"a provider that it does not have": {"", true, strings.ReplaceAll(faultConfig, "holdfast-run/fault", "holdfast-run/absent"), "holdfast-run/absent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HTTPS_PROXY", p.url)
			t.Setenv("NO_PROXY", c.noProxy)
			f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": c.configuration})
			cfg := f.config()
			cfg.NetworkMirror = "https://" + mirrorHost + "/providers/"
			if c.trusted {
				cfg.trust(t, m.authority)
			}
			start(t, cfg)
			done := f.await()
			assert.Equal(t, wire.OutcomeErrored, done.Outcome)
			assert.False(t, done.TofuStarted)
			assert.Contains(t, strings.Join(strings.Fields(strings.ReplaceAll(f.logText(), "│", "")), " "), c.want)
			for _, asked := range p.requests() {
				assert.Equal(t, "CONNECT "+mirrorHost+":443", asked, "no registry is asked")
			}
		})
	}
}

// What the folder has comes from there, and the rest from the network mirror.
func TestProviderSources(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(folder, "registry.opentofu.org/hashicorp/null"), 0o700))
	for name, c := range map[string]struct {
		folder, network string
		want            []string
	}{
		"neither":  {"", "", nil},
		"a folder": {folder, "", []string{"filesystem_mirror {", "path = " + cliString(folder), "}", "direct {", `exclude = ["registry.opentofu.org/hashicorp/null"]`, "}"}},
		"network": {"", "https://m.test/p", []string{
			"direct {", `include = ["h.test/*/*"]`, "exclude = []", "}",
			"network_mirror {", `url     = "https://m.test/p/"`, `exclude = ["h.test/*/*"]`, "}",
		}},
		"both": {folder, "https://m.test", []string{
			"filesystem_mirror {", "path = " + cliString(folder), "}",
			"direct {", `include = ["h.test/*/*"]`, `exclude = ["registry.opentofu.org/hashicorp/null"]`, "}",
			"network_mirror {", `url     = "https://m.test/"`, `exclude = ["registry.opentofu.org/hashicorp/null", "h.test/*/*"]`, "}",
		}},
		"an odd address": {"", `https://m.test/${x}"`, []string{
			"direct {", `include = ["h.test/*/*"]`, "exclude = []", "}",
			"network_mirror {", `url     = "https://m.test/$%7Bx%7D%22/"`, `exclude = ["h.test/*/*"]`, "}",
		}},
	} {
		sources, err := newProviderSources(c.folder, c.network)
		require.NoError(t, err, name)
		text, err := sources.installation("h.test")
		require.NoError(t, err, name)
		var lines []string
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		if c.want != nil {
			c.want = append(append([]string{"provider_installation {"}, c.want...), "}")
		}
		assert.Equal(t, c.want, lines, name)
	}
	for _, address := range []string{"http://m.test/", "m.test", "https://", "https://user:secret@m.test/", "https://m.test/?a=b", "https://m.test/#a", "https://m test/"} {
		_, err := newProviderSources("", address)
		require.ErrorContains(t, err, "must be an https address", address)
		assert.NotContains(t, err.Error(), "secret")
	}
}
