package runner

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// tofu asks for the API's version and other things once only. That the server is away at that
// moment, breaks off or says "not now" does not fail the run.
func TestTheServerIsAwayWhenTofuStarts(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	var mu sync.Mutex
	tries := map[string]int{}
	f.override = func(w http.ResponseWriter, r *http.Request) bool {
		rest, api := strings.CutPrefix(r.URL.Path, "/api/v2/")
		if !api || r.Method != http.MethodGet {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		tries[rest]++
		switch n := tries[rest] % 4; {
		case n == 1:
			panic(http.ErrAbortHandler)
		case n == 2, n == 3 && rest == "download": // that one is fetched from the server itself
			w.WriteHeader(http.StatusServiceUnavailable)
		case n == 3:
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "{")
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	}
	start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.NotContains(t, f.logText(), "error connecting")

	t.Log("while it fetches state tofu says so on the stream that its JSON goes to")
	f.next("plan")
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.Contains(t, f.logText(), "error connecting")
	mu.Lock()
	defer mu.Unlock()
	assert.GreaterOrEqual(t, tries["ping"], 4)
	assert.GreaterOrEqual(t, tries["download"], 4)
}

func TestWhatIsSaidBeforeTheJSONIsLeftOut(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"nothing":  "{\"a\":\n1}\n",
		"a notice": "\nThere was an error\n\nStill trying … {2s elapsed}\n{\"a\":\n1}\n",
	} {
		for size := 1; size <= len(text); size++ {
			var out strings.Builder
			writer := &jsonOnly{to: &out}
			for rest := []byte(text); len(rest) > 0; {
				n, err := writer.Write(rest[:min(size, len(rest))])
				require.NoError(t, err)
				rest = rest[n:]
			}
			require.Equal(t, "{\"a\":\n1}\n", out.String(), "%s in pieces of %d", name, size)
		}
	}
}

// What changes something goes to the server once; whether to repeat it is for tofu to say.
func TestTheRelayRepeatsReadsAlone(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer away.Close()
	srv, err := newServer(away.URL, "")
	require.NoError(t, err)
	end, cancel := context.WithCancel(context.Background())
	defer cancel()
	r, err := startRelay(end, srv)
	require.NoError(t, err)
	defer r.close()
	response, err := http.Post(r.address+"/api/v2/workspaces/ws-1/state-versions", "", strings.NewReader("{}"))
	require.NoError(t, err)
	_ = response.Body.Close()
	assert.Equal(t, http.StatusBadGateway, response.StatusCode, "tofu repeats this one")
	assert.EqualValues(t, 1, calls.Load())

	t.Log("with the attempt the repeating ends")
	answered := make(chan error, 1)
	go func() {
		response, err := http.Get(r.address + "/api/v2/ping")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode != http.StatusBadGateway {
				err = errors.New(response.Status)
			}
		}
		answered <- err
	}()
	require.Eventually(t, func() bool { return calls.Load() >= 3 }, patience, lookEvery)
	cancel()
	require.NoError(t, <-answered)
}
