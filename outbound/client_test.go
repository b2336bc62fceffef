package outbound

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

const loopback = "127.0.0.0/8"

func serve(t *testing.T, handler http.HandlerFunc) (address, port string) {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	return server.URL, u.Port()
}

func TestACallAndItsAnswer(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Seen", r.Method+" "+r.URL.Path+" "+r.Header.Get("X-Signature")+" "+r.Header.Get("User-Agent")+" "+string(body))
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(bytes.Repeat([]byte("x"), MaxAnswer+1))
	})
	c := names{}.client(t, loopback)
	require.NoError(t, c.CheckURL(address))
	answer, err := c.Do(t.Context(), Request{Method: http.MethodPut, URL: address + "/hook", Header: map[string]string{"X-Signature": "s"}, Body: []byte("payload")})
	require.NoError(t, err)
	assert.Equal(t, http.StatusTeapot, answer.Status)
	assert.False(t, answer.OK())
	assert.Equal(t, []string{"PUT /hook s holdfast payload"}, answer.Header["X-Seen"])
	assert.Len(t, answer.Body, MaxAnswer, "the rest is not read")
}

func TestRedirects(t *testing.T) {
	t.Parallel()
	other, otherPort := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("other")) })
	var port string
	address, port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		to := map[string]string{
			"/same": "/end", "/absolute": "http://a.example:" + port + "/end", "/loop": "/loop", "/host": "http://b.example:" + port + "/end",
			"/port": "http://a.example:" + otherPort + "/", "/literal": other, "/scheme": "file:///etc/passwd", "/user": "http://u:p@a.example:" + port + "/end",
		}[r.URL.Path]
		status := http.StatusTemporaryRedirect
		if r.URL.Path == "/get" {
			to, status = "/end", http.StatusFound
		}
		if to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(status)
			return
		}
		_, _ = w.Write([]byte(r.Method + " " + string(body)))
	})
	_ = address
	c := names{"a.example": {"127.0.0.1"}, "b.example": {"127.0.0.1"}}.client(t, loopback)
	call := func(path string) (Answer, error) {
		return c.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://a.example:" + port + path, Body: []byte("signed")})
	}
	for _, path := range []string{"/same", "/absolute"} {
		answer, err := call(path)
		require.NoError(t, err, path)
		assert.Equal(t, "POST signed", string(answer.Body), path)
	}
	answer, err := call("/get")
	require.NoError(t, err)
	assert.Equal(t, http.StatusFound, answer.Status, "a POST does not become a GET")
	for path, code := range map[string]string{
		"/host": "redirect_refused", "/port": "redirect_refused", "/literal": "redirect_refused", "/scheme": "redirect_refused", "/loop": "redirect_refused", "/user": "invalid_address",
	} {
		_, err := call(path)
		assert.Truef(t, fault.HasCode(err, code), "%s: %v", path, err)
	}
}

func TestAnAnswerHasItsTime(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = w.Write([]byte("the beginning"))
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done() // until the client gives up
	})
	c := newClient(Settings{Allow: []netip.Prefix{netip.MustParsePrefix(loopback)}}, names{}.lookup, 200*time.Millisecond)
	for _, path := range []string{"/silence", "/body"} {
		_, err := c.Do(t.Context(), Request{Method: http.MethodPost, URL: address + path})
		assert.Truef(t, fault.HasCode(err, "no_answer"), "%s: %v", path, err)
	}
}

// TestNoErrorRepeatsTheAddress: the path of a Slack address is its password.
func TestNoErrorRepeatsTheAddress(t *testing.T) {
	t.Parallel()
	address, port := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://b.example/hunter2")
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	c := names{}.client(t, loopback)
	for _, text := range []string{
		address + "/services/hunter2", closed.URL + "/hunter2", "http://nowhere.example/hunter2", "http://10.0.0.1/hunter2", "ftp://x/hunter2", "http://x/%zzhunter2",
		"https://127.0.0.1:" + port + "/hunter2", "http://a b/hunter2", "http://x.example/hunter2" + strings.Repeat("x", 2000),
	} {
		_, err := c.Do(t.Context(), Request{Method: http.MethodPost, URL: text})
		require.Error(t, err, text)
		assert.NotContains(t, err.Error(), "hunter2")
		assert.True(t, fault.Is(err, fault.Invalid), err)
	}
}

// TestTheEnvironmentsProxyIsNotUsed: a proxy in the environment would make every check one of its address.
func TestTheEnvironmentsProxyIsNotUsed(t *testing.T) {
	proxy, _ := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("proxied " + r.URL.String())) })
	_, port := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("direct")) })
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy)
	}
	book := names{"public.example": {"127.0.0.1"}}
	call := Request{Method: http.MethodPost, URL: "http://public.example:" + port + "/"}
	answer, err := book.client(t, loopback).Do(t.Context(), call)
	require.NoError(t, err)
	assert.Equal(t, "direct", string(answer.Body))

	t.Log("the operator's is")
	configured, err := url.Parse(proxy)
	require.NoError(t, err)
	c := newClient(Settings{Proxy: configured}, book.lookup, time.Minute)
	answer, err = c.Do(t.Context(), call)
	require.NoError(t, err)
	assert.Equal(t, "proxied "+call.URL, string(answer.Body))
	_, err = c.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://10.0.0.1/"})
	assert.True(t, fault.HasCode(err, refused), "an address that is written out is checked all the same: %v", err)
}

// TestCallsLeaveNothingBehindForOthers: thousands of calls with one client, many at once, and each
// has its own headers and nothing of another's (case 110).
func TestCallsLeaveNothingBehindForOthers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	kinds := map[string]int{} // what of the headers arrived, but for the values
	address, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var size int
		names := slices.Sorted(maps.Keys(r.Header))
		for _, values := range r.Header {
			size += len(values)
		}
		own := r.Header.Get("X-Call") == r.URL.Query().Get("call")
		mu.Lock()
		defer mu.Unlock()
		kinds[fmt.Sprint(own, size, names)]++
	})
	c := names{}.client(t, loopback)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 500 {
				call := fmt.Sprint(worker, "-", i)
				_, err := c.Do(t.Context(), Request{Method: http.MethodPost, URL: address + "/?call=" + call, Header: map[string]string{"X-Call": call}, Body: []byte("{}")})
				assert.NoError(t, err)
			}
		})
	}
	group.Wait()
	assert.Len(t, kinds, 1, "all calls look alike: %v", kinds)
	for kind, count := range kinds {
		assert.True(t, strings.HasPrefix(kind, "true "), kind)
		assert.Equal(t, 2000, count)
	}
}
