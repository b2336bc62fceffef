package runnerapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A poll that a server gives up because it ends is no answer to a runner that is still there.
func TestAPollThatIsGivenUpIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := &server{Deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	var asked atomic.Bool
	web := httptest.NewServer(s.serve("/poll", func(*call) (any, error) { asked.Store(true); return noAnswer{}, nil }))
	defer web.Close()
	response, err := http.Post(web.URL, "", nil)
	if err == nil {
		_ = response.Body.Close()
		require.Fail(t, "it was answered", response.Status)
	}
	assert.True(t, asked.Load(), "the connection ended after the question: %v", err)
}
