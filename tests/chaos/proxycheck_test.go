package chaos

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASeedIsASchedule(t *testing.T) {
	t.Parallel()
	m := mix{over: time.Minute, servers: 5, runners: 4, postgres: 3, stores: 2, networks: 1, longest: 8 * time.Second}
	first := schedule(7, 1, m, size{3, 8})
	assert.Equal(t, first, schedule(7, 1, m, size{3, 8}))
	assert.NotEqual(t, first, schedule(8, 1, m, size{3, 8}))
	require.Len(t, first, 15)
	for i, b := range first {
		assert.Less(t, b.at, time.Minute)
		assert.LessOrEqual(t, b.last, 8*time.Second)
		if i > 0 {
			assert.LessOrEqual(t, first[i-1].at, b.at)
		}
	}
	counts := map[fate]int{}
	for n := range uint64(10_000) {
		does, _ := storm(7).of(n)
		again, _ := storm(7).of(n)
		require.Equal(t, does, again)
		counts[does]++
	}
	f := storm(7)
	for does, share := range map[fate]int{refused: f.refused, lostRequest: f.lostRequest, lostAnswer: f.lostAnswer, twice: f.twice, delayed: f.delayed} {
		assert.InDelta(t, 10*share, counts[does], 100, "%s", does)
	}
}

// scene is a proxy before a server that counts.
type scene struct {
	*proxy
	client *http.Client
	mu     sync.Mutex
	got    []string
	answer func(w http.ResponseWriter, r *http.Request)
}

func newScene(t *testing.T, f faults) *scene {
	s := &scene{}
	behind := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.got = append(s.got, r.Method+" "+r.URL.Path+" "+string(body))
		n := len(s.got)
		s.mu.Unlock()
		if s.answer != nil {
			s.answer(w, r)
			return
		}
		fmt.Fprint(w, n)
	}))
	t.Cleanup(behind.Close)
	h, err := newHistory(t.TempDir())
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(behind.Certificate())
	s.proxy, err = startProxy(behind.TLS.Certificates[0], roots, h, f)
	require.NoError(t, err)
	t.Cleanup(s.close)
	s.transport.TLSClientConfig.ServerName = "example.com" // what httptest's certificate says
	s.join("server", behind.Listener.Addr().String())
	s.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"}}}
	s.on.Store(true)
	return s
}

func (s *scene) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string{}, s.got...)
}

func (s *scene) post(t *testing.T, door, path, body string) (status int, text string, err error) {
	t.Helper()
	response, err := s.client.Post(door+path, "", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(content), nil
}

func TestFates(t *testing.T) {
	t.Parallel()
	const sent = "POST /x body"
	for name, c := range map[string]struct {
		faults faults
		status int // 0: the connection broke
		got    []string
	}{
		"passed":       {faults{}, 200, []string{sent}},
		"refused":      {faults{refused: 1000}, 503, []string{}},
		"lost request": {faults{lostRequest: 1000}, 0, []string{}},
		"lost answer":  {faults{lostAnswer: 1000}, 0, []string{sent}},
		"twice":        {faults{twice: 1000}, 200, []string{sent, sent}},
		"delayed":      {faults{delayed: 1000}, 200, []string{sent}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, c.faults)
			status, _, err := s.post(t, s.url(), "/x", "body")
			assert.Equal(t, c.status, status)
			assert.Equal(t, c.status == 0, err != nil)
			assert.Equal(t, c.got, s.received())
			faults := 1
			if name == "passed" {
				faults = 0
			}
			assert.Equal(t, faults, s.history.count("http fault"))

			if c.status == 0 {
				_, _, err = s.post(t, s.url(), "/.well-known/terraform.json", "")
				assert.NoError(t, err, "a client asks for this once only")
			}
			status, _, err = s.post(t, s.calm(), "/x", "body")
			require.NoError(t, err)
			assert.Equal(t, 200, status, "at the calm door nothing is lost")
			s.on.Store(false)
			status, _, err = s.post(t, s.url(), "/x", "body")
			require.NoError(t, err)
			assert.Equal(t, 200, status, "nor after the storm")
		})
	}
}

func TestNoServerBehindTheProxy(t *testing.T) {
	t.Parallel()
	s := newScene(t, faults{})
	s.join("dead", "127.0.0.1:1")
	for range 10 {
		status, _, err := s.post(t, s.url(), "/x", "")
		require.NoError(t, err)
		assert.Equal(t, 200, status, "the living one answers for the dead one")
	}
	s.join("server", "127.0.0.1:1")
	status, _, err := s.post(t, s.url(), "/x", "")
	assert.True(t, err != nil || status == http.StatusBadGateway)
	s.down.Store(true)
	_, _, err = s.post(t, s.url(), "/x", "")
	assert.Error(t, err)
}

// What a server has acknowledged is noted also when the client never hears of it.
func TestAcknowledgedStates(t *testing.T) {
	t.Parallel()
	s := newScene(t, faults{lostAnswer: 1000})
	s.answer = func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusCreated)
			fmt.Fprint(w, `{"data":{"id":"sv-1","attributes":{"hosted-state-upload-url":"https://localhost:1/up/the-permission-to-upload"}}}`)
		case r.URL.Path == "/up/refused-as-it-is":
			w.WriteHeader(http.StatusConflict)
		}
	}
	state := `{"serial":7,"lineage":"l"}`
	put := func(path string) {
		request, err := http.NewRequest(http.MethodPut, s.url()+path, strings.NewReader(state))
		require.NoError(t, err)
		if response, err := s.client.Do(request); err == nil {
			response.Body.Close()
		}
	}
	_, _, err := s.post(t, s.url(), "/api/v2/workspaces/ws-1/state-versions", `{"data":{"attributes":{"serial":7}}}`)
	require.Error(t, err)
	assert.Zero(t, s.history.count("acknowledged"), "it is only announced")
	put("/up/refused-as-it-is")
	assert.Zero(t, s.history.count("acknowledged"))
	put("/up/the-permission-to-upload")
	seen := s.history.of("acknowledged")
	require.Len(t, seen, 1)
	seen[0].At = time.Time{}
	assert.Equal(t, event{Kind: "acknowledged", Workspace: "ws-1", Version: "sv-1", Serial: 7, Lineage: "l", SHA256: sha(state)}, seen[0])
	assert.Contains(t, s.history.allSecrets(), "the-permission-to-upload")

	_, _, err = s.post(t, s.url(), "/api/v2/workspaces/ws-2/state-versions", `{"data":{"attributes":{"state":"`+base64.StdEncoding.EncodeToString([]byte(state))+`"}}}`)
	require.Error(t, err)
	assert.Len(t, s.history.of("acknowledged"), 2, "state that came with its announcement")
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
