//go:build unix

package devstack

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
)

func folder(t *testing.T) layout {
	t.Helper()
	l := layout{filepath.Join(t.TempDir(), "data")}
	require.NoError(t, l.makeFolders())
	return l
}

func TestListenAddresses(t *testing.T) {
	for listen, want := range map[string]string{
		"localhost:8443": "127.0.0.1:8443 https://localhost:8443",
		"127.0.0.1:9":    "127.0.0.1:9 https://localhost:9",
		"[::1]:9":        "[::1]:9 https://localhost:9",
	} {
		a, err := parseListen(listen, false)
		require.NoError(t, err, listen)
		assert.Equal(t, want, a.listen()+" "+a.url(), listen)
	}
	for _, remote := range []string{":8443", "0.0.0.0:8443", "[::]:8443", "192.0.2.7:8443", "example.org:8443"} {
		_, err := parseListen(remote, false)
		assert.True(t, fault.Is(err, fault.Invalid), remote)
		assert.ErrorContains(t, err, "--allow-remote", remote)
		_, err = parseListen(remote, true)
		assert.NoError(t, err, remote)
	}
	for _, broken := range []string{"", "8443", "localhost", "localhost:", "localhost:http", "localhost:70000"} {
		_, err := parseListen(broken, true)
		assert.ErrorContains(t, err, "cannot be read", broken)
	}
	a, err := parseListen("192.0.2.7:8443", true)
	require.NoError(t, err)
	assert.Equal(t, "https://192.0.2.7:8443", a.url())
}

func TestPortsAreKeptWhileTheyAreFree(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports")
	first, err := choosePorts(file, "postgres", "s3")
	require.NoError(t, err)
	assert.NotEqual(t, first["postgres"], first["s3"])
	for name, port := range first {
		assert.True(t, port >= 20000 && port < 30000, "%s has %d: a port that outgoing connections are given could be taken before it is used", name, port)
	}

	taken, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(first["s3"])))
	require.NoError(t, err)
	defer taken.Close()
	second, err := choosePorts(file, "postgres", "s3", "server")
	require.NoError(t, err)
	assert.Equal(t, first["postgres"], second["postgres"])
	assert.NotEqual(t, first["s3"], second["s3"])
	assert.Equal(t, second, readPorts(file))
}

func TestABrokenPortsFileMeansNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ports")
	require.NoError(t, os.WriteFile(file, []byte("postgres=many\n\x00\ns3=99999999\n=\n"), 0o600))
	assert.Empty(t, readPorts(file))
}

func TestTheUsersGitignoreIsLeftAlone(t *testing.T) {
	l := folder(t)
	content, err := os.ReadFile(l.path(".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "*\n", string(content))
	require.NoError(t, os.WriteFile(l.path(".gitignore"), []byte("mine\n"), 0o644))
	require.NoError(t, l.makeFolders())
	content, err = os.ReadFile(l.path(".gitignore"))
	require.NoError(t, err)
	assert.Equal(t, "mine\n", string(content))
}

func TestSecretFilesArePrivateAndKept(t *testing.T) {
	l := folder(t)
	first, err := ensureS3Credentials(l)
	require.NoError(t, err)
	second, err := ensureS3Credentials(l)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	assert.Len(t, first.id, 20)
	assert.Len(t, first.secret, 40)
	require.NoError(t, ensureCertificates(l, "localhost", ""))

	require.NoError(t, os.WriteFile(l.env()+".new", []byte("old"), 0o644), "a leftover that all may read")
	require.NoError(t, writePrivate(l.env(), "x"))
	for _, path := range []string{l.s3Credentials(), l.tls("ca-key.pem"), l.tls("server-key.pem"), l.env()} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm(), path)
	}
	info, err := os.Stat(l.dir)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestTheCertificateServesLoopbackAndTheHost(t *testing.T) {
	l := folder(t)
	require.NoError(t, ensureCertificates(l, "192.0.2.7", ""))
	pair, err := tls.LoadX509KeyPair(l.tls("server.pem"), l.tls("server-key.pem"))
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	server.StartTLS()
	defer server.Close()

	bundle, err := os.ReadFile(l.tls("bundle.pem"))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(bundle))
	for _, name := range []string{"localhost", "127.0.0.1", "::1", "192.0.2.7"} {
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: pool, ServerName: name})
		require.NoError(t, err, name)
		_ = conn.Close()
	}
	_, err = tls.Dial("tcp", server.Listener.Addr().String(), &tls.Config{RootCAs: pool, ServerName: "example.org"})
	assert.ErrorContains(t, err, "example.org")
}

func TestCertificatesAreReissuedWhenTheyMustBe(t *testing.T) {
	l := folder(t)
	read := func(name string) string {
		content, err := os.ReadFile(l.tls(name))
		require.NoError(t, err)
		return string(content)
	}
	require.NoError(t, ensureCertificates(l, "localhost", ""))
	ca, server := read("ca.pem"), read("server.pem")

	require.NoError(t, ensureCertificates(l, "localhost", ""))
	assert.Equal(t, server, read("server.pem"), "a good one stays")

	require.NoError(t, ensureCertificates(l, "example.org", ""))
	assert.NotEqual(t, server, read("server.pem"), "another host needs another one")
	assert.Equal(t, ca, read("ca.pem"))

	expiring, caKey, err := readPair(l.tls("ca.pem"), l.tls("ca-key.pem"))
	require.NoError(t, err)
	_, key, err := readPair(l.tls("server.pem"), l.tls("server-key.pem"))
	require.NoError(t, err)
	template := &x509.Certificate{
		NotBefore: clock.Now().Add(-time.Hour), NotAfter: clock.Now().Add(renewBefore - time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	_, err = sign(l.tls("server.pem"), l.tls("server-key.pem"), template, expiring, key, caKey)
	require.NoError(t, err)
	assert.False(t, serves(l, expiring, "localhost"), "near its expiry")

	require.NoError(t, os.WriteFile(l.tls("ca.pem"), []byte("rubbish"), 0o600))
	assert.ErrorContains(t, ensureCertificates(l, "localhost", ""), "Remove that folder")
}

func TestTheBundleDoesNotGrow(t *testing.T) {
	l := folder(t)
	roots := filepath.Join(t.TempDir(), "roots.pem")
	other := folder(t)
	require.NoError(t, ensureCertificates(other, "localhost", ""))
	otherCA, err := os.ReadFile(other.tls("ca.pem"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(roots, otherCA, 0o600))

	require.NoError(t, ensureCertificates(l, "localhost", roots))
	bundle, err := os.ReadFile(l.tls("bundle.pem"))
	require.NoError(t, err)
	ca, err := os.ReadFile(l.tls("ca.pem"))
	require.NoError(t, err)
	assert.Equal(t, string(otherCA)+string(ca), string(bundle), "what the caller trusts, then ours")

	require.NoError(t, ensureCertificates(l, "localhost", l.tls("bundle.pem")))
	bundle, err = os.ReadFile(l.tls("bundle.pem"))
	require.NoError(t, err)
	assert.Equal(t, 1, strings.Count(string(bundle), string(ca)), "our own bundle as the caller's roots is not doubled")
}

func sampleFacts(l layout) facts {
	return facts{
		layout: l, address: address{bind: "127.0.0.1", public: "localhost", port: 8443},
		databaseURL: "postgres://u:it's@h/db", s3: keyPair{"ID", "SECRET"}, s3Endpoint: "http://127.0.0.1:1",
		credentials: Credentials{UserToken: "to$ken${x}", RunnerToken: "runner"}, binDir: "/opt/o'brien/bin", tofu: "/opt/tofu",
	}
}

func TestTheEnvFileGivesAShellTheCommandsEnvironment(t *testing.T) {
	l := layout{filepath.Join(t.TempDir(), "a folder; rm -rf $HOME `x` \"y\" it's")}
	require.NoError(t, l.makeFolders())
	f := sampleFacts(l)
	require.NoError(t, writePrivate(l.env(), envFile(f)))

	out, err := exec.Command("/bin/sh", "-c", `PATH=/bin:/usr/bin; . "$1"; env -0`, "sh", l.env()).Output()
	require.NoError(t, err)
	seen := map[string]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		name, value, _ := strings.Cut(entry, "=")
		seen[name] = value
	}
	direct := map[string]string{}
	for _, entry := range commandEnviron([]string{"PATH=/bin:/usr/bin", "TFE_TOKEN=other", "KEPT=yes"}, f) {
		name, value, _ := strings.Cut(entry, "=")
		direct[name] = value
	}
	assert.Equal(t, "yes", direct["KEPT"])
	delete(direct, "KEPT")
	for name, value := range direct {
		assert.Equal(t, value, seen[name], name)
	}
	assert.Equal(t, "/opt/o'brien/bin:/bin:/usr/bin", seen["PATH"])
	assert.Equal(t, "localhost:8443", seen["TFE_HOSTNAME"])
	assert.Equal(t, "https://localhost:8443", seen["TFE_ADDRESS"])
	assert.Equal(t, "demo", seen["TF_CLOUD_ORGANIZATION"])
	assert.Equal(t, "to$ken${x}", seen["TFE_TOKEN"])
	assert.Equal(t, l.dir, seen["HOLDFAST_DATA"])
}

func TestTheRunnerSeesNoStore(t *testing.T) {
	l := layout{"/data"}
	caller := []string{
		"PATH=/bin", "HOME=/home/u", "https_proxy=http://proxy", "AWS_SECRET_ACCESS_KEY=no", "TFE_TOKEN=no",
		"HOLDFAST_DATABASE_URL=no", "HOLDFAST_S3_SECRET_ACCESS_KEY=no", "HOLDFAST_KEYRING=no", "HOLDFAST_RUNNER_NAME=mine",
		"GORACE=log_path=/logs/race",
	}
	environ := serviceEnviron(l, inherited(caller, forRunner), sampleFacts(l).runner())
	assert.Equal(t, []string{
		"GORACE=log_path=/logs/race", "HOLDFAST_ADDRESS=https://localhost:8443", "HOLDFAST_DEV_DIR=/data", "HOLDFAST_RUNNER_ALLOW_METADATA=true", "HOLDFAST_RUNNER_DIR=/data/runner",
		"HOLDFAST_RUNNER_NAME=mine", "HOLDFAST_RUNNER_TOKEN_FILE=/data/runner-token", "HOLDFAST_TOFU=/opt/tofu",
		"HOME=/home/u", "PATH=/bin", "SSL_CERT_FILE=/data/tls/bundle.pem", "https_proxy=http://proxy",
	}, environ)
}

func TestTheServersOwnVariablesWin(t *testing.T) {
	l := layout{"/data"}
	environ := serviceEnviron(l, inherited([]string{"HOLDFAST_KEYRING=other", "HOLDFAST_LOG_LEVEL=debug"}, forServer), sampleFacts(l).server())
	assert.Contains(t, environ, "HOLDFAST_KEYRING=/data/keys/keyring.json")
	assert.Contains(t, environ, "HOLDFAST_LOG_LEVEL=debug")
	assert.Contains(t, environ, "HOLDFAST_LISTEN=127.0.0.1:8443")
}

func TestTheClientConfigurationNamesMirroredProvidersOnly(t *testing.T) {
	f := sampleFacts(folder(t))
	assert.Equal(t, "credentials \"localhost:8443\" {\n  token = \"to$ken$${x}\"\n}\n", cliConfig(f))

	f.mirror = t.TempDir()
	provider := filepath.Join("registry.opentofu.org", "hashicorp", "time")
	require.NoError(t, os.MkdirAll(filepath.Join(f.mirror, provider, "0.14.2", "linux_amd64"), 0o755))
	config := cliConfig(f)
	assert.Contains(t, config, "    include = [\"registry.opentofu.org/hashicorp/time\"]\n")
	assert.Contains(t, config, "  direct {\n    exclude = [\"registry.opentofu.org/hashicorp/time\"]\n")

	f.network = "https://mirror.example.com/p/"
	both := cliConfig(f)
	assert.Contains(t, both, "    include = [\"registry.opentofu.org/hashicorp/time\"]\n")
	assert.Contains(t, both, "  network_mirror {\n    url     = \"https://mirror.example.com/p/\"\n    exclude = [\"registry.opentofu.org/hashicorp/time\", \"localhost:8443/*/*\"]\n")
	assert.Contains(t, both, "  direct {\n    include = [\"localhost:8443/*/*\"]\n    exclude = [\"registry.opentofu.org/hashicorp/time\"]\n", "no other registry is asked")
	assert.Equal(t, 1, strings.Count(both, "direct"))
	assert.Equal(t, f.network, f.runner()["HOLDFAST_NETWORK_MIRROR"])
	f.mirror = ""
	assert.Contains(t, cliConfig(f), "provider_installation {\n  direct {\n    include = [\"localhost:8443/*/*\"]\n    exclude = []\n  }\n  network_mirror {\n    url     = \"https://mirror.example.com/p/\"\n    exclude = [\"localhost:8443/*/*\"]\n  }\n}\n")
}

func TestNetworkMirrorAddresses(t *testing.T) {
	for given, want := range map[string]string{"": "", "https://m.example/p": "https://m.example/p/", "https://m.example/p/": "https://m.example/p/"} {
		address, err := networkMirror(given)
		require.NoError(t, err)
		assert.Equal(t, want, address)
	}
	for _, wrong := range []string{"http://m.example/", "m.example", "https://", "https://u:p@m.example/", "https://m.example/?x", "https://m.example/#x", "://"} {
		_, err := networkMirror(wrong)
		assert.True(t, fault.HasCode(err, "network_mirror"), wrong)
		assert.NotContains(t, err.Error(), "u:p")
	}
}
