package runs

import (
	"fmt"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fence"
)

// IntentStatus is a run's status in the words of those who ask for operations
// (checklist §3.5).
type IntentStatus string

// The intent statuses.
const (
	IntentPendingApproval IntentStatus = "pending_approval"
	IntentQueued          IntentStatus = "queued"
	IntentRunning         IntentStatus = "running"
	IntentCanceling       IntentStatus = "canceling"
	IntentSucceeded       IntentStatus = "succeeded"
	IntentFailed          IntentStatus = "failed"
	IntentCanceled        IntentStatus = "canceled"
	IntentTimedOut        IntentStatus = "timed_out"
)

// timeExceeded is the reason of whatever ran for too long (RL-43).
const timeExceeded = "RUN_TTL_EXCEEDED"

// IntentStatus gives it. A run whose end was asked for is canceling only while a
// runner works on it (RL-41); it ends as what that runner reports.
func (r Run) IntentStatus() IntentStatus {
	working := r.PlanAttempt == dispatch.Running || r.ApplyAttempt == dispatch.Running
	switch {
	case r.DurableReason == timeExceeded:
		return IntentTimedOut
	case !r.DurableStatus.Final() && r.CancelRequestedAt != nil && working:
		return IntentCanceling
	}
	switch r.DurableStatus {
	case DispatchPending, Queued:
		return IntentQueued
	case Planning, PlanComplete, PolicyEvaluating, PolicyPassed, Applying:
		return IntentRunning
	case AwaitingApproval:
		if r.ConfirmedAt != nil {
			return IntentQueued // it waits for a runner, not for a person
		}
		return IntentPendingApproval
	case Succeeded:
		return IntentSucceeded
	case Canceled, ApplyInterrupted, Expired:
		return IntentCanceled
	default:
		return IntentFailed
	}
}

// DeploymentStatus is the same in the words of deployments (checklist §3.5).
func (r Run) DeploymentStatus() string {
	switch r.DurableStatus {
	case DispatchPending, Queued:
		return "queued"
	case Planning, PlanComplete, PolicyEvaluating, PolicyPassed:
		return "planning"
	case AwaitingApproval:
		return "confirmation"
	case Applying:
		return "applying"
	case Succeeded:
		return "finished"
	case Canceled, ApplyInterrupted, Expired:
		return "canceled"
	default:
		return "failed"
	}
}

// Label is the status for people. A success says whether anything was applied (RL-20).
func (r Run) Label() string {
	switch r.DurableStatus {
	case Succeeded:
		if r.ApplyAttempt != "" {
			return "Applied"
		}
		return "Plan completed"
	case AwaitingApproval:
		if r.ConfirmedAt != nil {
			return "Waiting to apply"
		}
		return "Needs a decision"
	case NeedsRecovery:
		if r.RecoveredAt != nil {
			return "Recovered"
		}
	}
	return labels[r.DurableStatus]
}

var labels = map[Status]string{
	DispatchPending: "Waiting to be accepted", Queued: "Waiting to plan", Planning: "Planning", PlanComplete: "Planned",
	PolicyEvaluating: "Checking policies", PolicyPassed: "Policies passed", Applying: "Applying",
	PlanCredentialsRequired: "Credentials are missing", PlanFailed: "Plan failed", PolicyFailed: "Forbidden by a policy",
	Rejected: "Discarded", Expired: "Expired", Canceled: "Canceled", ApplyFailed: "Apply failed",
	ApplyStartUncertain: "Apply uncertain", ApplyInterrupted: "Apply interrupted", NeedsRecovery: "Needs recovery",
}

// WaitsFor says what the run waits for; "" when it is worked on, or has ended.
// Of a workspace that waits for a recovery it names the run that is to be recovered
// (G-07).
func (r Run) WaitsFor() string {
	switch {
	case r.DurableStatus == DispatchPending:
		return "waiting to be accepted"
	case r.DurableStatus == Queued && r.AdmittedAt == nil:
		return r.workspaceWait()
	case r.GateReason != "":
		return r.GateReason
	case r.WaitsForTasks() != "":
		return "waiting for the run tasks of " + string(r.WaitsForTasks())
	case r.DurableStatus == Queued:
		return waitsForRunner("plan", r.PlanAttempt)
	case r.DurableStatus == AwaitingApproval && r.ConfirmedAt == nil:
		if needed := r.ApprovalRule.Settled().Required; needed > 1 {
			return fmt.Sprintf("waiting for a decision about the plan: %d of %d approvals", len(r.Approvers), needed)
		}
		return "waiting for a decision about the plan"
	case r.DurableStatus == AwaitingApproval:
		return waitsForRunner("apply", r.ApplyAttempt)
	}
	return ""
}

func (r Run) workspaceWait() string {
	switch {
	case r.HolderHeld:
		return fmt.Sprintf("workspace held by %s pending recovery", r.HolderID)
	case r.HolderKind == fence.Run:
		return fmt.Sprintf("workspace busy with %s", r.HolderID)
	case r.HolderKind == "":
		return "waiting for its turn"
	case r.HolderName != "":
		return fmt.Sprintf("workspace locked by %s %s", r.HolderKind, r.HolderName)
	default:
		return fmt.Sprintf("workspace locked by %s %s", r.HolderKind, r.HolderID)
	}
}

func waitsForRunner(phase string, attempt dispatch.Status) string {
	switch attempt {
	case dispatch.Pending:
		return "waiting for a runner to " + phase
	case dispatch.Assigned:
		return "a runner was offered the " + phase
	default:
		return ""
	}
}
