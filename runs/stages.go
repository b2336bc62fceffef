package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// StageKind is what a stage is about.
type StageKind string

// The kinds, in the order in which a run comes to them.
const (
	PlanStage     StageKind = "plan"
	PolicyStage   StageKind = "policy"
	ApprovalStage StageKind = "approval"
	ApplyStage    StageKind = "apply"
)

// StageStatus is how far a stage has come, or how it ended.
type StageStatus string

// The statuses.
const (
	StagePending   StageStatus = "pending"
	StageRunning   StageStatus = "running"
	StageSucceeded StageStatus = "succeeded" // of an approval: approved
	StageFailed    StageStatus = "failed"
	StageCanceled  StageStatus = "canceled"
	StageRejected  StageStatus = "rejected"  // of an approval
	StageExpired   StageStatus = "expired"   // of an approval
	StageUncertain StageStatus = "uncertain" // of an apply: nobody can prove what it did
	StageSkipped   StageStatus = "skipped"   // there was nothing to do
)

// Stage is one step of a run as people see it, kept as a row from the moment the run
// comes to it (RL-32, RL-33).
type Stage struct {
	ID         ids.Stage
	RunID      ids.Run
	Position   int // counts from 0
	Kind       StageKind
	Status     StageStatus
	AttemptID  ids.Attempt // what executes it; empty where no runner is asked
	CreatedAt  time.Time
	StartedAt  *time.Time
	FinishedAt *time.Time
}

// stageRule says what the arrival at a durable status does to the run's stages.
type stageRule struct {
	ends   StageStatus // what becomes of the stage at hand, if there is one; empty: it goes on
	opens  StageKind   // the stage that the run comes to
	begins StageKind   // the stage that is worked on from here
}

// stageRules has a rule for every durable status. The apply's stage is opened by the
// confirmation, which is no transition; see stageConfirmed.
var stageRules = map[Status]stageRule{
	DispatchPending:         {},
	Queued:                  {opens: PlanStage},
	Planning:                {begins: PlanStage},
	PlanComplete:            {ends: StageSucceeded},
	PolicyEvaluating:        {opens: PolicyStage, begins: PolicyStage},
	PolicyPassed:            {ends: StageSucceeded},
	AwaitingApproval:        {opens: ApprovalStage},
	Applying:                {begins: ApplyStage},
	Succeeded:               {ends: StageSucceeded},
	PlanCredentialsRequired: {ends: StageFailed},
	PlanFailed:              {ends: StageFailed},
	PolicyFailed:            {ends: StageFailed},
	Rejected:                {ends: StageRejected},
	Expired:                 {ends: StageExpired},
	Canceled:                {ends: StageCanceled},
	ApplyFailed:             {ends: StageFailed},
	ApplyStartUncertain:     {ends: StageUncertain},
	ApplyInterrupted:        {ends: StageCanceled},
	NeedsRecovery:           {ends: StageUncertain},
}

// stepStages moves the stages of a run that has just made a step, in the step's
// transaction. r is the run as it was before.
func stepStages(ctx context.Context, tx postgres.Tx, r Run, m move) error {
	rule := stageRules[m.To]
	if rule.ends != "" {
		unbegun := rule.ends
		if unbegun == StageSucceeded {
			unbegun = StageSkipped // the run ended well without it
		}
		if err := endStage(ctx, tx, r, rule.ends, unbegun, m.Reason); err != nil {
			return err
		}
	}
	if rule.opens != "" && rule.opens != rule.begins {
		if err := insertStage(ctx, tx, r, rule.opens, StagePending); err != nil {
			return err
		}
	}
	switch {
	case rule.begins == "":
	case rule.begins == rule.opens:
		if err := insertStage(ctx, tx, r, rule.begins, StageRunning); err != nil {
			return err
		}
	default:
		if err := beginStage(ctx, tx, r, rule.begins); err != nil {
			return err
		}
	}
	if m.To == Succeeded && r.DurableStatus == PolicyPassed && !r.PlanOnly && r.HasChanges != nil && !*r.HasChanges {
		return skipRest(ctx, tx, r)
	}
	return nil
}

// skipRest shows that a run without changes asks nobody and applies nothing (RL-09).
func skipRest(ctx context.Context, tx postgres.Tx, r Run) error {
	for _, kind := range []StageKind{ApprovalStage, ApplyStage} {
		if err := insertStage(ctx, tx, r, kind, StageSkipped); err != nil {
			return err
		}
	}
	return nil
}

// stageConfirmed ends the approval and opens the apply, which comes only now (RL-33).
func stageConfirmed(ctx context.Context, tx postgres.Tx, r Run) error {
	if err := endStage(ctx, tx, r, StageSucceeded, StageSucceeded, ""); err != nil {
		return err
	}
	return insertStage(ctx, tx, r, ApplyStage, StagePending)
}

// stageExecutedBy notes which attempt executes the open stage of this kind.
func stageExecutedBy(ctx context.Context, tx postgres.Tx, r Run, kind StageKind, attempt ids.Attempt) error {
	return postgres.Later(ctx, tx, Queries.Get("StageAttempt"), postgres.Args{"run_id": r.ID, "kind": string(kind), "attempt_id": attempt}, nil)
}

// endStage ends the stage at hand, as unbegun where nothing has worked on it yet, and
// writes the receipt of what a runner executed.
func endStage(ctx context.Context, tx postgres.Tx, r Run, status, unbegun StageStatus, reason string) error {
	return postgres.Later(ctx, tx, Queries.Get("StageEnd"), postgres.Args{
		"id": ids.New[ids.Receipt](), "run_id": r.ID, "status": string(status), "unbegun": string(unbegun), "reason": reason,
	}, nil)
}

// beginStage marks the open stage as worked on. A run that an older server accepted
// has none, and gets it here.
func beginStage(ctx context.Context, tx postgres.Tx, r Run, kind StageKind) error {
	return postgres.Later(ctx, tx, Queries.Get("StageBegin"), stageArgs(r, kind, StageRunning), nil)
}

func insertStage(ctx context.Context, tx postgres.Tx, r Run, kind StageKind, status StageStatus) error {
	return postgres.Later(ctx, tx, Queries.Get("StageInsert"), stageArgs(r, kind, status), nil)
}

func stageArgs(r Run, kind StageKind, status StageStatus) postgres.Args {
	return postgres.Args{"id": ids.New[ids.Stage](), "organization_id": r.OrganizationID, "run_id": r.ID, "kind": string(kind), "status": string(status)}
}
