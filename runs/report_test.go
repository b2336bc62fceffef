package runs

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/postgres"
)

// A report of success is believed only when its own facts say the same.
func TestAReportThatContradictsItselfIsNoSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, d := range map[string]Done{
		"tofu was not started": {Outcome: OutcomeFinished},
		"another exit code":    {Outcome: OutcomeFinished, TofuStarted: true, ExitCode: 1},
		"state left over":      {Outcome: OutcomeFinished, TofuStarted: true, ErroredState: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := w.applying(w.workspace())
			e.publish(1)
			d.Confirmed = e.confirm() // all else is in order
			e.done(d)
			assert.Equal(t, "report_contradicts_itself", w.wantStatus(e.RunID, NeedsRecovery).DurableReason)
			w.wantHeld(e.RunID)
		})
	}
	for name, change := range map[string]func(*Done){
		"changes with exit code 0":    func(d *Done) { d.ExitCode = 0 },
		"no changes with exit code 2": func(d *Done) { d.Plan.HasChanges = false },
		"exit code 1":                 func(d *Done) { d.ExitCode = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			e := w.take(w.run(w.workspace()).ID)
			d := planned(true)
			change(&d)
			e.done(d)
			assert.Equal(t, "report_contradicts_itself", w.wantStatus(e.RunID, PlanFailed).DurableReason)
			w.wantReleased(e.RunID)
		})
	}
}

// Logs are folded beside the sweep, which goes on while the store does not answer.
func TestASweeperFoldsLogsAndReapsWithoutTheStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	settings := Defaults()
	settings.Heartbeat = 10 * time.Millisecond
	w = w.with(settings)
	ended := w.take(w.run(w.workspace()).ID)
	ended.log("to be folded\n")
	ended.done(Done{Outcome: OutcomeErrored, ExitCode: 1})
	silent := w.take(w.run(w.workspace()).ID)
	w.exec("update attempts set heartbeat_at = clock_timestamp() - interval '1 hour' where id = @id", postgres.Args{"id": silent.ID})

	w.store.SetDown(true)
	sweeping, stop := context.WithCancel(ctx)
	defer stop()
	go NewSweeper(w.runs).Run(sweeping, 20*time.Millisecond)
	require.Eventually(t, func() bool { return w.get(silent.RunID).DurableStatus == PlanFailed }, time.Minute, 20*time.Millisecond, "it is reaped all the same")

	w.store.SetDown(false)
	folded := func() (yes bool) {
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			a, err := dispatch.Get(ctx, tx, ended.ID)
			yes = a.LogObjectID != ""
			return err
		}))
		return yes
	}
	require.Eventually(t, folded, time.Minute, 20*time.Millisecond, "it is folded once the store is back")
}
