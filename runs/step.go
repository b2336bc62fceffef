package runs

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/state"
)

// move is one step of one run. Hold decides a transition whose effect is Either. With
// Next, a workspace that becomes free is handed over instead of going to its queue's head.
type move struct {
	To      Status
	Actor   authz.Actor
	Reason  string // stable code
	Message string // for people
	Hold    bool
	Next    ids.Run // the waiting run that gets the freed workspace, before those in front of it
}

// step is the only writer of a run's durable status. It changes the run from the
// status its caller saw under the run's lock, writes history and audit, and does to
// the fence what the table says: where the workspace becomes free, the next run is
// promoted in the same transaction (QP-03).
func step(ctx context.Context, tx postgres.Tx, r *Run, m move) error {
	t, ok := Find(r.DurableStatus, m.To)
	if !ok {
		return invalidTransition(*r, m.To)
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("StepRun"), postgres.Args{
		"id": r.ID, "from_status": string(t.From), "to_status": string(t.To), "reason": m.Reason, "status_message": m.Message, "final": t.To.Final(),
		"actor_kind": string(m.Actor.Kind), "actor_id": m.Actor.ID(),
	})
	if err != nil {
		return fmt.Errorf("step %s to %s: %w", r.ID, t.To, err)
	}
	if n == 0 {
		return invalidTransition(*r, m.To)
	}
	if err := dispatch.NotifyLog(ctx, tx, r.ID); err != nil { // a log may have ended with this
		return err
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: r.OrganizationID, Actor: m.Actor, Action: "run." + string(t.To), ObjectKind: "run", ObjectID: string(r.ID),
		Details: map[string]any{"workspace": r.WorkspaceID, "from": t.From, "reason": m.Reason, "epoch": r.FenceEpoch},
	})
	if err != nil {
		return err
	}
	if err := stepStages(ctx, tx, *r, m); err != nil {
		return err
	}
	if err := tell(ctx, tx, *r, t.To); err != nil {
		return err
	}
	if t.To.Final() && len(r.TaskStages) > 0 {
		if err := runtasks.Close(ctx, tx, r.ID); err != nil {
			return err
		}
	}
	if err := settleFence(ctx, tx, *r, t, m); err != nil {
		return err
	}
	*r, err = load(ctx, tx, r.ID)
	return err
}

func settleFence(ctx context.Context, tx postgres.Tx, r Run, t Transition, m move) error {
	if !r.Occupies() || t.Effect == Keeps {
		return nil
	}
	hold := t.Effect == Holds || (t.Effect == Either && m.Hold)
	lost, err := lostFence(ctx, tx, &r, hold)
	switch {
	case err != nil:
		return err
	case hold && !lost:
		return fence.HoldForRecovery(ctx, tx, r.token(), fmt.Sprintf("%s ended as %s", r.ID, t.To))
	case !lost:
		if err := fence.Release(ctx, tx, r.token()); err != nil {
			return err
		}
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("FenceReleased"), postgres.Args{"id": r.ID}); err != nil {
		return err
	}
	if m.Next != "" {
		return handOver(ctx, tx, r.WorkspaceID, m.Next)
	}
	return PromoteNext(ctx, tx, r.WorkspaceID)
}

// lostFence tells whether somebody else has the run's fence now. No operation does
// this to a run that goes on, but somebody with access to the database can, and the
// run must end all the same. What is the run's still, or nobody's while it is to be
// held, the run has again under the epoch of now.
func lostFence(ctx context.Context, tx postgres.Tx, r *Run, hold bool) (bool, error) {
	status, err := fence.Lock(ctx, tx, r.WorkspaceID)
	if err != nil {
		return false, err
	}
	mine := status.HeldBy(fence.Run, string(r.ID))
	if mine && status.Epoch == *r.FenceEpoch {
		return false, nil
	}
	slog.ErrorContext(ctx, "a run had lost its workspace's fence", "run", r.ID, "epoch", *r.FenceEpoch, "epoch_now", status.Epoch)
	switch {
	case mine:
		err = setFence(ctx, tx, r.ID, status.Epoch)
	case hold && !status.Held():
		err = takeFence(ctx, tx, *r)
	default:
		return true, nil
	}
	if err == nil {
		*r, err = load(ctx, tx, r.ID)
	}
	return false, err
}

// takeFence gives the workspace to an admitted run that has no fence. It answers
// Locked or RecoveryHeld when somebody else has it.
func takeFence(ctx context.Context, tx postgres.Tx, r Run) error {
	tok, err := fence.Acquire(ctx, tx, r.WorkspaceID, holder(r.ID), "the run "+string(r.ID))
	if err != nil {
		return err
	}
	return setFence(ctx, tx, r.ID, tok.Epoch)
}

func setFence(ctx context.Context, tx postgres.Tx, id ids.Run, epoch int64) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("FenceTaken"), postgres.Args{"id": id, "fence_epoch": epoch})
	if err != nil || n != 1 {
		return fmt.Errorf("give the workspace to %s: %d rows: %w", id, n, err)
	}
	return nil
}

func holder(id ids.Run) fence.Holder { return fence.Holder{Kind: fence.Run, ID: string(id)} }

func invalidTransition(r Run, to Status) error {
	return fault.New(fault.Conflict, "invalid_transition", "%s is %s, and from there it cannot become %s.", r.ID, r.DurableStatus, to)
}

// PromoteNext gives a free workspace to the oldest queued run (QP-02): it acquires
// the fence, pins the predecessor state and makes the plan attempt. It does nothing
// while anybody holds the workspace, recovery included (QP-11), or nobody waits.
func PromoteNext(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) error {
	status, err := fence.Lock(ctx, tx, workspace)
	if err != nil || status.Held() {
		return err
	}
	id, err := postgres.Value[ids.Run](ctx, tx, Queries.Get("NextQueued"), postgres.Args{"workspace_id": workspace})
	if postgres.NoRow(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the next run: %w", err)
	}
	return occupy(ctx, tx, workspace, id)
}

// handOver is PromoteNext for a run that is named instead of found: one that takes the
// place of the run before it. While anybody holds the workspace it waits by its turn.
func handOver(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, id ids.Run) error {
	status, err := fence.Lock(ctx, tx, workspace)
	if err != nil || status.Held() {
		return err
	}
	return occupy(ctx, tx, workspace, id)
}

func occupy(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, id ids.Run) error {
	r, err := load(ctx, tx, id)
	if err != nil {
		return err
	}
	tok, err := fence.Acquire(ctx, tx, workspace, holder(id), "the run "+string(id))
	if err != nil {
		return err
	}
	return admit(ctx, tx, r, &tok.Epoch)
}

// admit pins the state that the run starts from and asks for its plan, or first those
// who have a say before it. epoch is nil for a run that never locks.
func admit(ctx context.Context, tx postgres.Tx, r Run, epoch *int64) error {
	predecessor, err := state.CurrentID(ctx, tx, r.WorkspaceID)
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("Admit"), postgres.Args{"id": r.ID, "predecessor_version_id": predecessor, "fence_epoch": epoch})
	if err != nil || n != 1 {
		return fmt.Errorf("admit %s: %d rows: %w", r.ID, n, err)
	}
	r.FenceEpoch = epoch
	wait, err := awaitTasks(ctx, tx, &r, runtasks.PrePlan)
	if err != nil || wait {
		return err
	}
	return askPlan(ctx, tx, r)
}
