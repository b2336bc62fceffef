package tfeapi

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/runs"
)

// TestProjection is the table of checklist §3.1; flags are C, D and X.
func TestProjection(t *testing.T) {
	rows := []struct {
		name             string
		facts            runFacts
		run, plan, apply string
		flags            string
	}{
		{"1", runFacts{durable: "dispatch_pending"}, "pending", "pending", "pending", "X"},
		{"2", runFacts{durable: "queued"}, "pending", "pending", "pending", "X"},
		{"3", runFacts{durable: "queued", planAttempt: true}, "plan_queued", "queued", "pending", "X"},
		{"4", runFacts{durable: "planning"}, "planning", "running", "pending", "X"},
		{"4 canceling", runFacts{durable: "planning", cancelRequested: true}, "planning", "running", "pending", ""},
		{"4 not stopping", runFacts{durable: "planning", cancelRequested: true, forceCancelDue: true}, "planning", "running", "pending", "F"},
		{"5", runFacts{durable: "plan_complete", planFinished: true}, "planning", "running", "pending", "X"},
		{"6", runFacts{durable: "policy_evaluating", planFinished: true}, "planning", "running", "pending", "X"},
		{"7", runFacts{durable: "policy_passed", planFinished: true}, "planning", "running", "pending", "X"},
		{"8", runFacts{durable: "awaiting_approval", planFinished: true, callerMayDecide: true}, "planned", "finished", "pending", "CDX"},
		{"8 saved", runFacts{durable: "awaiting_approval", planFinished: true, savePlan: true, callerMayDecide: true}, "planned_and_saved", "finished", "pending", "CDX"},
		{"8 caller may not", runFacts{durable: "awaiting_approval", planFinished: true}, "planned", "finished", "pending", "DX"},
		{"9", runFacts{durable: "awaiting_approval", planFinished: true, callerMayDecide: true, callerApproved: true, approved: true}, "confirmed", "finished", "pending", "X"},
		{"9 of others", runFacts{durable: "awaiting_approval", planFinished: true, callerMayDecide: true, approved: true}, "planned", "finished", "pending", "CDX"},
		{"9 saved", runFacts{durable: "awaiting_approval", planFinished: true, savePlan: true, callerMayDecide: true, callerApproved: true, approved: true}, "confirmed", "finished", "pending", "X"},
		{"10 confirmed", runFacts{durable: "awaiting_approval", planFinished: true, confirmed: true, callerMayDecide: true}, "confirmed", "finished", "queued", "X"},
		{"10 saved and confirmed", runFacts{durable: "awaiting_approval", planFinished: true, savePlan: true, confirmed: true, callerMayDecide: true}, "confirmed", "finished", "queued", "X"},
		{"10 queued", runFacts{durable: "awaiting_approval", planFinished: true, confirmed: true, applyAttempt: true, callerMayDecide: true}, "apply_queued", "finished", "queued", "X"},
		{"11", runFacts{durable: "applying", planFinished: true, confirmed: true, applyAttempt: true}, "applying", "finished", "running", "X"},
		{"11 canceling", runFacts{durable: "applying", planFinished: true, applyAttempt: true, cancelRequested: true}, "applying", "finished", "running", ""},
		{"12", runFacts{durable: "succeeded", planFinished: true, applyAttempt: true}, "applied", "finished", "finished", ""},
		{"13", runFacts{durable: "succeeded", planFinished: true}, "planned_and_finished", "finished", "unreachable", ""},
		{"13 a plan to promote", runFacts{durable: "succeeded", planFinished: true, keepsPlan: true}, "planned_and_saved", "finished", "unreachable", ""},
		{"12 a saved plan", runFacts{durable: "succeeded", planFinished: true, keepsPlan: true, savePlan: true, applyAttempt: true}, "applied", "finished", "finished", ""},
		{"14", runFacts{durable: "plan_credentials_required"}, "errored", "errored", "unreachable", ""},
		{"15", runFacts{durable: "plan_failed"}, "errored", "errored", "unreachable", ""},
		{"16", runFacts{durable: "policy_failed", planFinished: true}, "errored", "finished", "unreachable", ""},
		{"17", runFacts{durable: "rejected", planFinished: true}, "discarded", "finished", "unreachable", ""},
		{"18 auto-apply", runFacts{durable: "rejected", planFinished: true, autoApply: true}, "errored", "finished", "unreachable", ""},
		{"18 confirmed", runFacts{durable: "rejected", planFinished: true, confirmed: true}, "errored", "finished", "unreachable", ""},
		{"18 one of several approved", runFacts{durable: "rejected", planFinished: true, approved: true}, "errored", "finished", "unreachable", ""},
		{"19 one of several approved", runFacts{durable: "expired", planFinished: true, approved: true}, "errored", "finished", "unreachable", ""},
		{"19", runFacts{durable: "expired", planFinished: true}, "discarded", "finished", "unreachable", ""},
		{"19 auto-apply", runFacts{durable: "expired", planFinished: true, autoApply: true}, "errored", "finished", "unreachable", ""},
		{"19 confirmed", runFacts{durable: "expired", planFinished: true, confirmed: true}, "errored", "finished", "unreachable", ""},
		{"20", runFacts{durable: "canceled"}, "canceled", "canceled", "unreachable", ""},
		{"21", runFacts{durable: "canceled", planFinished: true}, "canceled", "finished", "canceled", ""},
		{"22", runFacts{durable: "apply_failed", planFinished: true, applyAttempt: true}, "errored", "finished", "errored", ""},
		{"22 before the client has seen the plan", runFacts{durable: "apply_failed", planFinished: true, applyAttempt: true, autoApply: true, planJustFinished: true}, "applying", "finished", "running", ""},
		{"22 a person decides only about what was seen", runFacts{durable: "apply_failed", planFinished: true, applyAttempt: true, planJustFinished: true}, "errored", "finished", "errored", ""},
		{"23", runFacts{durable: "apply_start_uncertain", planFinished: true}, "errored", "finished", "errored", ""},
		{"24", runFacts{durable: "apply_interrupted", planFinished: true, applyAttempt: true}, "canceled", "finished", "canceled", ""},
		{"25", runFacts{durable: "needs_recovery", planFinished: true, applyAttempt: true}, "errored", "finished", "errored", ""},
		{"26", runFacts{durable: "needs_recovery", planFinished: true, applyAttempt: true}, "errored", "finished", "errored", ""},
	}
	var covered []runs.Status
	for _, row := range rows {
		p := project(row.facts)
		assert.Equalf(t, row.run+" "+row.plan+" "+row.apply+" "+row.flags, p.run+" "+p.plan+" "+p.apply+" "+flags(p), "row %s", row.name)
		covered = append(covered, row.facts.durable)
	}
	for _, status := range runs.Statuses {
		assert.Truef(t, slices.Contains(covered, status), "%s has no row", status)
	}
}

func flags(p projection) (s string) {
	for _, f := range []struct {
		name string
		on   bool
	}{{"C", p.confirmable}, {"D", p.discardable}, {"X", p.cancelable}, {"F", p.forceCancelable}} {
		if f.on {
			s += f.name
		}
	}
	return s
}

// TestPlanIsNotFinishedBeforeTheRunIsDecidable holds NC-14: whoever sees a finished
// plan of a run that goes on must see it confirmable, confirmed, or watch a policy check.
func TestPlanIsNotFinishedBeforeTheRunIsDecidable(t *testing.T) {
	for _, durable := range runs.Statuses {
		p := project(runFacts{durable: durable, callerMayDecide: true})
		if p.plan == "finished" && p.apply == "pending" {
			assert.Truef(t, p.confirmable, "%s", durable)
		}
	}
}

// TestEveryRunHasAPlanAnApplyAndTheirLogs holds NC-09 and NC-10: without the relations
// tofu crashes, and without the addresses of the logs it gives up, whatever the status.
func TestEveryRunHasAPlanAnApplyAndTheirLogs(t *testing.T) {
	s := &server{Deps: Deps{Links: testLinks(t), Address: "https://h"}}
	for _, durable := range runs.Statuses {
		d := runs.Detail{Run: runs.Run{ID: goldRun, PlanID: "plan-1", ApplyID: "apply-1", DurableStatus: durable}}
		text := encoded(t, document{one: newRunView(authz.Actor{}, d, nil)})
		assert.Containsf(t, text, `"plan":{"data":{"type":"plans","id":"plan-1"},`, "%s", durable)
		assert.Containsf(t, text, `"apply":{"data":{"type":"applies","id":"apply-1"},`, "%s", durable)
		assert.Containsf(t, encoded(t, document{one: s.newPlanView(authz.Actor{}, d)}), `"log-read-url":"https://h/`, "%s", durable)
		assert.Containsf(t, encoded(t, document{one: s.newApplyView(authz.Actor{}, d)}), `"log-read-url":"https://h/`, "%s", durable)
	}
}
