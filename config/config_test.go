package config_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/config"
)

var storageNames = []string{
	"HOLDFAST_DATABASE_URL", "HOLDFAST_KEYRING", "HOLDFAST_S3_ENDPOINT", "HOLDFAST_S3_BUCKET", "HOLDFAST_S3_ACCESS_KEY_ID", "HOLDFAST_S3_SECRET_ACCESS_KEY",
}

// environment sets these variables and no other of ours.
func environment(t *testing.T, set map[string]string) {
	t.Helper()
	for _, pair := range os.Environ() {
		if name, _, _ := strings.Cut(pair, "="); strings.HasPrefix(name, "HOLDFAST_") {
			t.Setenv(name, "")
		}
	}
	for name, value := range set {
		t.Setenv(name, value)
	}
}

func complete() map[string]string {
	return map[string]string{
		"HOLDFAST_DATABASE_URL": "postgres://u:hunter2@db/holdfast", "HOLDFAST_KEYRING": "/etc/keyring", "HOLDFAST_S3_ENDPOINT": "https://s3.test", "HOLDFAST_S3_BUCKET": "b",
		"HOLDFAST_S3_ACCESS_KEY_ID": "id", "HOLDFAST_S3_SECRET_ACCESS_KEY": "hunter2", "HOLDFAST_LISTEN": ":8443", "HOLDFAST_ADDRESS": "https://tofu.test:8443",
	}
}

func TestAllMissingNamesAreReportedAtOnce(t *testing.T) {
	environment(t, nil)
	_, err := config.LoadStorage()
	require.Error(t, err)
	for _, name := range storageNames {
		assert.ErrorContains(t, err, name+" is not set")
	}
	assert.ErrorContains(t, err, "docs/configuration.md")
	assert.NotContains(t, err.Error(), "HOLDFAST_LISTEN", "what only a server needs")
	assert.NotContains(t, err.Error(), "REGION", "it has a default")

	_, err = config.LoadServer()
	require.Error(t, err)
	for _, name := range append([]string{"HOLDFAST_LISTEN", "HOLDFAST_ADDRESS"}, storageNames...) {
		assert.ErrorContains(t, err, name+" is not set")
	}
	assert.NotContains(t, err.Error(), "https", "a missing address is not also a wrong one")

	for name := range complete() {
		with := complete()
		with[name] = ""
		environment(t, with)
		_, err := config.LoadServer()
		require.ErrorContains(t, err, name+" is not set")
		assert.NotContains(t, err.Error(), "; ", "and nothing else")
		assert.NotContains(t, err.Error(), "hunter2")
	}
}

func TestAWholeEnvironment(t *testing.T) {
	environment(t, complete())
	s, err := config.LoadServer()
	require.NoError(t, err)
	want := config.Server{
		Storage: config.Storage{
			DatabaseURL: "postgres://u:hunter2@db/holdfast", Keyring: "/etc/keyring",
			S3: artifacts.S3Config{Endpoint: "https://s3.test", Bucket: "b", Region: "us-east-1", AccessKeyID: "id", SecretAccessKey: "hunter2"},
		},
		Listen: ":8443", Address: "https://tofu.test:8443", DrainTimeout: 30 * time.Second, Limits: config.DefaultLimits(),
	}
	assert.Equal(t, want, s)
	assert.Equal(t, "tofu.test:8443", s.Host())
	storage, err := config.LoadStorage()
	require.NoError(t, err)
	assert.Equal(t, want.Storage, storage)

	more := complete()
	for name, value := range map[string]string{
		"HOLDFAST_S3_REGION": "eu", "HOLDFAST_S3_SESSION_TOKEN": "session", "HOLDFAST_S3_CHECKSUM": "off", "HOLDFAST_TLS_CERT": "/c", "HOLDFAST_TLS_KEY": "/k", "HOLDFAST_ADDRESS": "https://tofu.test/",
	} {
		more[name] = value
	}
	environment(t, more)
	s, err = config.LoadServer()
	require.NoError(t, err)
	assert.Equal(t, []string{"eu", "session", "off", "/c", "/k", "https://tofu.test", "tofu.test"}, []string{s.S3.Region, s.S3.SessionToken, s.S3.Checksum, s.TLSCert, s.TLSKey, s.Address, s.Host()})
}

func TestTheAddressIsHTTPSWithoutAPath(t *testing.T) {
	for _, address := range []string{
		"http://tofu.test", "tofu.test", "tofu.test:8443", "https://", "https://:8443", "https://tofu.test/base", "https://tofu.test//", "https://tofu.test?x=1", "https://tofu.test#x",
		"https://user:hunter2@tofu.test", "https://tofu.test:port", "ftp://tofu.test", "https:tofu.test", "HTTPS //", "https://tofu test",
	} {
		with := complete()
		with["HOLDFAST_ADDRESS"] = address
		environment(t, with)
		_, err := config.LoadServer()
		require.ErrorContains(t, err, "HOLDFAST_ADDRESS must be an https:// address without a path", address)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	for _, address := range []string{"https://tofu.test", "https://localhost:8443", "https://10.0.0.1", "https://[::1]:8443/"} {
		with := complete()
		with["HOLDFAST_ADDRESS"] = address
		environment(t, with)
		_, err := config.LoadServer()
		assert.NoError(t, err, address)
	}
}

func TestCertificateAndKeyBelongTogether(t *testing.T) {
	for _, name := range []string{"HOLDFAST_TLS_CERT", "HOLDFAST_TLS_KEY"} {
		with := complete()
		with[name] = "/file"
		environment(t, with)
		_, err := config.LoadServer()
		assert.ErrorContains(t, err, "HOLDFAST_TLS_CERT and HOLDFAST_TLS_KEY belong together")
	}
}

func TestTrustedProxies(t *testing.T) {
	with := complete()
	with["HOLDFAST_TRUSTED_PROXIES"] = "10.0.0.7, 192.0.2.0/24,,2001:db8::/32"
	environment(t, with)
	s, err := config.LoadServer()
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")}, s.TrustedProxies)

	for _, wrong := range []string{"proxy.test", "10.0.0.0/33", "10.0.0.7;10.0.0.8"} {
		with["HOLDFAST_TRUSTED_PROXIES"] = wrong
		environment(t, with)
		_, err := config.LoadServer()
		assert.ErrorContains(t, err, "HOLDFAST_TRUSTED_PROXIES must list addresses or networks", wrong)
	}
}

func TestAddressesThatUsersGave(t *testing.T) {
	with := complete()
	with["HOLDFAST_OUTBOUND_ALLOW"], with["HOLDFAST_OUTBOUND_PROXY"] = "10.1.0.0/16, ::1", "http://proxy.test:3128"
	environment(t, with)
	s, err := config.LoadServer()
	require.NoError(t, err)
	assert.Equal(t, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}, s.Outbound.Allow)
	assert.Equal(t, "proxy.test:3128", s.Outbound.Proxy.Host)
	for name, wrong := range map[string]string{"HOLDFAST_OUTBOUND_ALLOW": "intranet", "HOLDFAST_OUTBOUND_PROXY": "proxy.test:3128"} {
		with := complete()
		with[name] = wrong
		environment(t, with)
		_, err := config.LoadServer()
		assert.ErrorContains(t, err, name)
	}
}

func TestMailServer(t *testing.T) {
	with := complete()
	with["HOLDFAST_SMTP_URL"], with["HOLDFAST_SMTP_FROM"] = "smtp://u:hunter2@mail.test", "holdfast@acme.test"
	environment(t, with)
	s, err := config.LoadServer()
	require.NoError(t, err)
	assert.NotNil(t, s.Mail)
	for _, name := range []string{"HOLDFAST_SMTP_URL", "HOLDFAST_SMTP_FROM"} {
		with := complete()
		with["HOLDFAST_SMTP_URL"], with["HOLDFAST_SMTP_FROM"] = "smtp://u:hunter2@mail.test", "holdfast@acme.test"
		with[name] = ""
		environment(t, with)
		_, err := config.LoadServer()
		require.ErrorContains(t, err, "belong together", name)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
