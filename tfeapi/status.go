package tfeapi

import (
	"slices"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/runtasks"
)

// runFacts is all that the statuses on the wire depend on.
type runFacts struct {
	durable runs.Status

	planAttempt  bool // a plan attempt exists: nothing is in front of the run any more
	planFinished bool // the plan ended with a result
	savePlan     bool
	keepsPlan    bool // its end is a plan that can be promoted
	autoApply    bool
	confirmed    bool // a decision was recorded, or a client confirmed
	applyAttempt bool // an apply attempt exists

	planJustFinished bool // a client that follows the plan may not have seen its end yet

	cancelRequested bool
	forceCancelDue  bool // a canceled plan has not stopped in the time it was given
	callerMayDecide bool // the caller has the right to apply

	policies bool // policy sets have a say about the plan

	priced bool // there is a cost estimate of its plan

	tasks          runtasks.Stage // those that the run waits for; empty: none
	callerApproved bool           // and has used it
	approved       bool           // somebody has approved, perhaps not the last one that is needed
}

// factsOf gathers them.
func factsOf(actor authz.Actor, r runs.Run) runFacts {
	return runFacts{
		durable: r.DurableStatus, planAttempt: r.PlanAttempt != "", planFinished: r.PlanFinishedAt != nil, savePlan: r.SavePlan,
		keepsPlan: r.Operation == runs.OperationPlan && r.HasChanges != nil && *r.HasChanges,
		autoApply: r.AutoApply, confirmed: r.ConfirmedAt != nil, applyAttempt: r.ApplyAttempt != "", planJustFinished: r.PlanJustFinished,
		cancelRequested: r.CancelRequestedAt != nil, forceCancelDue: r.ForceCancelable(),
		callerMayDecide: authz.Can(actor, authz.RunApply, r.Object()), policies: r.PolicySets > 0, tasks: r.WaitsForTasks(), priced: r.CostEstimateID != "",
		callerApproved: actor.User != "" && slices.Contains(r.Approvers, actor.User), approved: len(r.Approvers) > 0,
	}
}

// projection is a run as native clients see it.
type projection struct {
	run, plan, apply string

	confirmable, discardable, cancelable, forceCancelable bool
}

// project gives the wire statuses of a run (checklist §3.1 with amendment 1). It is
// the only place that turns durable statuses into others. Where a client would end
// with exit code 0 without having applied, the run is shown as errored instead of
// discarded (NC-12); where it would look once and go away, the plan is not shown as
// finished before the run can be confirmed (NC-14).
func project(f runFacts) projection {
	switch f.durable {
	case runs.DispatchPending:
		return projection{run: "pending", plan: "pending", apply: "pending", cancelable: !f.cancelRequested}
	case runs.Queued:
		if f.tasks == runtasks.PrePlan {
			return projection{run: "pre_plan_running", plan: "pending", apply: "pending", cancelable: !f.cancelRequested}
		}
		if f.planAttempt {
			return projection{run: "plan_queued", plan: "queued", apply: "pending", cancelable: !f.cancelRequested}
		}
		return projection{run: "pending", plan: "pending", apply: "pending", cancelable: !f.cancelRequested}
	case runs.PlanComplete, runs.PolicyEvaluating, runs.PolicyPassed:
		if f.tasks == runtasks.PostPlan { // the plan is not shown as finished before they are (NC-14)
			return projection{run: "post_plan_running", plan: "running", apply: "pending", cancelable: !f.cancelRequested}
		}
		if f.policies { // its check is there, so that a client that has seen the plan's end waits for it (NC-14)
			return projection{run: "policy_checking", plan: "finished", apply: "pending", cancelable: !f.cancelRequested}
		}
		fallthrough // without policy sets they pass within one transaction (amendment 1)
	case runs.Planning:
		return projection{run: "planning", plan: "running", apply: "pending", cancelable: !f.cancelRequested, forceCancelable: f.forceCancelDue}
	case runs.AwaitingApproval:
		return awaitingApproval(f)
	case runs.Applying:
		return projection{run: "applying", plan: "finished", apply: "running", cancelable: !f.cancelRequested}
	default:
		return ended(f)
	}
}

func awaitingApproval(f runFacts) projection {
	p := projection{plan: "finished", cancelable: !f.cancelRequested}
	switch {
	case f.applyAttempt:
		p.run, p.apply = "apply_queued", "queued"
	case f.tasks == runtasks.PreApply:
		p.run, p.apply = "pre_apply_running", "queued"
	case f.confirmed:
		p.run, p.apply = "confirmed", "queued"
	case f.callerApproved: // and waits for the others: its client has said yes and must not end (§3.1 row 9)
		p.run, p.apply = "confirmed", "pending"
	default:
		p.run, p.apply = "planned", "pending"
		if f.priced {
			p.run = "cost_estimated" // clients that see an estimate wait for it
		}
		if f.policies {
			p.run = "policy_checked"
		}
		if f.savePlan {
			p.run = "planned_and_saved"
		}
		p.confirmable, p.discardable = f.callerMayDecide && !f.cancelRequested, !f.cancelRequested
	}
	return p
}

// ended gives the statuses of a run that will not go on by itself. Nothing can be
// done to it any more.
func ended(f runFacts) projection {
	switch f.durable {
	case runs.Succeeded:
		if f.applyAttempt {
			return projection{run: "applied", plan: "finished", apply: "finished"}
		}
		if f.keepsPlan { // it can be promoted, and not be confirmed
			return projection{run: "planned_and_saved", plan: "finished", apply: "unreachable"}
		}
		return projection{run: "planned_and_finished", plan: "finished", apply: "unreachable"}
	case runs.PolicyFailed:
		return projection{run: "errored", plan: "finished", apply: "unreachable"}
	case runs.Rejected, runs.Expired:
		if f.autoApply || f.confirmed || f.approved {
			return projection{run: "errored", plan: "finished", apply: "unreachable"}
		}
		return projection{run: "discarded", plan: "finished", apply: "unreachable"}
	case runs.Canceled:
		if f.planFinished {
			return projection{run: "canceled", plan: "finished", apply: "canceled"}
		}
		return projection{run: "canceled", plan: "canceled", apply: "unreachable"}
	case runs.ApplyInterrupted:
		return projection{run: "canceled", plan: "finished", apply: "canceled"}
	case runs.ApplyFailed, runs.ApplyStartUncertain, runs.NeedsRecovery:
		if f.planJustFinished && f.autoApply {
			// A client that looks at the run after the plan's log, and finds it errored, shows
			// neither the plan nor why the apply failed. It looks within a few seconds.
			return projection{run: "applying", plan: "finished", apply: "running"}
		}
		return projection{run: "errored", plan: "finished", apply: "errored"}
	default: // plan_failed, plan_credentials_required
		return projection{run: "errored", plan: "errored", apply: "unreachable"}
	}
}

// durableStatuses gives the durable statuses of which one is shown as one of the wanted
// ones, for filters. Where the same status may be shown in several ways, it is among them.
func durableStatuses(wanted []string) []string {
	found := []string{}
	for _, status := range runs.Statuses {
		if slices.ContainsFunc(shownAs(status), func(shown string) bool { return slices.Contains(wanted, shown) }) {
			found = append(found, string(status))
		}
	}
	return found
}

// shownAs gives every status under which clients may know a durable one.
func shownAs(durable runs.Status) (names []string) {
	for bits := range 1 << 9 {
		for _, tasks := range []runtasks.Stage{"", runtasks.PrePlan, runtasks.PostPlan, runtasks.PreApply} {
			f := runFacts{
				durable: durable, planAttempt: bits&1 != 0, planFinished: true, savePlan: bits&2 != 0, keepsPlan: bits&4 != 0, autoApply: bits&8 != 0,
				confirmed: bits&16 != 0, applyAttempt: bits&32 != 0, planJustFinished: bits&64 != 0, policies: bits&128 != 0, priced: bits&256 != 0, tasks: tasks,
			}
			if shown := project(f).run; !slices.Contains(names, shown) {
				names = append(names, shown)
			}
		}
	}
	return names
}
