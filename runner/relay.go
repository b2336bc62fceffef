package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/holdfast-run/holdfast/clock"
)

// relayPatience is how long a read of tofu is repeated while the server gives no answer
// or says "not now". After that tofu gets what there is.
var relayPatience = 5 * time.Minute

const relayAhead = 1 << 20 // bytes of an answer that are read before tofu gets it

// relay stands between tofu and the server's API, on loopback. tofu asks some things
// only once before it works, such as the API's version: without the relay a server that
// restarts at that moment would fail the run. The relay asks for tofu until there is an
// answer. That goes for reads alone: what changes something is passed on once, and
// repeating it, with the knowledge of what it was, is tofu's own affair.
type relay struct {
	server  *http.Server
	address string // http://127.0.0.1:PORT
}

// startRelay serves until close. end bounds all repeating: the end of the attempt.
func startRelay(end context.Context, to *server) (*relay, error) {
	target, err := url.Parse(to.address)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	silent := log.New(io.Discard, "", 0) // it would speak of every cut connection
	r := &relay{address: "http://" + listener.Addr().String()}
	r.server = &http.Server{
		ErrorLog:          silent,
		ReadHeaderTimeout: callLimit,
		Handler: &httputil.ReverseProxy{
			Rewrite:   func(p *httputil.ProxyRequest) { p.SetURL(target) },
			Transport: persistent{end: end, next: to.client.Transport},
			ErrorLog:  silent,
		},
	}
	go func() { _ = r.server.Serve(listener) }()
	return r, nil
}

func (r *relay) close() { _ = r.server.Close() }

// persistent repeats reads that got no answer, or one that says "not now".
type persistent struct {
	end  context.Context
	next http.RoundTripper
}

func (p persistent) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Method != http.MethodHead {
		return p.next.RoundTrip(request)
	}
	ctx, cancel := context.WithCancel(request.Context())
	defer context.AfterFunc(p.end, cancel)()
	began := clock.Now()
	for delay := firstDelay; ; delay = min(2*delay, longestDelay) {
		response, err := p.next.RoundTrip(request)
		if err == nil {
			err = readAhead(response)
		}
		wait := delay/2 + rand.N(delay)
		late := ctx.Err() != nil || clock.Since(began)+wait > relayPatience
		switch {
		case err == nil && (late || response.StatusCode < http.StatusInternalServerError):
			return response, nil
		case err == nil:
			err = errors.New(response.Status)
			_ = response.Body.Close()
		case late:
			return nil, err
		}
		slog.Warn("a read of tofu got no answer, and is repeated", "error", err)
		pause(ctx, wait)
	}
}

// readAhead reads the body of an answer as far as it is small, so that one which breaks
// off counts as none. When it fails, the answer is closed.
func readAhead(response *http.Response) error {
	body := response.Body
	head, err := io.ReadAll(io.LimitReader(body, relayAhead))
	if err != nil {
		_ = body.Close()
		return err
	}
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}
	return nil
}
