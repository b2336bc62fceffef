package tfeapi

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A server that ends gives up what is at hand. The client of such a request must not take
// silence for an answer: an upload that was given up would count as acknowledged.
func TestARequestThatIsGivenUpIsNotAnswered(t *testing.T) {
	t.Parallel()
	base, end := context.WithCancel(context.Background())
	defer end()
	s := &server{Deps: Deps{Log: slog.New(slog.DiscardHandler)}}
	upload := s.serve(route{method: http.MethodPut, path: "/upload", open: true, handle: func(r *request) (answer, error) {
		end() // in the middle of it
		<-r.ctx.Done()
		return answer{}, r.ctx.Err()
	}})
	web := httptest.NewUnstartedServer(upload)
	web.Config.BaseContext = func(net.Listener) context.Context { return base }
	web.Start()
	defer web.Close()
	request, err := http.NewRequest(http.MethodPut, web.URL+"/upload", strings.NewReader("state"))
	require.NoError(t, err)
	response, err := http.DefaultClient.Do(request)
	if err == nil {
		_ = response.Body.Close()
		require.Fail(t, "it was answered", response.Status)
	}
	assert.Error(t, base.Err(), "the connection ended in the middle of the request: %v", err)
}
