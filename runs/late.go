package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// LateReport is what a runner said of an attempt that had been called lost. It decides
// nothing any more; it tells a recovery that the writer has stopped.
type LateReport struct {
	Outcome      Outcome
	ExitCode     int
	TofuStarted  bool
	ErroredState bool
	Message      string
	ReceivedAt   time.Time
}

// mostLateReports bounds what one attempt may leave.
const mostLateReports = 20

// keepLate records a report that comes too late. refused is the answer to it.
func keepLate(ctx context.Context, tx postgres.Tx, a dispatch.Attempt, d Done, digest string) (refused, err error) {
	_, err = postgres.Exec(ctx, tx, Queries.Get("LateReportInsert"), postgres.Args{
		"attempt_id": a.ID, "digest": digest, "outcome": string(d.Outcome), "exit_code": d.ExitCode, "tofu_started": d.TofuStarted, "errored_state": d.ErroredState,
		"message": d.Message, "most": mostLateReports,
	})
	if err != nil {
		return nil, fmt.Errorf("keep a late report of %s: %w", a.ID, err)
	}
	return fault.New(fault.Conflict, "attempt_ended", "Attempt %s was given up as %s, and its result does not change. The report is kept as evidence.", a.ID, a.Status), nil
}

// LateReports gives those of an attempt, oldest first.
func LateReports(ctx context.Context, tx postgres.Tx, attempt ids.Attempt) ([]LateReport, error) {
	return postgres.All[LateReport](ctx, tx, Queries.Get("LateReports"), postgres.Args{"attempt_id": attempt})
}
