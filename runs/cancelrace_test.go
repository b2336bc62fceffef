package runs

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

// TestACancelRacesTheResultOfAnApply: whichever comes first of a cancel, a result and another
// result of the same attempt, the run ends once, as the report that was taken says, and its
// workspace goes with it (RC-04).
func TestACancelRacesTheResultOfAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 50 {
		e := w.applying(w.workspace())
		next := w.run(e.WorkspaceID)
		e.publish(1)
		succeeded := Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: e.confirm()}
		interrupted := Done{Outcome: OutcomeCanceled, TofuStarted: true, ExitCode: 1}

		var canceled, finished, stopped error
		var racers sync.WaitGroup
		begin := make(chan struct{})
		race := func(into *error, do func() error) {
			racers.Go(func() { <-begin; *into = do() })
		}
		race(&canceled, func() error { return w.runs.Cancel(ctx, w.owner, e.RunID, "") })
		race(&finished, func() error { return e.tryDone(succeeded) })
		race(&stopped, func() error { return e.tryDone(interrupted) })
		close(begin)
		racers.Wait()

		if canceled != nil {
			wantCode(t, canceled, fault.Conflict, "invalid_transition") // it had ended
		}
		end, refused := Succeeded, stopped
		if finished != nil {
			end, refused = ApplyInterrupted, finished
			require.NoError(t, stopped, "one of the two is taken")
		}
		wantCode(t, refused, fault.Conflict, "attempt_ended")
		d := w.wantStatus(e.RunID, end)
		assert.Equal(t, []Status{Applying, end}, d.steps()[len(d.steps())-2:])
		if end == Succeeded {
			w.wantAdmitted(next.ID)
			require.NoError(t, w.runs.Cancel(ctx, w.owner, next.ID, "")) // so that the runner is not offered it
			continue
		}
		w.wantHeld(e.RunID)
		w.wantWaits(next.ID)
	}
}
