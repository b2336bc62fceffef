package runner

import (
	"context"
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
// server that does not answer stops nothing.
func (a *attempt) watch(ctx context.Context) {
	for ctx.Err() == nil {
		pause(ctx, a.askStatus(ctx))
	}
}

// askStatus asks once and gives the time until the next question.
func (a *attempt) askStatus(ctx context.Context) time.Duration {
	var status wire.Status
	err := a.server.once(ctx, request{
		method: http.MethodGet, path: withID(wire.PathStatus, a.id), token: a.session.Token, limit: statusLimit,
	}, func(resp *http.Response) error { return decodeJSON(resp, &status) })
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("could not ask whether to go on", "attempt", a.id, "error", err)
		}
		return statusRetry
	}
	if status.Stop {
		a.stop.stop(stopCanceled)
	}
	return time.Duration(max(status.NextPollSeconds, 1)) * time.Second
}

const (
	statusLimit = 10 * time.Second
	statusRetry = 2 * time.Second
)
