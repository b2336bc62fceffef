package operator

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhereTheServerIs(t *testing.T) {
	t.Setenv("TF_CLOUD_HOSTNAME", "cloud.example.com:8443")
	for given, want := range map[string]string{
		"": "https://cloud.example.com:8443", "h.example.com": "https://h.example.com", "https://h.example.com/app/": "https://h.example.com", "http://localhost:1": "http://localhost:1",
	} {
		at, err := Connection{Address: given}.address()
		require.NoError(t, err)
		assert.Equal(t, want, at.String())
	}
	for _, given := range []string{"ftp://h", "https://", "http://a b"} {
		_, err := Connection{Address: given}.address()
		assert.Error(t, err, given)
	}
	t.Setenv("TF_CLOUD_HOSTNAME", "")
	_, err := Connection{}.address()
	assert.ErrorContains(t, err, "HOLDFAST_ADDRESS")
}

func TestWhoseTokenIsTaken(t *testing.T) {
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, ".config"), "HOLDFAST_TOKEN": "", "TFE_TOKEN": "", "TF_CLI_CONFIG_FILE": "", "TF_TOKEN_h_example__one_com": ""} {
		t.Setenv(name, value)
	}
	at := &url.URL{Scheme: "https", Host: "h.example-one.com"}
	token := func(c Connection) string {
		t.Helper()
		token, err := c.token(at)
		require.NoError(t, err)
		return token
	}
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(home, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	_, err := Connection{}.token(at)
	assert.ErrorContains(t, err, "tofu login h.example-one.com")
	write(".config/opentofu/credentials.tfrc.json", `{"credentials":{"other":{"token":"no"},"h.example-one.com":{"token":"xdg"}}}`)
	assert.Equal(t, "xdg", token(Connection{}))
	write(".terraform.d/credentials.tfrc.json", `{"credentials":{"h.example-one.com":{"token":"login"}}}`)
	assert.Equal(t, "login", token(Connection{}))
	write(".tofurc", "credentials \"other\" {\n  token = \"no\"\n}\ncredentials \"h.example-one.com\" {\n  token = \"rc\"\n}\n")
	assert.Equal(t, "rc", token(Connection{}))
	t.Setenv("TF_CLI_CONFIG_FILE", write("cli.tfrc", `credentials "h.example-one.com" { token = "config" }`))
	assert.Equal(t, "config", token(Connection{}))
	for _, c := range [][2]string{{"TF_TOKEN_h_example__one_com", "variable"}, {"TFE_TOKEN", "tfe"}, {"HOLDFAST_TOKEN", "own"}} {
		t.Setenv(c[0], c[1])
		assert.Equal(t, c[1], token(Connection{}))
	}
	assert.Equal(t, "file", token(Connection{TokenFile: write("token", "file\n")}))
}

// The token is for one server: where that one redirects, nothing follows.
func TestARedirectIsNotFollowed(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/x", http.StatusFound))
	defer server.Close()
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	api, err := newClient(at, "secret-token", "")
	require.NoError(t, err)
	_, err = api.all(t.Context(), "organizations")
	require.ErrorContains(t, err, elsewhere.URL)
	assert.Zero(t, asked)
	_, err = newClient(at, "", filepath.Join(t.TempDir(), "none.pem"))
	require.Error(t, err)
}
