package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/state"
)

// Outcome is how an attempt ended as its runner saw it.
type Outcome string

// The outcomes.
const (
	OutcomeFinished Outcome = "finished"  // tofu ended by itself and well
	OutcomeErrored  Outcome = "errored"   // tofu, or what comes before it, failed
	OutcomeCanceled Outcome = "canceled"  // tofu was stopped because somebody canceled
	OutcomeTimedOut Outcome = "timed_out" // tofu was stopped because it ran for too long
	OutcomeUnknown  Outcome = "unknown"   // the runner cannot tell
)

// Done is a runner's report of an ended attempt. The runner claims; what becomes of
// the run is decided here.
type Done struct {
	Outcome      Outcome
	ExitCode     int
	TofuStarted  bool // of an apply: tofu apply may have changed things
	TofuVersion  string
	TofuDigest   string
	Message      string
	Reason       FailureReason `json:",omitempty"` // of an errored attempt; left out of the digest where older runners have none
	Plan         *PlanSummary
	Cost         *CostReport      `json:",omitempty"` // as Reason
	Confirmed    ids.StateVersion // the version that ConfirmState proved
	ErroredState bool             // tofu left state that it could not publish

	GeneratedConfig bool // the redacted plan has configuration that tofu wrote; a failed plan may have some, too
	LogSize         int64
	JSONLogSize     int64 // of the log of events
	LogTruncated    bool  `json:",omitempty"` // something was left out of a log; as Reason
}

// PlanSummary counts what a plan would do.
type PlanSummary struct {
	HasChanges                                bool
	Additions, Changes, Destructions, Imports int
}

func (d Done) digest() (string, error) {
	encoded, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:]), nil
}

// Done is the only writer of an attempt's outcome (RL-38). In one transaction it
// ends the attempt, steps the run, settles the fence and promotes the next run
// (RL-39). The exact repeat is accepted; another report is a Conflict (RP-20).
func (s *Service) Done(ctx context.Context, attempt ids.Attempt, d Done) error {
	digest, err := d.digest()
	if err != nil {
		return err
	}
	var late error
	err = postgres.InTx(ctx, s.db, "runs.done", func(tx postgres.Tx) error {
		if err := postgres.PlanOnce(ctx, tx); err != nil {
			return err
		}
		a, r, err := lockAttempt(ctx, tx, attempt)
		if err != nil {
			return err
		}
		if a.DoneDigest == digest {
			return nil
		}
		if a.Status == dispatch.Lost {
			late, err = keepLate(ctx, tx, a, d, digest)
			return err
		}
		if a.Status != dispatch.Running {
			return fault.New(fault.Conflict, "attempt_ended", "Attempt %s has ended as %s, and its result does not change.", a.ID, a.Status)
		}
		if d.LogSize != a.LogSize || d.JSONLogSize != a.JSONLogSize {
			return fault.New(fault.Conflict, "log_incomplete", "The server has %d bytes of the human log and %d of the events, not %d and %d. Send the rest, then report again.",
				a.LogSize, a.JSONLogSize, d.LogSize, d.JSONLogSize)
		}
		end := dispatch.End{Status: dispatch.Finished, Outcome: string(d.Outcome), ExitCode: &d.ExitCode, DoneDigest: digest, ErroredState: &d.ErroredState, LogTruncated: d.LogTruncated}
		if err := dispatch.Finish(ctx, tx, a, end); err != nil {
			return err
		}
		switch {
		case r.DurableStatus.Final():
			return nil // it was ended while the runner worked: its workspace was deleted
		case a.Phase == authz.Plan:
			return s.planDone(ctx, tx, &r, a, d)
		default:
			return s.applyDone(ctx, tx, &r, a, d)
		}
	})
	if err == nil {
		err = late
	}
	return err
}

// planDone ends the plan phase. Of a finished plan the evidence and the policy check become
// visible together and, where no policy set is in scope, the wait for approval as well
// (PO-01, §3.3, amendment 1).
func (s *Service) planDone(ctx context.Context, tx postgres.Tx, r *Run, a dispatch.Attempt, d Done) error {
	actor := runnerActor(a)
	switch d.Outcome {
	case OutcomeFinished:
	case OutcomeCanceled:
		if r.CancelRequestedAt == nil {
			return step(ctx, tx, r, move{To: PlanFailed, Actor: actor, Reason: "runner_stopped", Message: "The runner was stopped while it planned. Start a new run."})
		}
		return step(ctx, tx, r, move{To: Canceled, Actor: actor, Message: d.Message})
	case OutcomeTimedOut:
		return step(ctx, tx, r, move{To: PlanFailed, Actor: actor, Reason: "RUN_TTL_EXCEEDED", Message: "The plan ran for too long and was stopped."})
	default:
		if err := s.keepGenerated(ctx, tx, *r, a, d); err != nil {
			return err
		}
		return failPlan(ctx, tx, r, actor, d)
	}
	if d.Plan != nil && (d.ExitCode != 0 && d.ExitCode != 2 || (d.ExitCode == 2) != d.Plan.HasChanges) {
		return step(ctx, tx, r, move{
			To: PlanFailed, Actor: actor, Reason: "report_contradicts_itself",
			Message: fmt.Sprintf("The runner reported a finished plan with exit code %d, which does not fit what it says about changes.", d.ExitCode),
		})
	}
	handed, err := dispatch.Artifacts(ctx, tx, a.ID)
	if err != nil {
		return err
	}
	if missing := r.missing(handed, d); missing != "" {
		return step(ctx, tx, r, move{To: PlanFailed, Actor: actor, Reason: "plan_evidence_missing", Message: "The runner reported a finished plan without its " + missing + "."})
	}
	if err := keepCost(ctx, tx, r, handed, d); err != nil {
		return err
	}
	if err := s.completePlan(ctx, tx, r, actor, handed, d); err != nil {
		return err
	}
	if r.PolicySets == 0 && r.TaskStage(runtasks.PostPlan) == "" {
		return s.passAtOnce(ctx, tx, r, handed[artifacts.KindPlanJSON].SHA256)
	}
	if err := s.reservePolicyCheck(ctx, tx, *r); err != nil {
		return err
	}
	if r.CancelRequestedAt == nil {
		if wait, err := awaitTasks(ctx, tx, r, runtasks.PostPlan); err != nil || wait {
			return err
		}
	}
	return s.judge(ctx, tx, r)
}

// judge lets policies decide about a finished plan, after its run tasks.
func (s *Service) judge(ctx context.Context, tx postgres.Tx, r *Run) error {
	if r.PolicySets > 0 { // an evaluator takes it from here
		return postgres.Notify(ctx, tx, PolicyChannel, "")
	}
	return s.passPolicy(ctx, tx, r)
}

// keepGenerated keeps, of a plan that failed, the document with the configuration that
// tofu wrote before it did: whoever imports goes on from there.
func (s *Service) keepGenerated(ctx context.Context, tx postgres.Tx, r Run, a dispatch.Attempt, d Done) error {
	if !d.GeneratedConfig || !r.GenerateConfig {
		return nil
	}
	art, found, err := dispatch.HandedOver(ctx, tx, a.ID, string(artifacts.KindPlanJSONRedacted))
	if err != nil || !found {
		return err
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("GeneratedConfig"), postgres.Args{"id": r.ID, "plan_json_redacted_object_id": art.ObjectID})
	return err
}

// missing names what a finished plan must have and the runner did not hand over.
func (r Run) missing(handed map[artifacts.Kind]dispatch.Artifact, d Done) string {
	has := func(kind artifacts.Kind) bool { return handed[kind].ObjectID != "" }
	switch {
	case d.Plan == nil || d.TofuDigest == "":
		return "summary"
	case !has(artifacts.KindPlanJSON):
		return string(artifacts.KindPlanJSON)
	case r.StructuredOutput && !has(artifacts.KindPlanJSONRedacted):
		return string(artifacts.KindPlanJSONRedacted)
	case !r.PlanOnly && !has(artifacts.KindPlan):
		return string(artifacts.KindPlan)
	}
	return ""
}

// completePlan ends the planning of a run and stores with that step what the plan is, once
// (RL-15).
func (s *Service) completePlan(ctx context.Context, tx postgres.Tx, r *Run, actor authz.Actor, handed map[artifacts.Kind]dispatch.Artifact, d Done) error {
	r.HasChanges, r.ResourceAdditions, r.ResourceChanges, r.ResourceDestructions, r.ResourceImports = &d.Plan.HasChanges, d.Plan.Additions, d.Plan.Changes, d.Plan.Destructions, d.Plan.Imports
	r.PlanObjectID, r.PlanJSONObjectID = handed[artifacts.KindPlan].ObjectID, handed[artifacts.KindPlanJSON].ObjectID
	r.PlanJSONRedactedObject, r.LockFileObjectID = handed[artifacts.KindPlanJSONRedacted].ObjectID, handed[artifacts.KindLockFile].ObjectID
	r.GeneratedConfig, r.PlanTofuVersion, r.PlanTofuDigest = d.GeneratedConfig && r.PlanJSONRedactedObject != "", d.TofuVersion, d.TofuDigest
	note, err := s.planNote(ctx, tx, *r, d.Plan.HasChanges)
	if err != nil {
		return err
	}
	r.PlanNote = note
	return step(ctx, tx, r, move{To: PlanComplete, Actor: actor, query: "StepToPlanComplete", also: postgres.Args{
		"note": note, "has_changes": r.HasChanges, "additions": r.ResourceAdditions, "changes": r.ResourceChanges, "destructions": r.ResourceDestructions, "imports": r.ResourceImports,
		"plan_object_id": r.PlanObjectID, "plan_json_object_id": r.PlanJSONObjectID, "lock_file_object_id": r.LockFileObjectID,
		"plan_json_redacted_object_id": r.PlanJSONRedactedObject, "generated_config": r.GeneratedConfig,
		"tofu_version": r.PlanTofuVersion, "tofu_digest": r.PlanTofuDigest,
	}})
}

// awaitApproval ends a run that has nothing to apply, or opens the wait for a
// decision, which may be there at once.
func (s *Service) awaitApproval(ctx context.Context, tx postgres.Tx, r *Run) error {
	system := authz.System()
	if r.endsPlanned() || !*r.HasChanges {
		reason := ""
		if !r.endsPlanned() {
			reason = "no_changes"
		}
		return s.finish(ctx, tx, r, move{To: Succeeded, Actor: system, Reason: reason})
	}
	if err := s.pinRule(ctx, tx, *r); err != nil {
		return err
	}
	err := step(ctx, tx, r, move{To: AwaitingApproval, Actor: system})
	if err == nil {
		*r, err = load(ctx, tx, r.ID)
	}
	if err != nil {
		return err
	}
	if r.CancelRequestedAt != nil {
		return step(ctx, tx, r, move{To: Canceled, Actor: system, Reason: "canceled_before_apply", Message: "It was canceled while it planned, so it is not applied."})
	}
	return s.decideAtOnce(ctx, tx, r)
}

// applyDone ends the apply phase by amendments 20 and 21.
func (s *Service) applyDone(ctx context.Context, tx postgres.Tx, r *Run, a dispatch.Attempt, d Done) error {
	if r.DurableStatus == AwaitingApproval {
		return s.neverStarted(ctx, tx, r, a, d)
	}
	actor := runnerActor(a)
	switch d.Outcome {
	case OutcomeFinished:
		if !d.TofuStarted || d.ExitCode != 0 || d.ErroredState {
			return step(ctx, tx, r, move{
				To: NeedsRecovery, Actor: actor, Reason: "report_contradicts_itself",
				Message: "The runner reported success with a failed exit code, without having started tofu, or with state left unpublished.",
			})
		}
		return s.succeed(ctx, tx, r, a, d)
	case OutcomeErrored:
		trace, err := s.trace(ctx, tx, *r, a, d.ErroredState)
		if err != nil {
			return err
		}
		if !d.TofuStarted && trace == "" {
			return step(ctx, tx, r, move{To: ApplyFailed, Actor: actor, Reason: d.Reason.or("apply_not_started"), Message: d.Message})
		}
		return step(ctx, tx, r, move{To: ApplyFailed, Actor: actor, Reason: "apply_failed", Message: join(d.Message, trace), Hold: trace != ""})
	case OutcomeCanceled:
		return step(ctx, tx, r, move{To: ApplyInterrupted, Actor: actor, Reason: "apply_interrupted", Message: join("The apply was interrupted.", d.Message)})
	case OutcomeTimedOut:
		return step(ctx, tx, r, move{To: NeedsRecovery, Actor: actor, Reason: "RUN_TTL_EXCEEDED", Message: "The apply ran for too long and was stopped."})
	default:
		if !d.TofuStarted {
			return step(ctx, tx, r, move{To: ApplyStartUncertain, Actor: actor, Reason: "apply_start_uncertain", Message: join("The runner does not know whether tofu started.", d.Message)})
		}
		return step(ctx, tx, r, move{To: NeedsRecovery, Actor: actor, Reason: "outcome_unknown", Message: join("The runner does not know what tofu did.", d.Message)})
	}
}

func join(a, b string) string { return strings.TrimSpace(a + " " + b) }

// neverStarted ends an apply whose authority was never redeemed: nothing can have
// been written, unless the runner, or what it sent, says otherwise. Where it was
// refused because a fact had moved, that is the run's end (G-39).
func (s *Service) neverStarted(ctx context.Context, tx postgres.Tx, r *Run, a dispatch.Attempt, d Done) error {
	now, err := s.facts(ctx, tx, *r)
	if err != nil {
		return err
	}
	stale := approvals.Check(ctx, tx, r.ID, now)
	if stale != nil && !fault.HasCode(stale, "APPROVAL_BINDING_STALE") {
		return stale
	}
	announced, err := announcements(ctx, tx, a)
	if err != nil {
		return err
	}
	m := move{To: ApplyFailed, Actor: runnerActor(a), Reason: d.Reason.or("apply_not_started"), Message: d.Message}
	switch {
	case d.TofuStarted || d.ErroredState || announced > 0:
		m.Reason, m.Message, m.Hold = "apply_unauthorized", "The runner started tofu without authority, so the workspace is held until an operator has looked at it.", true
	case r.CancelRequestedAt != nil:
		m.To, m.Reason = Canceled, ""
	case stale != nil:
		m.To, m.Reason, m.Message = Canceled, "APPROVAL_BINDING_STALE", stale.Error()
	case a.StartDeniedAt != nil:
		return nil // a gate closed before it could start: it stays approved (AU-03)
	}
	return step(ctx, tx, r, m)
}

// trace says in words what an apply left behind that needs an operator; "" means:
// nothing was published, sent or is being uploaded, and nothing waits in a file.
func (s *Service) trace(ctx context.Context, tx postgres.Tx, r Run, a dispatch.Attempt, erroredState bool) (string, error) {
	current, err := state.CurrentID(ctx, tx, r.WorkspaceID)
	if err != nil {
		return "", err
	}
	announced, err := announcements(ctx, tx, a)
	if err != nil {
		return "", err
	}
	var left string
	switch {
	case current != r.PredecessorVersionID:
		left = "has published state"
	case announced > 0:
		left = "has begun to send state that did not become current"
	case erroredState:
		left = "left state that it could not publish (errored.tfstate on the runner)"
	default:
		return "", nil
	}
	return "The failed apply " + left + ", so the workspace is held until an operator has looked at it.", nil
}

// announcements counts the state versions that an attempt announced.
func announcements(ctx context.Context, tx postgres.Tx, a dispatch.Attempt) (int, error) {
	return postgres.Value[int](ctx, tx, Queries.Get("Announced"), postgres.Args{"attempt_id": a.ID})
}

// succeed commits a run whose state is proved once more in this transaction
// (ST-04); without the proof nothing is called success (ST-05).
func (s *Service) succeed(ctx context.Context, tx postgres.Tx, r *Run, a dispatch.Attempt, d Done) error {
	v, err := s.prove(ctx, tx, *r, a)
	if err == nil && (a.StateConfirmedID == "" || v.ID != a.StateConfirmedID || v.ID != d.Confirmed) {
		err = fault.New(fault.Conflict, "state_unconfirmed", "The state was not confirmed.")
	}
	if err != nil {
		if !fault.Is(err, fault.Conflict) {
			return err
		}
		return step(ctx, tx, r, move{
			To: NeedsRecovery, Actor: runnerActor(a), Reason: "state_unconfirmed",
			Message: join("tofu apply ended well, but its state could not be proved:", err.Error()),
		})
	}
	if err := noteApplied(ctx, tx, *r); err != nil {
		return err
	}
	if v.ID == r.PredecessorVersionID {
		return s.finish(ctx, tx, r, move{To: Succeeded, Actor: runnerActor(a), Reason: "state_unchanged"})
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("ResultingVersion"), postgres.Args{"id": r.ID, "version_id": v.ID}); err != nil {
		return err
	}
	return s.finish(ctx, tx, r, move{To: Succeeded, Actor: runnerActor(a)})
}

// ConfirmState proves, after exit 0, that the current state is the one this attempt
// published (ST-03), and notes it.
func (s *Service) ConfirmState(ctx context.Context, actor authz.Actor, sandbox string) (v state.Version, err error) {
	err = postgres.InTx(ctx, s.db, "runs.confirm-state", func(tx postgres.Tx) error {
		a, r, err := lockAttempt(ctx, tx, actor.Attempt)
		if err != nil {
			return err
		}
		if a.Phase != authz.Apply || a.SandboxID != sandbox {
			return fault.New(fault.Forbidden, "capability_mismatch", "This session is not for applying, or not from this sandbox.")
		}
		if r.DurableStatus != Applying {
			return fault.New(fault.Conflict, "not_applying", "%s is %s and has no state to confirm.", r.ID, r.DurableStatus)
		}
		if v, err = s.prove(ctx, tx, r, a); err != nil {
			return err
		}
		return dispatch.ConfirmState(ctx, tx, a.ID, v.ID)
	})
	return v, err
}

// prove compares the seven fields: run, attempt, sandbox, predecessor, lock, fence
// and checksum of the current state. tofu publishes nothing when an apply leaves the
// state as it was (a file was made again, say): then the predecessor itself is the
// proof, as long as it is still current, the fence is still the run's, and the
// attempt never announced anything else (docs/decisions/0004).
// Conflict "state_unproven" names the first thing that differs.
func (s *Service) prove(ctx context.Context, tx postgres.Tx, r Run, a dispatch.Attempt) (state.Version, error) {
	unproven := func(text string, args ...any) error {
		return fault.New(fault.Conflict, "state_unproven", text, args...)
	}
	current, err := state.CurrentID(ctx, tx, r.WorkspaceID)
	if err != nil {
		return state.Version{}, err
	}
	if current == "" {
		return state.Version{}, unproven("the apply published no state.")
	}
	v, err := s.state.Row(ctx, tx, current)
	if err != nil {
		return v, err
	}
	if a.FenceEpoch == nil {
		return v, unproven("the attempt has no lock.")
	}
	switch unchanged := v.ID == r.PredecessorVersionID; {
	case unchanged && *r.FenceEpoch == *a.FenceEpoch:
		announced, err := announcements(ctx, tx, a)
		if err != nil {
			return v, err
		}
		if announced > 0 {
			return v, unproven("the apply announced state that did not become current.")
		}
	case v.Run != r.ID:
		return v, unproven("the current state %s belongs to another run.", v.ID)
	case v.Attempt != a.ID:
		return v, unproven("the current state %s belongs to another attempt.", v.ID)
	case v.Sandbox != a.SandboxID:
		return v, unproven("the current state %s was published from another sandbox.", v.ID)
	case v.Epoch != *a.FenceEpoch || *r.FenceEpoch != *a.FenceEpoch:
		return v, unproven("the current state %s was published under another fence.", v.ID)
	}
	if _, err := fence.Guard(ctx, tx, r.token()); err != nil {
		return v, unproven("the run no longer holds the workspace.")
	}
	stored, err := s.state.Stored(ctx, tx, v)
	if err != nil {
		return v, err
	}
	if stored.SHA256 != v.SHA256 || stored.Size != v.Size {
		return v, unproven("the stored bytes of %s have another checksum.", v.ID)
	}
	if v.ID == r.PredecessorVersionID {
		return v, nil
	}
	length, err := postgres.Value[*int](ctx, tx, Queries.Get("PublicationChain"), postgres.Args{
		"version_id": v.ID, "attempt_id": a.ID, "sandbox_id": a.SandboxID, "epoch": *a.FenceEpoch, "predecessor_version_id": r.PredecessorVersionID,
	})
	if err != nil {
		return v, err
	}
	if length == nil {
		return v, unproven("the publications of this apply do not lead back to the state that was planned on.")
	}
	return v, nil
}
