package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// NewPromotion is what a client asks for. AutoApply nil means: as the workspace is set.
type NewPromotion struct {
	Message   string
	Source    string
	AutoApply *bool
}

// Promote makes a run that applies the plan of another (OP-14). The source stays the
// succeeded plan it is (OP-13); a plan that a native client saved, and that nobody has
// confirmed, ends as that. The new run begins at its approval, which covers the very
// evidence of the source (PL-15, OP-15), and takes the workspace when it is approved.
// The same request made again within a short window is the same run; created is false then.
// Errors: Conflict "not_promotable" when there is no plan that could be applied, when it
// has been promoted already, or when the state has moved since; RecoveryHeld; Locked
// when it is approved at once and somebody has the workspace.
func (s *Service) Promote(ctx context.Context, actor authz.Actor, id ids.Run, n NewPromotion) (d Detail, created bool, err error) {
	err = postgres.InTx(ctx, s.db, "runs.promote", func(tx postgres.Tx) error {
		created = false
		source, w, err := lockToGoOn(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		auto, err := settleAutoApply(actor, w, NewRun{AutoApply: n.AutoApply})
		if err != nil {
			return err
		}
		same, err := s.promotion(ctx, tx, actor, source, n.Message, *auto)
		if err != nil {
			return err
		}
		if same == "" {
			created = true
			if same, err = s.promote(ctx, tx, actor, source, n, *auto); err != nil {
				return err
			}
		}
		d, err = detail(ctx, tx, same)
		return err
	})
	return d, created, err
}

// promotion finds the run that promotes the plan already: the one that the same
// request made a moment ago, or none. Any other is a Conflict.
func (s *Service) promotion(ctx context.Context, tx postgres.Tx, actor authz.Actor, source Run, message string, auto bool) (ids.Run, error) {
	row, err := postgres.One[struct {
		ID   ids.Run
		Same bool
	}](ctx, tx, Queries.Get("PromotionUnderWay"), postgres.Args{
		"from_id": source.ID, "created_by": actor.User, "message": message, "auto_apply": auto, "window_seconds": s.settings.ReplayWindow.Seconds(),
	})
	switch {
	case postgres.NoRow(err):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("look for a promotion of %s: %w", source.ID, err)
	case !row.Same:
		return "", notPromotable("The plan of %s is promoted already: see %s. A plan is applied once.", source.ID, row.ID)
	}
	return row.ID, nil
}

func (s *Service) promote(ctx context.Context, tx postgres.Tx, actor authz.Actor, source Run, n NewPromotion, auto bool) (ids.Run, error) {
	if err := checkMessage(n.Message); err != nil {
		return "", err
	}
	if err := checkPromotable(ctx, tx, source); err != nil {
		return "", err
	}
	id := ids.New[ids.Run]()
	given, snapshot, err := s.resealVariables(ctx, tx, source, id)
	if err != nil {
		return "", err
	}
	rows, err := postgres.Exec(ctx, tx, Queries.Get("RunPromote"), postgres.Args{
		"id": id, "plan_id": ids.New[ids.Plan](), "apply_id": ids.New[ids.Apply](), "from_id": source.ID, "message": n.Message, "source": n.Source, "created_by": actor.User,
		"auto_apply": auto, "run_variables_sealed": given, "variables_sealed": snapshot, "lifetime_seconds": s.settings.ApprovalLifetime.Seconds(),
		"workflow_definition": WorkflowDefinition(), "application_build_sha": s.settings.Build,
	})
	if err != nil || rows != 1 {
		return "", fmt.Errorf("promote %s: %d rows: %w", source.ID, rows, err)
	}
	if source.DurableStatus == AwaitingApproval {
		done := move{To: Succeeded, Actor: actor, Reason: "PROMOTED", Message: fmt.Sprintf("The plan was promoted: %s applies it.", id)}
		if err := step(ctx, tx, &source, done); err != nil {
			return "", err
		}
	}
	r, err := load(ctx, tx, id)
	if err != nil {
		return "", err
	}
	if err := fixTasks(ctx, tx, r); err != nil {
		return "", err
	}
	if err := s.pinRule(ctx, tx, r); err != nil {
		return "", err
	}
	if err := step(ctx, tx, &r, move{To: AwaitingApproval, Actor: actor}); err != nil {
		return "", err
	}
	if r, err = load(ctx, tx, id); err != nil {
		return "", err
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: source.OrganizationID, Actor: actor, Action: "run.promoted", ObjectKind: "run", ObjectID: string(source.ID),
		Details: map[string]any{"workspace": source.WorkspaceID, "promotion": id},
	})
	if err == nil {
		err = s.decideAtOnce(ctx, tx, &r)
	}
	return id, err
}

// checkPromotable refuses what has no plan to apply, and a plan that would be refused
// at its apply because the state is not the one it was made from.
func checkPromotable(ctx context.Context, tx postgres.Tx, r Run) error {
	saved := r.SavePlan && r.DurableStatus == AwaitingApproval && r.ConfirmedAt == nil
	switch {
	case r.Operation != OperationPlan:
		return notPromotable("%s is a run for %s. Only the plan of a run with the operation plan, or a saved one, can be promoted.", r.ID, r.Operation)
	case saved:
		if err := checkUndecided(ctx, tx, r); err != nil {
			return err
		}
	case r.DurableStatus != Succeeded:
		return notPromotable("%s is %s and has no plan to promote.", r.ID, describe(r))
	case r.ApplyAttempt != "":
		return notPromotable("The plan of %s has been applied by that run itself. A plan is applied once.", r.ID)
	}
	if r.PlanObjectID == "" || r.HasChanges == nil || !*r.HasChanges {
		return notPromotable("The plan of %s changes nothing, so there is nothing to apply.", r.ID)
	}
	current, err := state.CurrentID(ctx, tx, r.WorkspaceID)
	if err == nil && current != r.PredecessorVersionID {
		err = notPromotable("The state of workspace %q has changed since %s planned, so its plan cannot be applied any more. Plan again.", r.WorkspaceName, r.ID)
	}
	return err
}

func notPromotable(text string, args ...any) error {
	return fault.New(fault.Conflict, "not_promotable", text, args...)
}
