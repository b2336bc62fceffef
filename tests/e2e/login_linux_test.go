package e2e

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// terminal is a tofu that a person sits at.
type terminal struct {
	*background
	keys *os.File
}

// startAtTerminal runs tofu on a pseudo-terminal.
func startAtTerminal(t *testing.T, environ []string, args ...string) terminal {
	t.Helper()
	return atTerminal(t, "tofu", environ, args...)
}

// atTerminal runs a program under test on a pseudo-terminal. The screen is so wide that no
// line of its output is folded.
func atTerminal(t *testing.T, program string, environ []string, args ...string) terminal {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	require.NoError(t, err)
	fd := int(keys.Fd())
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 2000}))
	screen, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)

	b := &background{cmd: exec.CommandContext(t.Context(), filepath.Join(binDir, program), args...), said: &lockedBuffer{}, done: make(chan int, 1)}
	b.cmd.Env = environ
	b.cmd.Stdin, b.cmd.Stdout, b.cmd.Stderr = screen, screen, screen
	b.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, b.cmd.Start())
	require.NoError(t, screen.Close())
	t.Cleanup(func() { _ = keys.Close() })
	go func() {
		_, _ = io.Copy(b.said, keys) // ends with an error when tofu has closed the screen
		b.done <- exitCode(b.cmd.Wait())
	}()
	return terminal{b, keys}
}

// awaits returns what the terminal shows at the pattern's first group.
func (x terminal) awaits(t *testing.T, pattern string) string {
	t.Helper()
	found := []string(nil)
	eventually(t, "the terminal to show "+pattern, func() bool {
		found = regexp.MustCompile(pattern).FindStringSubmatch(x.said.String())
		return found != nil
	})
	return found[len(found)-1]
}

func (x terminal) types(t *testing.T, line string) {
	t.Helper()
	_, err := x.keys.WriteString(line + "\n")
	require.NoError(t, err)
}

var hiddenField = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// send fills in the form of a page and gives the page that follows.
func send(t *testing.T, browser *http.Client, page, address string, filled url.Values) string {
	t.Helper()
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		filled.Set(html.UnescapeString(m[1]), html.UnescapeString(m[2]))
	}
	resp, err := browser.PostForm(address, filled)
	require.NoError(t, err)
	return read(t, resp)
}

func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, 200, resp.StatusCode, "%s", text)
	return string(text)
}

// homeEnviron is the stack's environment without its token: tofu knows only what is in home.
func homeEnviron(home string) []string {
	return []string{"HOME=" + home, "TF_CLI_CONFIG_FILE=", "TFE_TOKEN=", "CHECKPOINT_DISABLE=1"}
}

func credentials(t *testing.T, home string) map[string]map[string]struct{ Token string } {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(home, ".terraform.d", "credentials.tfrc.json"))
	require.NoError(t, err)
	var stored map[string]map[string]struct{ Token string }
	require.NoError(t, json.Unmarshal(content, &stored))
	return stored
}

// TestLoginAndLogout goes the whole way of a user: the real client at a terminal, its
// browser played by an HTTP client with cookies.
func TestLoginAndLogout(t *testing.T) {
	t.Parallel()
	s, home := shared, t.TempDir()
	host := strings.TrimPrefix(s.address(), "https://")
	environ := s.commandEnviron(homeEnviron(home)...)
	// Without PATH tofu finds no browser to open, and shows the address instead.
	tofu := startAtTerminal(t, append(environ, "PATH="), "login", "-no-color", host)
	tofu.awaits(t, "Enter a value:")
	tofu.types(t, "yes")
	address := tofu.awaits(t, `(https://\S+/oauth/authorize\?\S+)\s`)

	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Transport: s.http.Transport, Jar: jar}
	resp, err := browser.Get(address)
	require.NoError(t, err)
	password, err := os.ReadFile(filepath.Join(s.dir, "admin-password"))
	require.NoError(t, err)
	page := send(t, browser, read(t, resp), s.address()+"/sign-in", url.Values{"username": {"admin"}, "password": {strings.TrimSpace(string(password))}})
	assert.Contains(t, page, "Allow <code>tofu</code> to log in?")
	assert.Contains(t, page, host)
	page = send(t, browser, page, s.address()+"/oauth/authorize", url.Values{"decision": {"allow"}})
	assert.Contains(t, page, "OpenTofu", "tofu itself answered the redirect")

	require.Equal(t, 0, tofu.wait(t), tofu.said)
	assert.Contains(t, tofu.said.String(), "Success!")
	token := credentials(t, home)["credentials"][host].Token
	require.Regexp(t, `^hfu_`, token)
	client, err := s.client(token)
	require.NoError(t, err)
	me, err := client.Users.ReadCurrent(ctx)
	require.NoError(t, err)
	assert.Equal(t, "admin", me.Username)
	resp, err = browser.Get(s.address() + "/app/settings/tokens")
	require.NoError(t, err)
	assert.Contains(t, read(t, resp), "tofu login from 127.0.0.1, for 365 days")

	f := newFolder(t, s, `resource "terraform_data" "a" {}`)
	f.environ = homeEnviron(home)
	f.init()

	out := f.tofu("logout", host)
	require.Equal(t, 0, out.code, out.said)
	assert.Empty(t, credentials(t, home)["credentials"])
	_, err = client.Users.ReadCurrent(ctx)
	require.NoError(t, err, "logout forgets the token and does not revoke it")
	denied := f.tofu("init")
	assert.NotEqual(t, 0, denied.code)
	assert.Contains(t, denied.said, "tofu login "+host)
}

// TestLogoutAsksNoServer: nothing listens at the host that tofu logs out of.
func TestLogoutAsksNoServer(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	folder := filepath.Join(home, ".terraform.d")
	require.NoError(t, os.Mkdir(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "credentials.tfrc.json"),
		[]byte(`{"credentials":{"localhost:1":{"token":"x"},"localhost:2":{"token":"y"}}}`), 0o600))
	cmd := exec.CommandContext(t.Context(), filepath.Join(binDir, "tofu"), "logout", "-no-color", "localhost:1")
	cmd.Env = append(plainEnviron(), homeEnviron(home)...)
	out := finish(cmd)
	require.Equal(t, 0, out.code, out.said)
	left := credentials(t, home)["credentials"]
	assert.NotContains(t, left, "localhost:1")
	assert.Equal(t, "y", left["localhost:2"].Token)
}
