package runnerapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
)

// Deps is what the handlers call.
type Deps struct {
	Accounts *accounts.Service
	Dispatch *dispatch.Service
	Runs     *runs.Service
	Recovery *recovery.Service
	Wake     *postgres.Listener // on dispatch.Channel
	// Stopping is closed when this server is about to end: polls that wait are answered
	// without work then, so that their runners ask another server. Nil never is.
	Stopping <-chan struct{}
	Log      *slog.Logger
	// Observe counts an answered call, for the metrics; nil counts nothing.
	Observe func(method, route string, status int, took time.Duration)
}

type server struct {
	Deps
	lobby *dispatch.Lobby
}

// lookEvery is how soon a runner that waits gets work of which no notification came.
var lookEvery = 5 * time.Second

// New makes the handler of /runner/v1.
func New(deps Deps) http.Handler {
	s := &server{Deps: deps, lobby: deps.Dispatch.Lobby(deps.Wake, lookEvery)}
	r := mux.NewRouter()
	group := func(path, method string, h func(*call, accounts.RunnerGroup) (any, error)) {
		r.Handle(path, s.serve(path, func(c *call) (any, error) {
			g, err := s.Accounts.RunnerGroupByToken(c.ctx(), c.token())
			if err != nil {
				return nil, err
			}
			return h(c, g)
		})).Methods(method)
	}
	attempt := func(path, method string, h func(*call, authz.Actor) (any, error)) {
		r.Handle(path, s.serve(path, func(c *call) (any, error) {
			actor, err := s.Runs.Authenticate(c.ctx(), c.token())
			if err != nil {
				return nil, err
			}
			if string(actor.Attempt) != c.id() {
				return nil, fault.Missing("attempt", c.id())
			}
			return h(c, actor)
		})).Methods(method)
	}
	group(wire.PathPoll, http.MethodPost, s.poll)
	group(wire.PathReady, http.MethodPost, s.ready)
	group(wire.PathDeregister, http.MethodDelete, s.deregister)
	group(wire.PathAccept, http.MethodPost, s.accept)
	attempt(wire.PathStatus, http.MethodGet, s.status)
	attempt(wire.PathInput, http.MethodGet, s.input)
	attempt(wire.PathArtifact, http.MethodPut, s.artifact)
	attempt(wire.PathLogs, http.MethodPost, s.logs)
	attempt(wire.PathApplyStart, http.MethodPost, s.applyStart)
	attempt(wire.PathStateConfirmation, http.MethodPost, s.stateConfirmation)
	r.Handle(wire.PathBootstrap, s.serve(wire.PathBootstrap, s.bootstrap)).Methods(http.MethodPost)
	r.Handle(wire.PathEmergencyState, s.serve(wire.PathEmergencyState, s.emergencyState)).Methods(http.MethodPut)
	r.Handle(wire.PathDone, s.serve(wire.PathDone, s.done)).Methods(http.MethodPost)
	r.NotFoundHandler = s.serve("(no route)", func(c *call) (any, error) { return nil, fault.Missing("runner call", c.r.URL.Path) })
	r.MethodNotAllowedHandler = r.NotFoundHandler
	return r
}

// call is one request at hand.
type call struct {
	w http.ResponseWriter
	r *http.Request
}

func (c *call) ctx() context.Context { return c.r.Context() }
func (c *call) id() string           { return mux.Vars(c.r)["id"] }
func (c *call) kind() artifacts.Kind { return artifacts.Kind(mux.Vars(c.r)["kind"]) }
func (c *call) token() string {
	token, ok := strings.CutPrefix(c.r.Header.Get("Authorization"), "Bearer ")
	if !ok || !utf8.ValidString(token) {
		return "" // which is nobody's
	}
	return token
}

const maxBody = 1 << 20 // of a JSON body, in bytes

func (c *call) decode(into any) error {
	body := json.NewDecoder(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err := body.Decode(into); err != nil {
		return fault.New(fault.Malformed, "malformed", "The body cannot be read as JSON of this call.").Because(err)
	}
	return nil
}

// stream is an answer of raw bytes.
type stream struct {
	body io.ReadCloser
	size int64
}

func (s *server) serve(template string, h func(*call) (any, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		started := clock.Now()
		w.Header().Set("Cache-Control", "no-store")
		answer, err := h(&call{w: w, r: r})
		status := http.StatusOK
		switch a := answer.(type) {
		case noAnswer:
			panic(http.ErrAbortHandler) // to return would be a 200, for a runner that is still there when the server ends
		case stream:
			err = s.send(w, a)
		case nil:
			if err == nil {
				status = http.StatusNoContent
				w.WriteHeader(status)
			}
		default:
			if err == nil {
				w.Header().Set("Content-Type", "application/json")
				err = json.NewEncoder(w).Encode(a)
			}
		}
		if err != nil {
			status = s.refuse(w, template, err)
		}
		if s.Observe != nil {
			s.Observe(r.Method, template, status, clock.Since(started))
		}
		s.Log.LogAttrs(r.Context(), slog.LevelInfo, "runner call", slog.String("method", r.Method), slog.String("route", template), slog.String("id", mux.Vars(r)["id"]), slog.Int("status", status), slog.Duration("took", clock.Since(started)))
	})
}

type noAnswer struct{}

// send copies a body whose size is known; one that breaks off ends the connection,
// so that nobody takes a part for the whole.
func (s *server) send(w http.ResponseWriter, a stream) error {
	defer func() { _ = a.body.Close() }()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.FormatInt(a.size, 10))
	if _, err := io.Copy(w, a.body); err != nil {
		s.Log.Error("an input broke off", "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

var statuses = map[fault.Kind]int{
	fault.Unknown: http.StatusServiceUnavailable, fault.Malformed: http.StatusBadRequest, fault.Unauthenticated: http.StatusUnauthorized,
	fault.Forbidden: http.StatusForbidden, fault.NotFound: http.StatusNotFound, fault.Conflict: http.StatusConflict, fault.Locked: http.StatusConflict,
	fault.RecoveryHeld: http.StatusLocked, fault.TooLarge: http.StatusRequestEntityTooLarge, fault.Invalid: http.StatusUnprocessableEntity,
	fault.Exhausted: http.StatusTooManyRequests, fault.Unavailable: http.StatusServiceUnavailable, fault.Internal: http.StatusInternalServerError,
}

func (s *server) refuse(w http.ResponseWriter, template string, err error) int {
	status := statuses[fault.KindOf(err)]
	problem := wire.Problem{Code: "internal", Detail: "The server failed; its log says more."}
	var classified *fault.Error
	if errors.As(err, &classified) && classified.Kind != fault.Internal {
		problem = wire.Problem{Code: classified.Code, Detail: classified.Message}
	} else {
		s.Log.Error("a runner call failed", "route", template, "error", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(problem)
	return status
}

func (s *server) ready(c *call, group accounts.RunnerGroup) (any, error) {
	id, err := ids.Parse[ids.Runner](c.id())
	if err != nil {
		return nil, err
	}
	return nil, s.Runs.Ready(c.ctx(), group, id)
}

func (s *server) deregister(c *call, group accounts.RunnerGroup) (any, error) {
	id, err := ids.Parse[ids.Runner](c.id())
	if err != nil {
		return nil, err
	}
	return nil, s.Runs.Deregister(c.ctx(), group, id)
}

func (s *server) accept(c *call, group accounts.RunnerGroup) (any, error) {
	id, err := ids.Parse[ids.Attempt](c.id())
	if err != nil {
		return nil, err
	}
	var in wire.Accept
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if !accounts.Storable(in.SandboxID) {
		return nil, fault.New(fault.Invalid, "sandbox_required", "The sandbox's name has a NUL character; choose another.")
	}
	if err := checkRelease(in.Release); err != nil {
		return nil, err
	}
	session, err := s.Runs.Accept(c.ctx(), group, id, dispatch.Acceptance{
		Runner: ids.Runner(in.RunnerID), Sandbox: in.SandboxID, JSONLog: in.JSONLog, Bootstrap: in.Bootstrap, Release: release(in.Release),
	}, manifest)
	return sessionAnswer(session, err)
}

func (s *server) status(c *call, actor authz.Actor) (any, error) {
	stop, err := s.Runs.Heartbeat(c.ctx(), actor)
	if err != nil {
		return nil, err
	}
	return wire.Status{Stop: stop, NextPollSeconds: max(1, int(s.Runs.HeartbeatInterval()/time.Second))}, nil
}

func (s *server) input(c *call, actor authz.Actor) (any, error) {
	if c.kind() == wire.KindVariables {
		list, err := s.Runs.InputVariables(c.ctx(), actor)
		if err != nil {
			return nil, err
		}
		return variables(list), nil
	}
	body, object, err := s.Runs.Input(c.ctx(), actor, c.kind())
	if err != nil {
		return nil, err
	}
	return stream{body: body, size: object.Size}, nil
}

func (s *server) artifact(c *call, actor authz.Actor) (any, error) {
	return nil, s.Runs.HandOver(c.ctx(), actor, c.kind(), c.r.Header.Get(wire.HeaderSHA256), c.r.Body)
}

func (s *server) logs(c *call, actor authz.Actor) (any, error) {
	offset, err := strconv.ParseInt(c.r.Header.Get(wire.HeaderOffset), 10, 64)
	if err != nil || offset < 0 {
		return nil, fault.New(fault.Malformed, "malformed", "The header %s must be a byte position.", wire.HeaderOffset)
	}
	stream, err := logStream(c.r.Header.Get(wire.HeaderLogStream))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, dispatch.MaxChunk))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, fault.New(fault.TooLarge, "chunk_too_large", "A piece of log may have at most %d bytes.", dispatch.MaxChunk)
	}
	if err != nil {
		return nil, fault.New(fault.Malformed, "malformed", "The piece of log broke off.").Because(err)
	}
	if err := checkDigest(data, c.r.Header.Get(wire.HeaderSHA256)); err != nil {
		return nil, err
	}
	next, err := s.Runs.AppendLog(c.ctx(), actor, stream, offset, data)
	if fault.HasCode(err, "log_offset") {
		return wire.LogPosition{Next: next}, nil // go on from where the server is
	}
	if err != nil {
		return nil, err
	}
	return wire.LogPosition{Next: next}, nil
}

func logStream(name string) (dispatch.Stream, error) {
	switch name {
	case "", wire.StreamHuman:
		return dispatch.Human, nil
	case wire.StreamJSON:
		return dispatch.JSON, nil
	}
	return "", fault.New(fault.Malformed, "malformed", "The header %s must be %s or %s.", wire.HeaderLogStream, wire.StreamHuman, wire.StreamJSON)
}

func (s *server) stateConfirmation(c *call, actor authz.Actor) (any, error) {
	var in wire.StateConfirmation
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	v, err := s.Runs.ConfirmState(c.ctx(), actor, in.SandboxID)
	if err != nil {
		return nil, err
	}
	return wire.StateConfirmed{StateVersionID: string(v.ID), SHA256: v.SHA256, Serial: v.Serial}, nil
}

// done takes the token of an attempt that may have ended already: a repeated report
// after a lost answer must be answered too, when the session is closed.
func (s *server) done(c *call) (any, error) {
	session, err := s.Runs.AuthenticateEnded(c.ctx(), c.token())
	if err != nil {
		return nil, err
	}
	if string(session.Attempt) != c.id() {
		return nil, fault.Missing("attempt", c.id())
	}
	var in wire.Done
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	if err := checkNumbers(in); err != nil {
		return nil, err
	}
	if err := s.Runs.Done(c.ctx(), session.Attempt, done(in)); err != nil {
		return nil, err
	}
	if session.Phase == authz.Apply { // a plan leaves nothing to be proven
		s.Recovery.AfterReport(c.ctx(), session.Attempt)
	}
	return nil, nil
}
