package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// NewReplan is what a client asks for. TargetAddrs nil means: those of the run.
type NewReplan struct {
	Message     string
	Source      string
	TargetAddrs []string
}

// Replan answers a plan that waits for a decision with another one (RL-37, G-24): a
// new run with the same inputs and perhaps other targets. In the same transaction the
// old run ends as rejected with the reason REPLANNED and hands its workspace to the
// new one, before any run that waits.
// Errors: those of a decision (Conflict "invalid_transition", "APPROVAL_EXPIRED"), and
// Invalid where the new run may not have these targets.
func (s *Service) Replan(ctx context.Context, actor authz.Actor, id ids.Run, n NewReplan) (d Detail, err error) {
	err = postgres.InTx(ctx, s.db, "runs.replan", func(tx postgres.Tx) error {
		old, _, err := lockToGoOn(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if err := mayReplan(ctx, tx, actor, old, n); err != nil {
			return err
		}
		fresh, err := s.insertReplan(ctx, tx, actor, old, n)
		if err != nil {
			return err
		}
		if err := fixTasks(ctx, tx, fresh); err != nil {
			return err
		}
		if err := step(ctx, tx, &fresh, move{To: Queued, Actor: actor}); err != nil {
			return err
		}
		err = step(ctx, tx, &old, move{
			To: Rejected, Actor: actor, Reason: "REPLANNED", Message: fmt.Sprintf("The plan was replaced: %s plans anew.", fresh.ID), Next: fresh.ID,
		})
		if err != nil {
			return err
		}
		if !fresh.waitsForWorkspace() {
			if err := admit(ctx, tx, fresh, nil); err != nil {
				return err
			}
		}
		err = audit.Append(ctx, tx, audit.Entry{
			Organization: old.OrganizationID, Actor: actor, Action: "run.replanned", ObjectKind: "run", ObjectID: string(id),
			Details: map[string]any{"workspace": old.WorkspaceID, "replan": fresh.ID},
		})
		if err != nil {
			return err
		}
		d, err = detail(ctx, tx, fresh.ID)
		return err
	})
	return d, err
}

func mayReplan(ctx context.Context, tx postgres.Tx, actor authz.Actor, r Run, n NewReplan) error {
	if err := checkUndecided(ctx, tx, r); err != nil {
		return err
	}
	if r.Operation == OperationTeardown {
		if err := authz.Allow(actor, authz.WorkspaceDelete, r.Object()); err != nil {
			return err
		}
	}
	switch {
	case r.SourceRunID != "":
		return fault.New(fault.Conflict, "invalid_transition", "%s applies the plan of %s and cannot plan. Discard it and make a new run.", r.ID, r.SourceRunID)
	case r.CancelRequestedAt != nil:
		return fault.New(fault.Conflict, "invalid_transition", "%s is being canceled. Make a new run.", r.ID)
	case r.Operation == OperationTeardown && len(n.TargetAddrs) > 0:
		return fault.New(fault.Invalid, "invalid_attribute", "A teardown removes everything, so it takes no targets.").At("/data/attributes/target-addrs")
	}
	return checkMessage(n.Message)
}

func (s *Service) insertReplan(ctx context.Context, tx postgres.Tx, actor authz.Actor, old Run, n NewReplan) (Run, error) {
	id := ids.New[ids.Run]()
	given, snapshot, err := s.resealVariables(ctx, tx, old, id)
	if err != nil {
		return Run{}, err
	}
	rows, err := postgres.Exec(ctx, tx, Queries.Get("RunReplan"), postgres.Args{
		"id": id, "plan_id": ids.New[ids.Plan](), "apply_id": ids.New[ids.Apply](), "from_id": old.ID, "message": n.Message, "source": n.Source,
		"created_by": actor.User, "target_addrs": n.TargetAddrs, "may_apply": authz.Can(actor, authz.RunApply, old.Object()),
		"run_variables_sealed": given, "variables_sealed": snapshot,
		"workflow_definition": WorkflowDefinition(), "application_build_sha": s.settings.Build,
	})
	if err != nil || rows != 1 {
		return Run{}, fmt.Errorf("plan %s anew: %d rows: %w", old.ID, rows, err)
	}
	r, err := load(ctx, tx, id)
	if err == nil {
		err = s.bindPolicies(ctx, tx, &r)
	}
	return r, err
}

// resealVariables packs the values of a run for another one: sealed values are bound
// to the run they are for.
func (s *Service) resealVariables(ctx context.Context, tx postgres.Tx, from Run, to ids.Run) (given, snapshot []byte, err error) {
	reseal := func(sealed []byte, label func(ids.Run) string) ([]byte, error) {
		plain, err := s.objects.OpenValue(ctx, tx, from.OrganizationID, label(from.ID), sealed)
		if err != nil {
			return nil, err
		}
		return s.objects.SealValue(ctx, tx, from.OrganizationID, label(to), plain)
	}
	if given, err = reseal(from.RunVariablesSealed, runVariablesLabel); err != nil {
		return nil, nil, err
	}
	snapshot, err = reseal(from.VariablesSealed, snapshotLabel)
	return given, snapshot, err
}
