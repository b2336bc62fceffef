package recovery

import (
	"fmt"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/runs"
)

// Doubt is nil for the ordinary failure, of which nothing is in doubt: the apply failed,
// its own runner said so, everything that it published is proven and current, and nothing
// else is left: no upload, no state that could not be published. Else it says the first
// thing that a person has to look at.
func (e Evidence) Doubt() *fault.Error {
	doubt := func(code, text string, args ...any) *fault.Error {
		return fault.New(fault.Conflict, code, "%s", fmt.Sprintf(text, args...))
	}
	claimed, unclaimed := e.openUploads()
	switch op := e.Operation; {
	case e.AuthorityLost:
		return doubt("authority_lost", "%s was in use when the database lost what it had acknowledged.", e.Run.ID)
	case !e.Held:
		return doubt("not_held", "%s does not hold its workspace for recovery.", e.Run.ID)
	case op != nil && op.Status == Prepared:
		return doubt("recovery_in_progress", "%s has prepared the recovery %s.", op.PrincipalID, op.ID)
	case e.VerifyRefused != nil:
		return e.VerifyRefused
	case !e.Writer.Proven:
		return doubt("writer_not_proven", "Nothing proves that the writer has stopped.")
	case len(e.Emergency) > 0:
		return doubt("emergency_state", "There is an emergency state: compare it with what was published.")
	case e.leftState() == nil:
		return doubt("emergency_state_unknown", "No report of the runner says whether tofu left state that it could not publish.")
	case *e.leftState():
		return doubt("emergency_state_missing", "Tofu left state that it could not publish, and the runner has not handed it over.")
	case claimed > 0:
		return doubt("claimed_upload_unresolved", "%d uploads began and did not end.", claimed)
	case unclaimed > 0:
		return doubt("upload_not_expired", "%d uploads were announced and may still begin.", unclaimed)
	case !e.failed():
		return doubt("not_a_failed_apply", "The apply is %s (%s): tofu did not come to an end of its own.", e.Run.DurableStatus, e.Run.DurableReason)
	}
	return nil
}

// openUploads counts the uploads that nobody has finished. One that expired without a byte is nothing.
func (e Evidence) openUploads() (claimed, unclaimed int) {
	for _, u := range e.Uploads {
		switch {
		case u.ClaimedAt != nil:
			claimed++
		case !u.Expired:
			unclaimed++
		}
	}
	return claimed, unclaimed
}

// leftState is what the runner reported of state that tofu could not publish; nil: nothing.
func (e Evidence) leftState() *bool {
	if e.Attempt == nil {
		return nil
	}
	return e.Attempt.ErroredState
}

// failed tells whether tofu was started with authority, came to its own end, and reported
// an error. What was interrupted, timed out or lost may have stopped in the middle of
// something.
func (e Evidence) failed() bool {
	a := e.Attempt
	return a != nil && a.ApplyStartedAt != nil && a.Status == dispatch.Finished && runs.Outcome(a.Outcome) == runs.OutcomeErrored && e.Run.DurableReason == "apply_failed"
}
