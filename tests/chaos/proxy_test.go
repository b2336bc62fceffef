package chaos

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// faults is what the network does to requests: of a thousand, so many of each kind. The n-th
// request's fate follows from seed and n alone.
type faults struct {
	seed                                             uint64
	refused, lostRequest, lostAnswer, twice, delayed int
}

// storm is the mixture of `make chaos`.
func storm(seed uint64) faults {
	return faults{seed: seed, refused: 25, lostRequest: 35, lostAnswer: 45, twice: 30, delayed: 35}
}

type fate string

const (
	passed      fate = "passed"
	refused     fate = "refused"      // 503 from the proxy; no server has seen it
	lostRequest fate = "lost request" // the connection is cut before a server has seen it
	lostAnswer  fate = "lost answer"  // a server has acted, the connection is cut
	twice       fate = "twice"        // the servers get it two times, the client one of the answers
	delayed     fate = "delayed"
)

// of decides about the n-th request.
func (f faults) of(n uint64) (fate, *rand.Rand) {
	r := rand.New(rand.NewPCG(f.seed, n))
	at := r.IntN(1000)
	for _, part := range []struct {
		share int
		fate  fate
	}{{f.refused, refused}, {f.lostRequest, lostRequest}, {f.lostAnswer, lostAnswer}, {f.twice, twice}, {f.delayed, delayed}} {
		if at < part.share {
			return part.fate, r
		}
		at -= part.share
	}
	return passed, r
}

// proxy stands before the servers as a load balancer does, with two doors: at one the network
// is bad while the storm is on, the other is calm. Through both it sees which state the
// servers acknowledge.
type proxy struct {
	history       *history
	faults        faults
	stormy, clear net.Listener
	doors         []*http.Server
	transport     *http.Transport
	on            atomic.Bool
	down          atomic.Bool // nobody gets through the bad door, nor an answer to who had
	seen          atomic.Uint64

	mu       sync.Mutex
	backends map[string]string // name → address
	names    []string
	uploads  map[string]event // by path: the version that is to be uploaded there
}

func startProxy(certificate tls.Certificate, roots *x509.CertPool, h *history, f faults) (*proxy, error) {
	p := &proxy{history: h, faults: f, backends: map[string]string{}, uploads: map[string]event{}}
	p.transport = &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12},
		DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
		MaxIdleConnsPerHost: 32,
		IdleConnTimeout:     20 * time.Second,
	}
	for _, door := range []struct {
		at  *net.Listener
		bad bool
	}{{&p.stormy, true}, {&p.clear, false}} {
		port, err := freePort()
		if err != nil {
			return nil, err
		}
		if *door.at, err = net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}); err != nil {
			p.close()
			return nil, err
		}
		server := &http.Server{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, door.bad) }),
			TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			// A lost answer is a connection that breaks, so each request has its connection: HTTP/1.1.
			TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
			ErrorLog:     log.New(io.Discard, "", 0),
		}
		p.doors = append(p.doors, server)
		listener := *door.at
		go func() { _ = server.ServeTLS(listener, "", "") }()
	}
	return p, nil
}

func (p *proxy) close() {
	for _, door := range p.doors {
		_ = door.Close()
	}
	for _, l := range []net.Listener{p.stormy, p.clear} {
		if l != nil {
			_ = l.Close()
		}
	}
	p.transport.CloseIdleConnections()
}

func doorURL(l net.Listener) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return "https://localhost:" + port
}

// url is where runners and the tofu of people go.
func (p *proxy) url() string { return doorURL(p.stormy) }

// calm is where the test looks at what has become of everything.
func (p *proxy) calm() string { return doorURL(p.clear) }

// join puts a server behind the proxy, or tells its new address.
func (p *proxy) join(name, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.backends[name]; !known {
		p.names = append(p.names, name)
	}
	p.backends[name] = address
}

// order gives the servers' addresses in a random order.
func (p *proxy) order(r *rand.Rand) (addresses []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, i := range r.Perm(len(p.names)) {
		addresses = append(addresses, p.backends[p.names[i]])
	}
	return addresses
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request, bad bool) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	n := p.seen.Add(1)
	does, random := p.faults.of(n)
	if !bad || !p.on.Load() {
		does = passed
	}
	if bad && p.down.Load() {
		does = lostRequest
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		p.history.secret(token, "a bearer token")
	}
	if asksOnce(r.URL.Path) && does != passed {
		does = delayed
	}
	if does != passed {
		p.history.add(event{Kind: "http fault", What: string(does) + ": " + r.Method + " " + routeOf(r.URL.Path)})
	}
	switch does {
	case refused:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case lostRequest:
		panic(http.ErrAbortHandler)
	case delayed:
		select {
		case <-time.After(time.Duration(random.IntN(2500)) * time.Millisecond):
		case <-r.Context().Done():
			return
		}
	}
	began := time.Now()
	a, err := p.forward(r, body, random)
	if err == nil && does == twice && time.Since(began) < 2*time.Second { // a poll that waited is not repeated
		if again, err2 := p.forward(r, body, random); err2 == nil && random.IntN(2) == 0 {
			a = again
		}
	}
	switch {
	case r.Context().Err() != nil:
		return
	case does == lostAnswer, bad && p.down.Load(), err != nil && random.IntN(2) == 0:
		panic(http.ErrAbortHandler)
	case err != nil:
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// asksOnce tells of the reads that a person's tofu never repeats: one failure ends its command, with
// any server. What is broken there would only show that.
func asksOnce(path string) bool {
	return strings.HasPrefix(path, "/.well-known/") || strings.HasPrefix(path, "/api/v2/links/") && strings.Contains(path, "/log/")
}

// routeOf is a path without what may be a permission or too long to read.
func routeOf(path string) string {
	parts := strings.Split(path, "/")
	for i, part := range parts {
		if len(part) > 30 {
			parts[i] = "…"
		}
	}
	return strings.Join(parts, "/")
}

// forward asks one server after the other until one can be reached.
func (p *proxy) forward(r *http.Request, body []byte, random *rand.Rand) (a answer, err error) {
	err = errors.New("there is no server")
	for _, address := range p.order(random) {
		if a, err = p.ask(r.Context(), address, r, body); err == nil {
			p.watch(r, body, a)
			return a, nil
		}
		var dial *net.OpError
		if !errors.As(err, &dial) || dial.Op != "dial" {
			return a, err // it may have acted
		}
	}
	return a, err
}

func (p *proxy) ask(ctx context.Context, address string, r *http.Request, body []byte) (a answer, err error) {
	request, err := http.NewRequestWithContext(ctx, r.Method, "https://"+address+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	request.Header = r.Header.Clone()
	request.Header.Del("Accept-Encoding") // the bytes are looked at
	request.Host = r.Host
	request.GetBody = nil // a request is sent once; what becomes of it is the client's to find out
	response, err := p.transport.RoundTrip(request)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a.status, a.header = response.StatusCode, response.Header
	a.body, err = io.ReadAll(response.Body)
	return a, err
}

// watch notes which versions of state the servers announce and acknowledge.
func (p *proxy) watch(r *http.Request, body []byte, a answer) {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/state-versions") && a.status == http.StatusCreated:
		p.announced(strings.Split(r.URL.Path, "/")[4], body, a.body)
	case r.Method == http.MethodPut && a.status/100 == 2:
		p.mu.Lock()
		version, ok := p.uploads[r.URL.Path]
		p.mu.Unlock()
		if ok {
			p.acknowledged(version, body)
		}
	}
}

func (p *proxy) announced(workspace string, request, answer []byte) {
	var asked struct {
		Data struct{ Attributes struct{ State string } }
	}
	var made struct {
		Data struct {
			ID         string
			Attributes map[string]any
		}
	}
	if json.Unmarshal(request, &asked) != nil || json.Unmarshal(answer, &made) != nil {
		return
	}
	version := event{Workspace: workspace, Version: made.Data.ID}
	if state, err := base64.StdEncoding.DecodeString(asked.Data.Attributes.State); err == nil && len(state) > 0 {
		p.acknowledged(version, state)
		return
	}
	link, _ := made.Data.Attributes["hosted-state-upload-url"].(string)
	if _, path, ok := strings.Cut(strings.TrimPrefix(link, "https://"), "/"); ok {
		p.mu.Lock()
		p.uploads["/"+path] = version
		p.mu.Unlock()
		p.history.secret(path[strings.LastIndex(path, "/")+1:], "the permission to upload a state")
	}
}

func (p *proxy) acknowledged(version event, state []byte) {
	var head struct {
		Serial  int64
		Lineage string
	}
	_ = json.Unmarshal(state, &head) // what is no state has no serial, which the model check finds
	sum := sha256.Sum256(state)
	version.Kind, version.SHA256, version.Serial, version.Lineage = "acknowledged", hex.EncodeToString(sum[:]), head.Serial, head.Lineage
	p.history.add(version)
}
