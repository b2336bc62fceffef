package runner

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	firstDelay   = 100 * time.Millisecond
	longestDelay = 10 * time.Second
	callLimit    = 30 * time.Second // one try of a small call
	moveLimit    = 15 * time.Minute // one try of moving an artifact
	problemLimit = 64 << 10         // bytes of an error answer that are read
)

// server makes the calls of the protocol. Each is repeated, with growing pauses,
// until it is answered for good or its context ends.
type server struct {
	address string
	client  *http.Client
}

func newServer(address, caFile string) (*server, error) {
	transport := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSHandshakeTimeout:   10 * time.Second,
		ResponseHeaderTimeout: 2 * time.Minute,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fault.New(fault.Invalid, "bad_ca_file", "The file %s holds no certificate.", caFile)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &server{address: address, client: &http.Client{
		Transport: transport,
		// The protocol has no redirects, and a token must not follow one elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// hostOf gives the host and port of an address as tofu writes them.
func hostOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		return "", fault.New(fault.Invalid, "bad_address", "The server's address must look like https://host:port.")
	}
	if strings.Contains(u.Host, "[") {
		return "", fault.New(fault.Invalid, "bad_address", "The server's address must name a host: tofu does not accept an IPv6 literal such as %s.", u.Host)
	}
	if u.Scheme == "https" {
		return strings.TrimSuffix(u.Host, ":443"), nil
	}
	return u.Host, nil
}

// request is one call. body is asked for anew at every try.
type request struct {
	method, path, token string
	header              map[string]string
	body                func() (io.ReadCloser, int64, error)
	limit               time.Duration // of one try; 0 is callLimit
}

// refusal is an answer that repeating the call will not change.
type refusal struct {
	status int
	code   string
	detail string
}

func (r *refusal) Error() string {
	return fmt.Sprintf("the server answered %d %s: %s", r.status, r.code, r.detail)
}

func refused(err error) bool {
	var no *refusal
	return errors.As(err, &no)
}

// errFinal marks an error of this side that repeating the call will not change.
var errFinal = errors.New("")

// repeatable says whether a failed call is worth repeating. What the file system
// said about a local file is not.
func repeatable(err error) bool {
	var local *fs.PathError
	return !refused(err) && !errors.Is(err, errFinal) && !errors.As(err, &local)
}

// do makes the call until it is answered 2xx (then read is called, unless nil) or
// refused (a *refusal), or until ctx ends. An error of read counts as a lost answer,
// and so does an answer that says "not now"; one that wraps errFinal does not.
func (s *server) do(ctx context.Context, req request, read func(*http.Response) error) error {
	for delay := firstDelay; ; delay = min(2*delay, longestDelay) {
		err := s.once(ctx, req, read)
		if err == nil || !repeatable(err) {
			return err
		}
		if ctx.Err() != nil {
			return fmt.Errorf("no answer from the server in time: %w", err)
		}
		slog.Warn("call failed, will be repeated", "method", req.method, "path", req.path, "error", err)
		pause(ctx, delay/2+rand.N(delay))
	}
}

func (s *server) once(ctx context.Context, req request, read func(*http.Response) error) error {
	limit := req.limit
	if limit == 0 {
		limit = callLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	var body io.ReadCloser = http.NoBody
	var size int64
	if req.body != nil {
		var err error
		if body, size, err = req.body(); err != nil {
			return err
		}
	}
	call, err := http.NewRequestWithContext(ctx, req.method, s.address+req.path, body)
	if err != nil {
		return err
	}
	call.ContentLength = size
	call.Header.Set("Authorization", "Bearer "+req.token)
	for name, value := range req.header {
		call.Header.Set(name, value)
	}
	resp, err := s.client.Do(call)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode/100 == 2 {
		if read == nil {
			return nil
		}
		return read(resp)
	}
	return problemOf(resp)
}

// problemOf makes an error of an answer that is not 2xx: a *refusal, or a plain one
// when the call should be repeated.
func problemOf(resp *http.Response) error {
	var problem wire.Problem
	text, _ := io.ReadAll(io.LimitReader(resp.Body, problemLimit))
	if json.Unmarshal(text, &problem) != nil || problem.Detail == "" {
		problem.Detail = http.StatusText(resp.StatusCode)
	}
	no := &refusal{status: resp.StatusCode, code: problem.Code, detail: problem.Detail}
	switch {
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests, resp.StatusCode == http.StatusRequestTimeout:
		return errors.New(no.Error())
	}
	return no
}

func jsonBody(v any) func() (io.ReadCloser, int64, error) {
	text, err := json.Marshal(v)
	return func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(text)), int64(len(text)), err
	}
}

func decodeJSON(resp *http.Response, into any) error {
	if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

func withID(path, id string) string { return strings.Replace(path, "{id}", url.PathEscape(id), 1) }

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
