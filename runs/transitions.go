package runs

// Status is the durable status of a run.
type Status string

// The durable statuses (checklist §2.1).
const (
	DispatchPending         Status = "dispatch_pending"
	Queued                  Status = "queued"
	Planning                Status = "planning"
	PlanComplete            Status = "plan_complete"
	PolicyEvaluating        Status = "policy_evaluating"
	PolicyPassed            Status = "policy_passed"
	AwaitingApproval        Status = "awaiting_approval"
	Applying                Status = "applying"
	Succeeded               Status = "succeeded"
	PlanCredentialsRequired Status = "plan_credentials_required"
	PlanFailed              Status = "plan_failed"
	PolicyFailed            Status = "policy_failed"
	Rejected                Status = "rejected"
	Expired                 Status = "expired"
	Canceled                Status = "canceled"
	ApplyFailed             Status = "apply_failed"
	ApplyStartUncertain     Status = "apply_start_uncertain"
	ApplyInterrupted        Status = "apply_interrupted"
	NeedsRecovery           Status = "needs_recovery"
)

// Statuses lists all of them in reading order.
var Statuses = []Status{
	DispatchPending, Queued, Planning, PlanComplete, PolicyEvaluating, PolicyPassed, AwaitingApproval, Applying, Succeeded,
	PlanCredentialsRequired, PlanFailed, PolicyFailed, Rejected, Expired, Canceled,
	ApplyFailed, ApplyStartUncertain, ApplyInterrupted, NeedsRecovery,
}

// Effect says what a transition does to the workspace's fence when the run occupies it.
type Effect string

// The effects.
const (
	Keeps    Effect = "keeps"    // the run goes on
	Releases Effect = "releases" // the run has ended and its writer with it; the next run is promoted
	Holds    Effect = "holds"    // the run has ended without proof: only recovery frees the workspace
	Either   Effect = "either"   // released when nothing was written, held otherwise (amendment 20)
)

// Transition is one allowed step.
type Transition struct {
	From, To Status
	Event    string // why it happens
	Effect   Effect
}

// Transitions is the table, in reading order: the same as docs/run-states.md and
// table run_transitions. What it does not list cannot happen (RL-31).
var Transitions = []Transition{
	{DispatchPending, Queued, "accepted", Keeps},
	{DispatchPending, Canceled, "canceled by a person", Releases},
	{DispatchPending, AwaitingApproval, "it promotes a plan that is there", Keeps},

	{Queued, Planning, "a runner accepted the plan", Keeps},
	{Queued, PlanFailed, "no runner could take it", Releases},
	{Queued, PlanCredentialsRequired, "credentials are missing", Releases},
	{Queued, Canceled, "canceled by a person", Releases},

	{Planning, PlanComplete, "the plan is stored", Keeps},
	{Planning, PlanFailed, "the plan failed or its runner was lost", Releases},
	{Planning, PlanCredentialsRequired, "credentials were refused", Releases},
	{Planning, Canceled, "the runner stopped the plan", Releases},

	{PlanComplete, PolicyEvaluating, "the policy check is bound to the plan", Keeps},
	{PlanComplete, Canceled, "canceled by a person", Releases},

	{PolicyEvaluating, PolicyPassed, "policies allow the plan", Keeps},
	{PolicyEvaluating, PolicyFailed, "a policy forbids the plan", Releases},
	{PolicyEvaluating, Canceled, "canceled by a person", Releases},

	{PolicyPassed, AwaitingApproval, "the plan has changes to apply", Keeps},
	{PolicyPassed, Succeeded, "nothing is to be applied", Releases},

	{AwaitingApproval, Applying, "apply-start was redeemed", Keeps},
	{AwaitingApproval, Rejected, "discarded by a person, or its state has moved", Releases},
	{AwaitingApproval, Expired, "nobody decided in time", Releases},
	{AwaitingApproval, Canceled, "canceled before the apply started", Releases},
	{AwaitingApproval, ApplyFailed, "the apply could not start", Either},
	{AwaitingApproval, Succeeded, "its saved plan was promoted", Releases},

	{Applying, Succeeded, "the published state is proved to be this run's", Releases},
	{Applying, ApplyFailed, "tofu apply failed", Either},
	{Applying, ApplyStartUncertain, "nobody knows whether tofu apply started", Holds},
	{Applying, ApplyInterrupted, "the apply was canceled", Holds},
	{Applying, NeedsRecovery, "nobody knows what tofu apply did", Holds},

	{PlanFailed, Queued, "requeued", Keeps},
	{PlanCredentialsRequired, Queued, "requeued", Keeps},
	{PolicyFailed, Queued, "requeued", Keeps},
	{Canceled, Queued, "requeued", Keeps},

	{ApplyFailed, NeedsRecovery, "an operator recovers it", Holds},
	{ApplyStartUncertain, NeedsRecovery, "an operator recovers it", Holds},
	{ApplyInterrupted, NeedsRecovery, "an operator recovers it", Holds},
}

// Find gives the transition from one status to another; ok is false when the table
// does not allow it.
func Find(from, to Status) (t Transition, ok bool) {
	for _, t := range Transitions {
		if t.From == from && t.To == to {
			return t, true
		}
	}
	return Transition{}, false
}

// Final tells whether a run in this status has ended. Recovery may still turn
// an ended apply into needs_recovery, which is an end as well, and a person may
// requeue a run that ended before its apply.
func (s Status) Final() bool {
	switch s {
	case DispatchPending, Queued, Planning, PlanComplete, PolicyEvaluating, PolicyPassed, AwaitingApproval, Applying:
		return false
	}
	return true
}
