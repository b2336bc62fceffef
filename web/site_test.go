package web_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/scim"
	decided "github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/tfeapi"
	"github.com/holdfast-run/holdfast/web"
	"github.com/holdfast-run/holdfast/workspaces"
)

const password = "correct horse battery"

// site is the pages and the API on one address, with the users ann, an owner of the
// organization acme, and bob, who belongs to nothing.
type site struct {
	*testing.T
	db       *postgres.DB
	accounts *accounts.Service
	runs     *runs.Service
	ann, bob accounts.User
	server   *httptest.Server
	host     string
	log      *lockedBuffer
}

// lockedBuffer keeps what a server at work says.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	links, err := envelope.NewLinks(t.Context(), ring)
	require.NoError(t, err)
	s := &site{T: t, db: testdb.New(t), log: &lockedBuffer{}}
	store := storetest.NewMemory()
	objects := artifacts.New(s.db, store, ring)
	s.accounts = accounts.New(s.db, objects)
	spaces := workspaces.New(s.db, s.accounts, objects)
	states := state.New(s.db, objects)
	s.runs = runs.New(s.db, objects, spaces, states, dispatch.New(s.db, objects, links), runs.Defaults())

	s.server = httptest.NewUnstartedServer(nil)
	s.host = s.server.Listener.Addr().String()
	log := slog.New(slog.NewTextHandler(io.MultiWriter(t.Output(), s.log), nil))
	pages := web.New(web.Deps{
		Authenticate: s.accounts.Authenticate, Accounts: s.accounts, Runs: s.runs, Site: decided.New(s.db), Address: "https://" + s.host,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("10.0.0.0/24")}, Log: log,
	})
	api := tfeapi.New(tfeapi.Deps{
		Authenticate: s.accounts.Authenticate, Accounts: s.accounts, Workspaces: spaces, State: states, Runs: s.runs, SCIM: scim.New(s.db, s.accounts.RequireStepUp), Links: links,
		Ready: store.Ping, Address: "https://" + s.host, Log: log,
	})
	s.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if web.Serves(r.URL.Path) {
			pages.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
	s.server.StartTLS()
	t.Cleanup(s.server.Close)

	s.ann, s.bob = s.user("ann"), s.user("bob")
	org, err := spaces.CreateOrganization(t.Context(), authz.System(), accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	require.NoError(t, s.accounts.AddMember(t.Context(), authz.System(), org.ID, s.ann.ID, authz.Owner))
	return s
}

func (s *site) user(name string) accounts.User {
	s.Helper()
	u, err := s.accounts.CreateUser(s.Context(), authz.System(), accounts.NewUser{Username: name})
	require.NoError(s, err)
	require.NoError(s, s.accounts.SetPassword(s.Context(), authz.System(), name, password))
	return u
}

func (s *site) exec(sql string) {
	s.Helper()
	require.NoError(s, postgres.InTx(s.Context(), s.db, "test", func(tx postgres.Tx) error {
		for statement := range strings.SplitSeq(sql, "; ") {
			if _, err := postgres.Exec(s.Context(), tx, statement, postgres.Args{}); err != nil {
				return err
			}
		}
		return nil
	}))
}

// run makes a run of ann's in the workspace acme/shop and gives the path of its page.
func (s *site) run() string {
	s.Helper()
	ctx := s.Context()
	token, _, err := s.accounts.CreateUserToken(ctx, authz.System(), s.ann.ID, "", 0)
	require.NoError(s, err)
	group, _, err := s.accounts.CreateRunnerGroup(ctx, authz.System(), "", "local")
	require.NoError(s, err)
	runner, err := s.accounts.RunnerGroupByToken(ctx, group)
	require.NoError(s, err)
	_, _, _, err = s.runs.Poll(ctx, runner, dispatch.RunnerHello{Name: "r", TofuVersions: []string{"1.12.6"}})
	require.NoError(s, err)

	client, err := tfe.NewClient(&tfe.Config{Address: "https://" + s.host, Token: token, HTTPClient: s.server.Client()})
	require.NoError(s, err)
	ws, err := client.Workspaces.Create(ctx, "acme", tfe.WorkspaceCreateOptions{Name: tfe.String("shop")})
	require.NoError(s, err)
	cv, err := client.ConfigurationVersions.Create(ctx, ws.ID, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
	require.NoError(s, err)
	require.NoError(s, client.ConfigurationVersions.UploadTarGzip(ctx, cv.UploadURL, configuration(s.T)))
	run, err := client.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: ws, ConfigurationVersion: cv})
	require.NoError(s, err)
	return "/app/acme/shop/runs/" + run.ID
}

func configuration(t *testing.T) io.Reader {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	files := tar.NewWriter(zipped)
	require.NoError(t, files.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Typeflag: tar.TypeReg}))
	require.NoError(t, files.Close())
	require.NoError(t, zipped.Close())
	return &out
}

// browser keeps cookies, follows no redirect by itself and has never run a script.
type browser struct {
	*site
	client *http.Client
}

func (s *site) browser() *browser {
	s.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(s, err)
	return &browser{s, &http.Client{
		Transport: s.server.Client().Transport, Jar: jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// signedIn is a browser in which the user has signed in.
func (s *site) signedIn(name string) *browser {
	s.Helper()
	b := s.browser()
	require.Equal(s, http.StatusSeeOther, b.signIn(name, password, "").status)
	return b
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	text   string
}

func (a answer) location() string { return a.header.Get("Location") }

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// fields are the hidden fields of the page's forms. Where two forms have the same, their
// value is the same too.
func (a answer) fields() url.Values {
	fields := url.Values{}
	for _, m := range hiddenField.FindAllStringSubmatch(a.text, -1) {
		fields.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	return fields
}

func (b *browser) do(method, path string, body io.Reader, header http.Header) answer {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), method, "https://"+b.host+path, body)
	require.NoError(b, err)
	req.Header = header
	resp, err := b.client.Do(req)
	require.NoError(b, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(b, err)
	return answer{resp.StatusCode, resp.Header, string(text)}
}

func (b *browser) get(path string) answer { return b.do("GET", path, nil, http.Header{}) }

// post sends a form as a browser does from a page of ours.
func (b *browser) post(path string, form url.Values) answer {
	return b.postFrom("same-origin", path, form)
}

func (b *browser) postFrom(where, path string, form url.Values) answer {
	return b.do("POST", path, strings.NewReader(form.Encode()), http.Header{
		"Content-Type": {"application/x-www-form-urlencoded"}, "Sec-Fetch-Site": {where},
	})
}

func (b *browser) signIn(name, password, next string) answer {
	return b.post("/sign-in", url.Values{"username": {name}, "password": {password}, "next": {next}})
}

func (b *browser) cookie() string {
	u, _ := url.Parse("https://" + b.host)
	for _, c := range b.client.Jar.Cookies(u) {
		if c.Name == "__Host-holdfast-session" {
			return c.Value
		}
	}
	return ""
}

const (
	verifier = "3a1c3d5e-0b7a-4c39-9a53-51f6f0a3d1c2.123456789"
	callback = "http://localhost:10007/login"
)

// loginQuery is what tofu sends the browser with.
func loginQuery() url.Values {
	sum := sha256.Sum256([]byte(verifier))
	return url.Values{
		"client_id": {"holdfast-cli"}, "redirect_uri": {callback}, "response_type": {"code"}, "state": {"a&b=c d"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
}

func loginPath() string { return "/oauth/authorize?" + loginQuery().Encode() }

// consent decides on the login that the page asks about.
func (b *browser) consent(page answer, decision string) answer {
	form := page.fields()
	form.Set("decision", decision)
	return b.post("/oauth/authorize", form)
}

// code is that of a login that the user allows.
func (b *browser) code() string {
	b.Helper()
	page := b.get(loginPath())
	require.Equal(b, 200, page.status, page.text)
	allowed := b.consent(page, "allow")
	require.Equal(b, http.StatusSeeOther, allowed.status, allowed.text)
	back, err := url.Parse(allowed.location())
	require.NoError(b, err)
	require.NotEmpty(b, back.Query().Get("code"))
	return back.Query().Get("code")
}

func exchange(code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {"holdfast-cli"}, "redirect_uri": {callback}, "code_verifier": {verifier},
	}
}

// redeem asks for a token as tofu does: no browser, no cookies.
func (s *site) redeem(form url.Values) (status int, body map[string]any) {
	s.Helper()
	answer := s.browser().do("POST", "/oauth/token", strings.NewReader(form.Encode()), http.Header{"Content-Type": {"application/x-www-form-urlencoded"}})
	require.Equal(s, "application/json", answer.header.Get("Content-Type"), answer.text)
	require.Equal(s, "no-store", answer.header.Get("Cache-Control"))
	require.NoError(s, json.Unmarshal([]byte(answer.text), &body))
	return answer.status, body
}

// account asks the API who the token stands for.
func (s *site) account(header http.Header) answer {
	return s.browser().do("GET", "/api/v2/account/details", nil, header)
}

func bearer(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }
