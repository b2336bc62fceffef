package runnerapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A poll that a server gives up because it ends is no answer to a runner that is still there.
func TestAPollThatIsGivenUpIsNotAnswered(t *testing.T) {
	t.Parallel()
	s := &server{Deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	web := httptest.NewServer(s.serve("/poll", func(*call) (any, error) { return noAnswer{}, nil }))
	defer web.Close()
	response, err := http.Post(web.URL, "", nil)
	if err == nil {
		_ = response.Body.Close()
		require.Fail(t, "it was answered", response.Status)
	}
	assert.ErrorContains(t, err, "EOF")
}
