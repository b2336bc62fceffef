package runner

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// stopReason is why an attempt is to end early.
type stopReason string

const (
	stopCanceled stopReason = "canceled" // somebody canceled the run
	stopTimedOut stopReason = "timed out"
	stopShutdown stopReason = "the runner was told to end at once"
	stopRefused  stopReason = "The attempt has no authority any more: the server refuses its session."
)

// stopper is the wish that an attempt ends early. The first reason stays.
type stopper struct {
	once   sync.Once
	wanted chan struct{} // closed when there is a reason
	reason stopReason    // written before wanted is closed
}

func newStopper() *stopper { return &stopper{wanted: make(chan struct{})} }

func (s *stopper) stop(reason stopReason) {
	s.once.Do(func() {
		s.reason = reason
		close(s.wanted)
	})
}

// why gives the reason, "" as long as there is none.
func (s *stopper) why() stopReason {
	select {
	case <-s.wanted:
		return s.reason
	default:
		return ""
	}
}

// guard stops the attempt at its time limit, and when the runner is told to end at
// once. It returns when ctx ends.
func (a *attempt) guard(ctx context.Context, interrupt <-chan struct{}) {
	var limit <-chan time.Time
	if a.manifest.MaxSeconds > 0 {
		timer := time.NewTimer(time.Duration(a.manifest.MaxSeconds) * time.Second)
		defer timer.Stop()
		limit = timer.C
	}
	select {
	case <-ctx.Done():
	case <-limit:
		a.stop.stop(stopTimedOut)
	case <-interrupt:
		a.stop.stop(stopShutdown)
	}
}

// watch asks the server every few seconds whether the attempt shall stop, which
// also tells the server that the runner lives (RP-11). It returns when ctx ends. A
// server that does not answer stops nothing; one that refuses the session does: what
// tofu goes on to make could not be written down anywhere.
func (a *attempt) watch(ctx context.Context) {
	refusals := 0 // in a row
	for ctx.Err() == nil {
		next, err := a.askStatus(ctx)
		switch sessionOver(err) {
		case yes:
			refusals = mostRefusals
		case perhaps:
			refusals++
		case no:
			refusals = 0
		}
		if refusals >= mostRefusals {
			slog.Error("the server refuses the session; the attempt is stopped", "attempt", a.id, "error", err)
			a.stop.stop(stopRefused)
			return
		}
		pause(ctx, next)
	}
}

// mostRefusals is how many doubtful refusals in a row end an attempt. One may come from
// a proxy, or from one server of many that has the wrong key ring.
const mostRefusals = 3

type verdict int

const (
	no verdict = iota
	perhaps
	yes
)

// sessionOver tells from a refused status poll whether the session is over: the server
// knows it and has ended it, or knows that its database has lost it (AU-20).
func sessionOver(err error) verdict {
	var said *refusal
	switch {
	case !errors.As(err, &said):
		return no
	case said.code == "session_ended", said.code == "capability_expired", said.code == "authority_lost":
		return yes
	case said.status == http.StatusUnauthorized, said.status == http.StatusLocked:
		return perhaps
	}
	return no
}

// askStatus asks once and gives the time until the next question.
func (a *attempt) askStatus(ctx context.Context) (time.Duration, error) {
	var status wire.Status
	err := a.server.once(ctx, request{
		method: http.MethodGet, path: withID(wire.PathStatus, a.id), token: a.session.Token, limit: statusLimit,
	}, func(resp *http.Response) error { return decodeJSON(resp, &status) })
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("could not ask whether to go on", "attempt", a.id, "error", err)
		}
		return statusRetry, err
	}
	if status.Stop {
		a.stop.stop(stopCanceled)
	}
	return time.Duration(max(status.NextPollSeconds, 1)) * time.Second, nil
}

const (
	statusLimit = 10 * time.Second
	statusRetry = 2 * time.Second
)
