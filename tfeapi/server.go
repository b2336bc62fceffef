package tfeapi

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/registry"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/scim"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/throttle"
	"github.com/holdfast-run/holdfast/vcs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Deps is what the handlers call.
type Deps struct {
	// Authenticate says whom a bearer token stands for: a user or an attempt.
	// A token that is not valid is fault.Unauthenticated.
	Authenticate func(ctx context.Context, token string) (authz.Actor, error)
	Accounts     *accounts.Service
	Workspaces   *workspaces.Service
	State        *state.Service
	Runs         *runs.Service
	Recovery     *recovery.Service
	Dispatch     *dispatch.Service
	Gates        *gates.Service
	Site         *site.Service
	VCS          *vcs.Service
	Identity     *site.Identity // has the keys by which runs prove what they are
	Policies     *policies.Service
	Registry     *registry.Service
	// Notifications keeps who is told what.
	Notifications *notifications.Service
	// Mail is the mail server that the operator named; nil when there is none.
	Mail *notifications.Mail
	// RunTasks keeps which services are asked about runs.
	RunTasks  *runtasks.Service
	Approvals *approvals.Service
	// SCIM keeps what an identity provider says.
	SCIM  *scim.Service
	Links *envelope.Links
	// Wake wakes reads that wait for something new in a log; without it they are
	// answered at once.
	Wake *postgres.Listener
	// Stopping is closed when this server is about to end: reads that wait for something new in
	// a log are answered empty then, and their clients ask again. Nil never is.
	Stopping <-chan struct{}
	// Ready answers nil while this server should be given requests.
	Ready func(ctx context.Context) error
	// ClientAddress says where a request comes from, for counting wrong codes; without it
	// that is the connection's other end.
	ClientAddress func(r *http.Request) string
	// Observe counts an answered request, for the metrics; nil counts nothing. route is a template.
	Observe func(method, route string, status int, took time.Duration)
	// Limit is how many requests a second each token may make in this process; nil is no limit.
	Limit *throttle.Limit
	// Address is the public address of the server, such as https://localhost:8443,
	// without a slash at its end. Every address given to clients begins with it.
	Address string
	Log     *slog.Logger

	hold time.Duration // of a read that waits for a log; 0 is logHold, and tests take another
}

type server struct {
	Deps
	router *router
	large  chan struct{} // has room for the one large document that may be in memory at a time
}

// New makes the handler of /api/v2, discovery, health and the link addresses. Any
// other path is answered 404 as a JSON:API error.
func New(deps Deps) http.Handler {
	deps.Address = strings.TrimSuffix(deps.Address, "/")
	s := &server{Deps: deps, large: make(chan struct{}, 1)}
	s.router = newRouter(s.routes(), s.serve,
		s.serve(route{path: "(no route)", open: true, handle: unknownAddress}), s.serve(route{path: "(no method)", open: true, handle: s.wrongMethod}))
	return s.router
}

// route is one line of the route table.
type route struct {
	method string
	path   string
	open   bool // asks for no bearer token: public, or authenticated by the link itself
	handle func(r *request) (answer, error)
}

// serve wraps a route's handler: request id, authentication, the answer or error,
// and one line in the log. The line has the route's template and not the path,
// which may hold a link's token; bodies and headers are never in it.
func (s *server) serve(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started, requestID := clock.Now(), rand.Text()[:16]
		header := w.Header()
		header.Set("X-Request-Id", requestID)
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		ctx, statements := postgres.CountStatements(audit.InRequest(r.Context(), requestID))
		r = r.WithContext(ctx)
		req, result, err := s.call(rt, w, r)
		status := result.status
		if err == nil {
			err = s.send(result, w, func() { s.logRequest(req, rt, requestID, statusBrokenOff, started, statements, nil) })
		}
		if err != nil {
			err = s.withPage(req, err)
			status = writeError(w, r, err, requestID)
		}
		s.logRequest(req, rt, requestID, status, started, statements, err)
		if status == statusClientGone {
			// To return without an answer would be a 200, and a client that is still there, because it
			// is the server that ends, would take its upload for acknowledged.
			panic(http.ErrAbortHandler)
		}
	})
}

// statusBrokenOff is logged for a download that failed after it had begun.
const statusBrokenOff = 598

// send writes the answer, and logs before it breaks off a failed download.
func (s *server) send(result answer, w http.ResponseWriter, beforeBreak func()) error {
	defer func() {
		if p := recover(); p != nil {
			beforeBreak()
			panic(p)
		}
	}()
	return result.write(w)
}

// call authenticates and runs the handler. A panic is an internal error.
func (s *server) call(rt route, w http.ResponseWriter, r *http.Request) (req *request, result answer, err error) {
	defer fault.Caught(&err)
	req, err = newRequest(w, r)
	if err != nil {
		return req, answer{}, err
	}
	if !rt.open {
		if req.actor, err = s.authenticate(r); err != nil {
			return req, answer{}, err
		}
		if err := s.Limit.Check(req.actor, req.header); err != nil {
			return req, answer{}, err
		}
		if err := checkAttempt(req.actor, rt); err != nil {
			return req, answer{}, err
		}
	}
	result, err = rt.handle(req)
	if d := result.document; err == nil && d != nil && d.page != nil {
		d.links = pageLinks(s.Address, r.URL, d.page, d.whole)
	}
	return req, result, err
}

func (s *server) authenticate(r *http.Request) (authz.Actor, error) {
	token := bearer(r)
	if token == "" {
		return authz.Actor{}, fault.New(fault.Unauthenticated, "unauthenticated", "Send a token: Authorization: Bearer TOKEN.")
	}
	return s.Authenticate(r.Context(), token)
}

func (s *server) logRequest(req *request, rt route, requestID string, status int, started time.Time, statements *postgres.Statements, err error) {
	if s.Observe != nil {
		s.Observe(req.http.Method, rt.path, status, clock.Since(started))
	}
	attrs := []slog.Attr{
		slog.String("request_id", requestID), slog.String("method", req.http.Method), slog.String("route", rt.path),
		slog.Int("status", status), slog.Duration("duration", clock.Since(started)), slog.Int("statements", statements.Sent()),
	}
	for name, value := range req.vars {
		if name != "token" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	if req.actor.Kind != "" {
		attrs = append(attrs, slog.String("actor", req.actor.ID()))
	}
	level := slog.LevelInfo
	var classified *fault.Error
	switch {
	case status >= 500 && err != nil:
		level = slog.LevelError
		attrs = append(attrs, slog.Any("error", err))
	case errors.As(err, &classified):
		attrs = append(attrs, slog.String("code", classified.Code))
	}
	s.Log.LogAttrs(req.ctx, level, "request", attrs...)
}

func unknownAddress(*request) (answer, error) {
	return answer{}, fault.New(fault.NotFound, "not_found", "There is nothing at this address.")
}

// wrongMethod answers 405 and lists the methods that the address knows.
func (s *server) wrongMethod(r *request) (answer, error) {
	allowed := s.router.methods(r.http, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete)
	r.header.Set("Allow", strings.Join(allowed, ", "))
	object := errorObject{Status: "405", Code: "method_not_allowed", Title: "method not allowed", Detail: "This address knows " + strings.Join(allowed, ", ") + "."}
	return answer{status: http.StatusMethodNotAllowed, json: map[string]any{"errors": []errorObject{object}}, mediaType: mediaType}, nil
}
