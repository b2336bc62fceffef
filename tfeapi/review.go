package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// reviewView is what was recorded about a run, in one document. It is an allow-list:
// what is not named here is not shown, and nothing here leads to bytes (PV-14).
type reviewView struct {
	ID                  string         `jsonapi:"primary,run-reviews"`
	WorkflowInstanceID  string         `jsonapi:"attr,workflow-instance-id"`
	WorkflowDefinition  string         `jsonapi:"attr,workflow-definition"`
	ApplicationBuildSHA string         `jsonapi:"attr,application-build-sha"`
	Operation           string         `jsonapi:"attr,operation"`
	Status              string         `jsonapi:"attr,status"`
	DisplayLabel        string         `jsonapi:"attr,display-label"`
	DurableStatus       string         `jsonapi:"attr,durable-status"`
	IntentStatus        string         `jsonapi:"attr,intent-status"`
	DeploymentStatus    string         `jsonapi:"attr,deployment-status"`
	DurableReason       string         `jsonapi:"attr,durable-reason"`
	Reason              string         `jsonapi:"attr,reason"` // the same, shorter
	StatusMessage       string         `jsonapi:"attr,status-message"`
	WaitingReason       *string        `jsonapi:"attr,waiting-reason"`
	DurableHistory      []historyEntry `jsonapi:"attr,durable-history"`
	TerraformVersion    string         `jsonapi:"attr,terraform-version"`
	CreatedAt           time.Time      `jsonapi:"attr,created-at,iso8601"`
	ApprovalExpiresAt   *time.Time     `jsonapi:"attr,approval-expires-at,iso8601"`
	CancelRequestedAt   *time.Time     `jsonapi:"attr,cancel-requested-at,iso8601"`
	FinishedAt          *time.Time     `jsonapi:"attr,finished-at,iso8601"`
	Fence               *runFence      `jsonapi:"attr,fence"`
	Plan                planRecord     `jsonapi:"attr,plan"`
	PolicyCheck         *policyRecord  `jsonapi:"attr,policy-check"`
	Approvals           []decision     `jsonapi:"attr,approvals"`
	// ApprovalRequirement is null for a run whose plan has not come to a decision.
	ApprovalRequirement *requirementView `jsonapi:"attr,approval-requirement"`
	ApprovalWaits       []waitView       `jsonapi:"attr,approval-waits"`
	Apply               applyRecord      `jsonapi:"attr,apply"`
	// SourceProvenance is null: no run comes from an ingestion of sources (PV-13).
	SourceProvenance *struct{}        `jsonapi:"attr,source-provenance"`
	Recovery         *recoverySummary `jsonapi:"attr,recovery,omitempty"`
	related          relations
}

func (v *reviewView) relations() relations { return v.related }

// planRecord is the plan as evidence. The counts are null until it is stored.
type planRecord struct {
	ID                   string  `json:"id"`
	Status               string  `json:"status"`
	HasChanges           *bool   `json:"has-changes"`
	ResourceAdditions    *int    `json:"resource-additions"`
	ResourceChanges      *int    `json:"resource-changes"`
	ResourceDestructions *int    `json:"resource-destructions"`
	ResourceImports      *int    `json:"resource-imports"`
	TofuVersion          string  `json:"tofu-version"`
	TofuDigest           string  `json:"tofu-digest"`
	FinishedAt           *string `json:"finished-at"`
}

type policyRecord struct {
	ID            string  `json:"id"`
	DurableStatus string  `json:"durable-status"`
	InputDigest   string  `json:"input-digest"`
	ResultDigest  string  `json:"result-digest"`
	CompletedAt   *string `json:"completed-at"`
}

type decision struct {
	ID          string `json:"id"`
	ReviewerID  string `json:"reviewer-id"` // empty: the policy
	RequesterID string `json:"requester-id"`
	Decision    string `json:"decision"`
	Source      string `json:"source"`
	Comment     string `json:"comment"`
	DecidedAt   string `json:"decided-at"`

	BindingDigest string `json:"binding-digest"`
}

// applyRecord tells how the apply went; what became of the state stands apart in it,
// because neither follows from the other (ST-14).
type applyRecord struct {
	ID             string         `json:"id"`
	Status         string         `json:"status"`
	QueuedAt       *string        `json:"queued-at"`
	StartedAt      *string        `json:"started-at"`
	ClosedAt       *string        `json:"closed-at"`
	ResultingState resultingState `json:"resulting-state"`
}

// resultingState has its other members only where it is recorded (ST-10…ST-13).
type resultingState struct {
	Status string `json:"status"`
	*stateSummary
}

type stateSummary struct {
	ID        string `json:"id"`
	Checksum  string `json:"checksum"` // SHA-256 in hex of the file
	Serial    int64  `json:"serial"`
	CreatedAt string `json:"created-at"`
}

// recoverySummary is for those who may recover the run (G-31).
type recoverySummary struct {
	Required      bool          `json:"required"`
	RecoveredAt   *string       `json:"recovered-at"`
	HeldSince     *string       `json:"held-since"` // this and the rest are null unless a recovery is required
	PreApplyState *stateSummary `json:"pre-apply-state"`
	CurrentState  *stateSummary `json:"current-state"`
	Publications  *int          `json:"publications"`
	OpenUploads   *int          `json:"open-uploads"`

	ClaimedUpload         *uploadEvidence    `json:"claimed-upload"`
	EmergencyState        *emergencyEvidence `json:"emergency-state"`
	LeaseExpiresAt        *string            `json:"lease-expires-at"` // of a recovery that is prepared
	LeaseRemainingSeconds *int               `json:"lease-remaining-seconds"`
}

type historyEntry struct {
	Status string `json:"status"`
	Reason string `json:"reason"`
	At     string `json:"at"`
}

// durableHistory is every durable status of the run in order, the first included (RL-06).
func durableHistory(d runs.Detail) []historyEntry {
	entries := []historyEntry{{Status: string(runs.DispatchPending), At: rfc3339(d.CreatedAt)}}
	for _, step := range d.History {
		entries = append(entries, historyEntry{Status: string(step.ToStatus), Reason: step.Reason, At: rfc3339(step.At)})
	}
	return entries
}

// orNull is null for an empty text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func stamp(at *time.Time) *string {
	if at == nil {
		return nil
	}
	text := rfc3339(*at)
	return &text
}

func newReviewView(actor authz.Actor, v runs.Review, held *recoverySummary) *reviewView {
	r, p := v.Run, project(factsOf(actor, v.Run))
	view := &reviewView{
		ID: string(r.ID), WorkflowInstanceID: string(r.ID), WorkflowDefinition: r.WorkflowDefinition, ApplicationBuildSHA: r.ApplicationBuildSHA,
		Operation: string(r.Operation), Status: p.run, DisplayLabel: r.Label(), DurableStatus: string(r.DurableStatus),
		IntentStatus: string(r.IntentStatus()), DeploymentStatus: r.DeploymentStatus(), DurableReason: r.DurableReason, Reason: r.DurableReason,
		StatusMessage: r.StatusMessage, WaitingReason: orNull(r.WaitsFor()), DurableHistory: durableHistory(v.Detail), TerraformVersion: r.TerraformVersion,
		CreatedAt: r.CreatedAt, ApprovalExpiresAt: r.ApprovalExpiresAt, CancelRequestedAt: r.CancelRequestedAt, FinishedAt: r.FinishedAt,
		Fence: newRunFence(r), Plan: newPlanRecord(r, p), Approvals: newDecisions(v.Approvals),
		ApprovalRequirement: newRequirementView(v.Requirement), ApprovalWaits: newWaitViews(v.Waits),
		Apply:    applyRecord{ID: string(r.ApplyID), Status: p.apply, QueuedAt: stamp(r.ConfirmedAt), StartedAt: stamp(cameTo(v.Detail, runs.Applying)), ClosedAt: stamp(applyClosedAt(r)), ResultingState: newResultingState(v.Resulting)},
		Recovery: held,
		related: relations{
			"run": ref{"runs", string(r.ID)}, "workspace": ref{"workspaces", string(r.WorkspaceID)}, "created-by": ref{"users", string(r.CreatedBy)},
			"configuration-version": ref{"configuration-versions", string(r.ConfigurationVersionID)},
			"stages":                stageRefs(v.Stages), "attempts": attemptRefs(v.Attempts), "receipts": receiptRefs(v.Receipts),
		},
	}
	if c := v.Policy; c != nil {
		view.PolicyCheck = &policyRecord{ID: c.ID, DurableStatus: string(c.DurableStatus), InputDigest: c.InputDigest, ResultDigest: c.ResultDigest, CompletedAt: stamp(c.CompletedAt)}
	}
	return view
}

func newPlanRecord(r runs.Run, p projection) planRecord {
	record := planRecord{ID: string(r.PlanID), Status: p.plan, HasChanges: r.HasChanges, TofuVersion: r.PlanTofuVersion, TofuDigest: r.PlanTofuDigest, FinishedAt: stamp(r.PlanFinishedAt)}
	if r.HasChanges != nil {
		record.ResourceAdditions, record.ResourceChanges = &r.ResourceAdditions, &r.ResourceChanges
		record.ResourceDestructions, record.ResourceImports = &r.ResourceDestructions, &r.ResourceImports
	}
	return record
}

func newDecisions(entries []approvals.Entry) []decision {
	list := make([]decision, 0, len(entries))
	for _, e := range entries {
		list = append(list, decision{
			ID: string(e.ID), BindingDigest: e.BindingDigest, ReviewerID: string(e.ReviewerID), RequesterID: string(e.RequesterID), Decision: string(e.Decision), Source: string(e.Source),
			Comment: e.Comment, DecidedAt: rfc3339(e.DecidedAt),
		})
	}
	return list
}

func newResultingState(s runs.ResultingState) resultingState {
	return resultingState{Status: string(s.Status), stateSummary: newStateSummary(s.Version)}
}

func newStateSummary(v *state.Version) *stateSummary {
	if v == nil {
		return nil
	}
	return &stateSummary{ID: string(v.ID), Checksum: v.SHA256, Serial: v.Serial, CreatedAt: rfc3339(v.CreatedAt)}
}

// cameTo is when the run last came to a status; nil when it never did.
func cameTo(d runs.Detail, status runs.Status) (at *time.Time) {
	for i, step := range d.History {
		if step.ToStatus == status {
			at = &d.History[i].At
		}
	}
	return at
}

// applyClosedAt is since when nothing becomes of the apply any more, also of one that
// never began (RL-10).
func applyClosedAt(r runs.Run) *time.Time {
	if !r.DurableStatus.Final() {
		return nil
	}
	return r.FinishedAt
}

// readReview gives everything that was recorded about a run.
func (s *server) readReview(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Runs.Review(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	var held *recoverySummary
	if authz.Can(r.actor, authz.RunRecover, v.Object()) {
		if held, err = s.recoverySummary(r, v.Run); err != nil {
			return answer{}, err
		}
	}
	return ok(newReviewView(r.actor, v, held)), nil
}

func (s *server) recoverySummary(r *request, run runs.Run) (*recoverySummary, error) {
	summary := &recoverySummary{RecoveredAt: stamp(run.RecoveredAt)}
	report, err := s.Recovery.Inspect(r.ctx, run.ID)
	if fault.HasCode(err, "not_held") {
		return summary, nil
	}
	if err != nil {
		return nil, err
	}
	held := heldSummary(report)
	e, err := s.Recovery.Evidence(r.ctx, r.actor, run.ID)
	switch {
	case fault.HasCode(err, "not_held"), fault.HasCode(err, "authority_lost"): // what the report says is all
		return held, nil
	case err != nil:
		return nil, err
	}
	v := newRecoveryView(e)
	held.ClaimedUpload, held.EmergencyState, held.LeaseExpiresAt, held.LeaseRemainingSeconds = v.ClaimedUpload, v.EmergencyState, v.LeaseExpiresAt, v.LeaseRemainingSeconds
	return held, nil
}

func heldSummary(report recovery.Report) *recoverySummary {
	return &recoverySummary{
		Required: true, HeldSince: stamp(&report.HeldSince), PreApplyState: newStateSummary(report.Before), CurrentState: newStateSummary(report.Now),
		Publications: &report.Publication, OpenUploads: &report.OpenUploads,
	}
}
