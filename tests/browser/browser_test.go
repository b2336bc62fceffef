package browser

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const patience = 60 * time.Second

// needed gives a variable of the environment that `holdfast dev` makes.
func needed(t *testing.T, name string) string {
	t.Helper()
	value := os.Getenv(name)
	require.NotEmpty(t, value, "%s is not set: run this by `make browser`", name)
	return value
}

// chromium gives the browser that scripts/chromium.sh looks for.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.FailNow(t, "there is no Chromium: run scripts/chromium.sh")
	return ""
}

// person is somebody at a browser.
type person struct {
	*testing.T
	ctx context.Context
}

// newPerson starts Chromium. It trusts the server's own certificate and no other that
// the system does not know.
func newPerson(t *testing.T) person {
	t.Helper()
	host := needed(t, "TFE_HOSTNAME")
	conn, err := tls.Dial("tcp", host, nil)
	require.NoError(t, err)
	key := sha256.Sum256(conn.ConnectionState().PeerCertificates[0].RawSubjectPublicKeyInfo)
	require.NoError(t, conn.Close())

	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, // a container's root has no sandbox
		chromedp.Flag("ignore-certificate-errors-spki-list", base64.StdEncoding.EncodeToString(key[:])),
		chromedp.Flag("disable-background-networking", true),
	)...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx)) // starts it; a limit on this call would limit the browser's life
	return person{t, ctx}
}

func (p person) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p, chromedp.Do(ctx, steps...))
}

func get[T any](p person, action chromedp.Action[T]) T {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	require.NoError(p, err)
	return value
}

func (p person) visit(address string) { p.do(chromedp.Navigate(address)) }

// press clicks a button and waits until the page that follows is there.
func (p person) press(button string) {
	p.Helper()
	get(p, chromedp.WaitEvent(page.LoadEventFired, nil, chromedp.Click("//button[normalize-space()='"+button+"']")))
}

// fill types into the field with that label.
func (p person) fill(label, text string) {
	p.Helper()
	field := "//*[@id=//label[normalize-space()='" + label + "']/@for]"
	p.do(chromedp.SendKeys(field, text))
}

func (p person) sees() string {
	p.Helper()
	return get(p, chromedp.Text(chromedp.CSS("main")))
}

// accessible demands what a screen reader and a weak eye need of every page.
func (p person) accessible() {
	p.Helper()
	assert.Empty(p, get(p, chromedp.Evaluate[string](`
		[...document.querySelectorAll("input:not([type=hidden]), select, button")]
			.filter(e => !(e.labels?.length) && !e.textContent.trim() && !e.ariaLabel).map(e => e.outerHTML).join("\n")`)), "controls without a name")
	assert.Equal(p, 1, get(p, chromedp.Evaluate[int](`document.querySelectorAll("h1").length`)), "one heading")
	assert.Equal(p, "en", get(p, chromedp.Evaluate[string](`document.documentElement.lang`)))
	assert.NotEmpty(p, get(p, chromedp.Title()))
	assert.Equal(p, "736px", get(p, chromedp.Evaluate[string](`getComputedStyle(document.querySelector("main")).maxWidth`)), "the policy lets our style in")
}

func (p person) signIn() {
	p.Helper()
	password, err := os.ReadFile(filepath.Join(needed(p.T, "HOLDFAST_DATA"), "admin-password"))
	require.NoError(p, err)
	p.fill("Username", "admin")
	p.fill("Password", strings.TrimSpace(string(password)))
	p.press("Sign in")
}

// screen keeps what tofu says.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

var authorizeAddress = regexp.MustCompile(`(https://\S+/oauth/authorize\?\S+)\s`) // with what follows: it may come in pieces

func TestLogin(t *testing.T) {
	host, home := needed(t, "TFE_HOSTNAME"), t.TempDir()
	tofu, err := exec.LookPath("tofu")
	require.NoError(t, err)
	said := &screen{}
	login := exec.CommandContext(t.Context(), tofu, "login", "-no-color", host)
	// Without PATH tofu opens no browser of its own.
	login.Env = append(os.Environ(), "HOME="+home, "TF_CLI_CONFIG_FILE=", "PATH=", "CHECKPOINT_DISABLE=1")
	login.Stdin, login.Stdout, login.Stderr = strings.NewReader("yes\n"), said, said
	require.NoError(t, login.Start())
	require.Eventually(t, func() bool { return authorizeAddress.MatchString(said.String()) }, patience, 50*time.Millisecond, "tofu said: %s", said)

	p := newPerson(t)
	p.visit(authorizeAddress.FindStringSubmatch(said.String())[1])
	p.accessible()
	p.fill("Username", "admin")
	p.fill("Password", "wrong")
	p.press("Sign in")
	assert.Contains(t, p.sees(), "The username or the password is wrong.")
	p.do(chromedp.Clear(chromedp.ID("username")))
	p.signIn()
	p.accessible()
	for _, told := range []string{"Allow tofu to log in?", host, "admin", "everything that you may do here"} {
		assert.Contains(t, p.sees(), told)
	}
	p.press("Allow")
	assert.Regexp(t, `^http://localhost:10[0-9]{3}/login\?code=`, get(p, chromedp.Location()), "the policy lets the browser go back to tofu")
	require.NoError(t, login.Wait(), said)
	assert.Contains(t, said.String(), "Success!")
	stored, err := os.ReadFile(filepath.Join(home, ".terraform.d", "credentials.tfrc.json"))
	require.NoError(t, err)
	assert.Contains(t, string(stored), `"hfu_`)
}

func TestTokens(t *testing.T) {
	address := needed(t, "TFE_ADDRESS")
	p := newPerson(t)
	p.visit(address + "/app/settings/tokens?source=terraform-login")
	p.signIn()
	assert.Contains(t, p.sees(), "Your terminal waits for a token.")
	p.accessible()
	p.fill("What it is for", "a browser's own")
	p.press("Create token")
	token := get(p, chromedp.Text(chromedp.ID("new-token")))
	require.Regexp(t, `^hfu_`, token)
	assert.Equal(t, http.StatusOK, account(t, address, token))
	p.accessible()

	p.visit(address + "/app/settings/tokens")
	assert.NotContains(t, p.sees(), token)
	get(p, chromedp.WaitEvent(page.LoadEventFired, nil, chromedp.Click(`//button[@aria-label="Revoke a browser's own"]`)))
	assert.NotContains(t, p.sees(), "a browser's own")
	assert.Equal(t, http.StatusUnauthorized, account(t, address, token))
	assert.Equal(t, "", get(p, chromedp.Evaluate[string](`document.cookie`)), "no script can read the session")

	p.press("Sign out")
	assert.Contains(t, p.sees(), "Sign in to")
	p.visit(address + "/app/settings/tokens")
	assert.Contains(t, get(p, chromedp.Location()), "/sign-in?next=")
}

// account gives the API's answer to who the token stands for.
func account(t *testing.T, address, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v2/account/details", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode
}
