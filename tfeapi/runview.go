package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// runView is a run on the wire: its projection for native clients, and the truth
// beside it in durable-status and its neighbours. Actions, plan, apply and
// workspace are on every run from its creation: the client crashes without them.
type runView struct {
	ID                     string            `jsonapi:"primary,runs"`
	Status                 string            `jsonapi:"attr,status"`
	Actions                runActions        `jsonapi:"attr,actions"`
	Permissions            runPermissions    `jsonapi:"attr,permissions"`
	HasChanges             bool              `jsonapi:"attr,has-changes"`
	Message                string            `jsonapi:"attr,message"`
	Source                 string            `jsonapi:"attr,source"`
	TriggerReason          string            `jsonapi:"attr,trigger-reason"`
	CreatedAt              time.Time         `jsonapi:"attr,created-at,iso8601"`
	CanceledAt             *time.Time        `jsonapi:"attr,canceled-at,iso8601"`
	ForceCancelAvailableAt *time.Time        `jsonapi:"attr,force-cancel-available-at,iso8601,omitempty"`
	StatusTimestamps       map[string]string `jsonapi:"attr,status-timestamps"`
	PositionInQueue        int               `jsonapi:"attr,position-in-queue"`
	PlanOnly               bool              `jsonapi:"attr,plan-only"`
	SavePlan               bool              `jsonapi:"attr,save-plan"`
	IsDestroy              bool              `jsonapi:"attr,is-destroy"`
	Refresh                bool              `jsonapi:"attr,refresh"`
	RefreshOnly            bool              `jsonapi:"attr,refresh-only"`
	AutoApply              bool              `jsonapi:"attr,auto-apply"`
	AllowEmptyApply        bool              `jsonapi:"attr,allow-empty-apply"`
	TargetAddrs            []string          `jsonapi:"attr,target-addrs"`
	ReplaceAddrs           []string          `jsonapi:"attr,replace-addrs"`
	AllowConfigGeneration  bool              `jsonapi:"attr,allow-config-generation"`
	TerraformVersion       string            `jsonapi:"attr,terraform-version"`
	Variables              []runVariable     `jsonapi:"attr,variables"`

	DurableStatus     string     `jsonapi:"attr,durable-status"`
	DurableReason     string     `jsonapi:"attr,durable-reason"`
	StatusMessage     string     `jsonapi:"attr,status-message"`
	ApprovalExpiresAt *time.Time `jsonapi:"attr,approval-expires-at,iso8601"`
	ApprovalsRequired int        `jsonapi:"attr,approvals-required"`
	ApprovalsGiven    int        `jsonapi:"attr,approvals-given"`
	RecoveredAt       *time.Time `jsonapi:"attr,recovered-at,iso8601"`
	Fence             *runFence  `jsonapi:"attr,fence"`

	WorkflowInstanceID  string         `jsonapi:"attr,workflow-instance-id"`
	WorkflowDefinition  string         `jsonapi:"attr,workflow-definition"`
	ApplicationBuildSHA string         `jsonapi:"attr,application-build-sha"`
	Operation           string         `jsonapi:"attr,operation"`
	IntentStatus        string         `jsonapi:"attr,intent-status"`
	DisplayLabel        string         `jsonapi:"attr,display-label"`
	WaitingReason       *string        `jsonapi:"attr,waiting-reason"`
	DurableHistory      []historyEntry `jsonapi:"attr,durable-history"`
	related             relations
}

type runActions struct {
	IsCancelable      bool `json:"is-cancelable"`
	IsConfirmable     bool `json:"is-confirmable"`
	IsDiscardable     bool `json:"is-discardable"`
	IsForceCancelable bool `json:"is-force-cancelable"`
}

type runPermissions struct {
	CanApply        bool `json:"can-apply"`
	CanCancel       bool `json:"can-cancel"`
	CanComment      bool `json:"can-comment"`
	CanDiscard      bool `json:"can-discard"`
	CanForceCancel  bool `json:"can-force-cancel"`
	CanForceExecute bool `json:"can-force-execute"`
	CanOverride     bool `json:"can-override-policy-check"`
}

// runFence is the hold a run has, or had, on its workspace.
type runFence struct {
	Epoch    int64 `json:"epoch"`
	Released bool  `json:"released"`
}

type runVariable struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

func (v *runView) relations() relations { return v.related }

func newRunView(actor authz.Actor, d runs.Detail, variables []runs.Variable) *runView {
	r, p := d.Run, project(factsOf(actor, d.Run))
	mayApply := authz.Can(actor, authz.RunApply, r.Object())
	view := &runView{
		ID: string(r.ID), Status: p.run,
		Actions: runActions{IsCancelable: p.cancelable, IsConfirmable: p.confirmable, IsDiscardable: p.discardable, IsForceCancelable: p.forceCancelable},
		Permissions: runPermissions{
			CanApply: mayApply, CanCancel: runs.MayCancel(actor, r), CanComment: authz.Can(actor, authz.RunQueue, r.Object()), CanDiscard: mayApply, CanForceCancel: authz.Can(actor, authz.RunForceCancel, r.Object()), CanForceExecute: mayApply,
			CanOverride: authz.Can(actor, authz.PoliciesOverride, r.Object()),
		},
		HasChanges: p.plan == "finished" && r.HasChanges != nil && *r.HasChanges,
		Message:    r.Message, Source: r.Source, TriggerReason: triggerReason(r), CreatedAt: r.CreatedAt, CanceledAt: canceledAt(r),
		ForceCancelAvailableAt: r.ForceCancelAvailableAt, StatusTimestamps: runTimestamps(d, p),
		PlanOnly: r.PlanOnly, SavePlan: r.SavePlan, IsDestroy: r.IsDestroy, Refresh: r.Refresh, RefreshOnly: r.RefreshOnly, AutoApply: r.AutoApply,
		AllowEmptyApply: r.AllowEmptyApply, TargetAddrs: list(r.TargetAddrs), ReplaceAddrs: list(r.ReplaceAddrs), AllowConfigGeneration: r.GenerateConfig,
		TerraformVersion: r.TerraformVersion,
		Variables:        make([]runVariable, 0, len(variables)),
		DurableStatus:    string(r.DurableStatus), DurableReason: r.DurableReason, StatusMessage: r.StatusMessage,
		ApprovalExpiresAt: r.ApprovalExpiresAt, ApprovalsRequired: r.ApprovalRule.Settled().Required, ApprovalsGiven: len(r.Approvers), RecoveredAt: r.RecoveredAt, Fence: newRunFence(r),
		WorkflowInstanceID: string(r.ID), WorkflowDefinition: r.WorkflowDefinition, ApplicationBuildSHA: r.ApplicationBuildSHA,
		Operation: string(r.Operation), IntentStatus: string(r.IntentStatus()), DisplayLabel: r.Label(), WaitingReason: orNull(r.WaitsFor()),
		DurableHistory: durableHistory(d),
		related: relations{
			"workspace": ref{"workspaces", string(r.WorkspaceID)}, "plan": ref{"plans", string(r.PlanID)}, "apply": ref{"applies", string(r.ApplyID)},
			"configuration-version": ref{"configuration-versions", string(r.ConfigurationVersionID)}, "created-by": ref{"users", string(r.CreatedBy)},
			"run-events": runEventRefs(d), "cost-estimate": costRef(r), "comments": refs("comments", r.Comments), "confirmed-by": optional("users", r.ConfirmedBy),
			"source-run": runRef(r.SourceRunID), "promoted-runs": runRefs(r.PromotedRuns), "replan-of": runRef(r.ReplanOf),
		},
	}
	if d.PolicySets > 0 {
		view.related["policy-checks"] = []ref{policyCheckRef(r)}
	}
	if len(r.TaskStages) > 0 { // a client that sees none asks for none (amendment 2)
		view.related["task-stages"] = taskStageRefs(r)
	}
	for _, v := range variables {
		view.Variables = append(view.Variables, runVariable{Key: v.Key, Value: v.Value})
	}
	return view
}

// triggerReason says what made the run.
func triggerReason(r runs.Run) string {
	switch r.Source {
	case runs.SourceOfTriggers:
		return "run_trigger"
	case runs.SourceOfSchedules:
		return "schedule"
	}
	return "manual"
}

func newRunFence(r runs.Run) *runFence {
	if r.FenceEpoch == nil {
		return nil
	}
	return &runFence{Epoch: *r.FenceEpoch, Released: r.FenceReleasedAt != nil}
}

// list is a slice that is never null on the wire.
func list(of []string) []string {
	if of == nil {
		return []string{}
	}
	return of
}

// canceledAt is when a person asked for the end of the run.
func canceledAt(r runs.Run) *time.Time {
	if r.CancelRequestedAt == nil && r.DurableStatus == runs.Canceled {
		return r.FinishedAt
	}
	return r.CancelRequestedAt
}

// runRef is the relation to another run, or none.
func runRef(id ids.Run) any {
	if id == "" {
		return nil
	}
	return ref{"runs", string(id)}
}

func runRefs(list []ids.Run) []ref {
	refs := make([]ref, len(list))
	for i, id := range list {
		refs[i] = ref{"runs", string(id)}
	}
	return refs
}

// runTimestamps says when the run came to each status that clients know.
func runTimestamps(d runs.Detail, p projection) map[string]string {
	stamps := map[string]string{"plan-queueable-at": rfc3339(d.CreatedAt)}
	set := func(name string, at *time.Time) {
		if at != nil {
			stamps[name] = rfc3339(*at)
		}
	}
	set("plan-queued-at", d.AdmittedAt)
	set("confirmed-at", d.ConfirmedAt)
	for _, step := range d.ThisRound() {
		switch step.ToStatus {
		case runs.Planning:
			set("planning-at", &step.At)
		case runs.PlanComplete:
			set("planned-at", &step.At)
		case runs.PolicyPassed:
			if d.PolicySets > 0 {
				set("policy-checked-at", &step.At)
			}
		case runs.AwaitingApproval:
			set("planned-at", &step.At)
			if d.SavePlan {
				set("planned-and-saved-at", &step.At)
			}
		case runs.Applying:
			set("applying-at", &step.At)
		}
	}
	if d.DurableStatus.Final() {
		final := map[string]string{
			"applied": "applied-at", "planned_and_finished": "planned-and-finished-at", "discarded": "discarded-at",
			"errored": "errored-at", "canceled": "canceled-at",
		}
		set(final[p.run], d.FinishedAt)
		if d.DurableReason == runs.ForceCanceled {
			set("force-canceled-at", d.FinishedAt)
		}
	}
	return stamps
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
