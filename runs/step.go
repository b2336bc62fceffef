package runs

import (
	"context"
	"fmt"
	"log/slog"
	"maps"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
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

	query string        // the statement that also writes what is bound by the step; empty: StepRun
	also  postgres.Args // its further arguments
}

// sql is the statement of the step and its arguments.
func (m move) sql(r Run, t Transition, f fate) (string, postgres.Args) {
	args := postgres.Args{
		"id": r.ID, "from_status": string(t.From), "to_status": string(t.To), "reason": m.Reason, "status_message": m.Message, "final": t.To.Final(),
		"releases": f.frees, "actor_kind": string(m.Actor.Kind), "actor_id": m.Actor.ID(),
	}
	maps.Copy(args, m.also)
	query := m.query
	if query == "" {
		query = "StepRun"
	}
	return Queries.Get(query), args
}

// step is the only writer of a run's durable status. It changes the run from the
// status its caller saw under the run's lock, writes history and audit, and does to
// the fence what the table says: where the workspace becomes free, the next run is
// promoted in the same transaction (QP-03). All that it writes goes with the
// transaction's next statement; r is what it has become, apart from what only others read.
func step(ctx context.Context, tx postgres.Tx, r *Run, m move) error {
	t, ok := Find(r.DurableStatus, m.To)
	if !ok {
		return invalidTransition(*r, m.To)
	}
	fate, err := fateOf(ctx, tx, r, t, m)
	if err != nil {
		return err
	}
	sql, args := m.sql(*r, t, fate)
	refused := invalidTransition(*r, m.To)
	err = postgres.Later(ctx, tx, sql, args, func(rows int64) error {
		if rows == 0 {
			return refused
		}
		return nil
	})
	if err != nil {
		return err
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
	if err := settleFence(ctx, tx, *r, fate, m); err != nil {
		return err
	}
	r.DurableStatus, r.DurableReason = t.To, m.Reason
	if m.Message != "" {
		r.StatusMessage = m.Message
	}
	r.gaveBack = r.gaveBack || fate.frees
	return nil
}

// fate is what a step does to the fence of a run that occupies its workspace.
type fate struct {
	fence fence.Status // as it is before; locked
	holds bool         // the run keeps it, and only recovery frees it
	frees bool         // the run gives its workspace back
	lost  bool         // somebody else has it
	to    Status
}

func fateOf(ctx context.Context, tx postgres.Tx, r *Run, t Transition, m move) (f fate, err error) {
	if !r.Occupies() || t.Effect == Keeps {
		return fate{}, nil
	}
	hold := t.Effect == Holds || (t.Effect == Either && m.Hold)
	f.to = t.To
	f.fence, f.lost, err = lostFence(ctx, tx, r, hold)
	f.holds = hold && !f.lost
	f.frees = !f.holds
	return f, err
}

func settleFence(ctx context.Context, tx postgres.Tx, r Run, f fate, m move) error {
	switch {
	case f.holds:
		return fence.HoldForRecovery(ctx, tx, r.token(), fmt.Sprintf("%s ended as %s", r.ID, f.to))
	case !f.frees:
		return nil
	case !f.lost:
		if err := fence.ReleaseLocked(ctx, tx, r.token()); err != nil {
			return err
		}
		f.fence.Holder = fence.Holder{}
	}
	switch {
	case f.fence.Held():
		return nil // by whoever took it
	case m.Next != "":
		return occupy(ctx, tx, f.fence, m.Next)
	}
	return promote(ctx, tx, f.fence)
}

// lostFence gives the run's fence as it is, locked, and tells whether somebody else has it
// now. No operation does this to a run that goes on, but somebody with access to the database
// can, and the run must end all the same. What is the run's still, or nobody's while it is to
// be held, the run has again under the epoch of now.
func lostFence(ctx context.Context, tx postgres.Tx, r *Run, hold bool) (status fence.Status, lost bool, err error) {
	status, err = fence.Lock(ctx, tx, r.WorkspaceID)
	if err != nil {
		return status, false, err
	}
	mine := status.HeldBy(fence.Run, string(r.ID))
	if mine && status.Epoch == *r.FenceEpoch {
		return status, false, nil
	}
	slog.ErrorContext(ctx, "a run had lost its workspace's fence", "run", r.ID, "epoch", *r.FenceEpoch, "epoch_now", status.Epoch)
	switch {
	case mine:
		err = setFence(ctx, tx, r.ID, status.Epoch)
	case hold && !status.Held():
		err = takeFence(ctx, tx, *r)
	default:
		return status, true, nil
	}
	if err == nil {
		*r, err = load(ctx, tx, r.ID)
	}
	return status, false, err
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
	return promote(ctx, tx, status)
}

// promote is PromoteNext for a fence that is locked and free.
func promote(ctx context.Context, tx postgres.Tx, free fence.Status) error {
	if err := postgres.Later(ctx, tx, Queries.Get("NextQueuedLock"), postgres.Args{"workspace_id": free.Workspace}, nil); err != nil {
		return err
	}
	r, err := postgres.One[Run](ctx, tx, Queries.Get("RunGet"), postgres.Args{"id": "", "attempt_id": "", "queue_of": free.Workspace})
	if postgres.NoRow(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find the next run: %w", err)
	}
	return take(ctx, tx, free, r)
}

// occupy is promote for a run that is named instead of found: one that takes the place of
// the run before it.
func occupy(ctx context.Context, tx postgres.Tx, free fence.Status, id ids.Run) error {
	r, err := load(ctx, tx, id)
	if err != nil {
		return err
	}
	return take(ctx, tx, free, r)
}

func take(ctx context.Context, tx postgres.Tx, free fence.Status, r Run) error {
	tok, err := fence.AcquireLocked(ctx, tx, free, holder(r.ID), "the run "+string(r.ID))
	if err != nil {
		return err
	}
	return admit(ctx, tx, r, &tok.Epoch)
}

// admit pins the state that the run starts from and asks for its plan, or first those
// who have a say before it. epoch is nil for a run that never locks.
func admit(ctx context.Context, tx postgres.Tx, r Run, epoch *int64) error {
	err := postgres.Later(ctx, tx, Queries.Get("Admit"), postgres.Args{"id": r.ID, "fence_epoch": epoch}, func(rows int64) error {
		if rows != 1 {
			return fmt.Errorf("admit %s: %d rows", r.ID, rows)
		}
		return nil
	})
	if err != nil {
		return err
	}
	r.FenceEpoch = epoch
	wait, err := awaitTasks(ctx, tx, &r, runtasks.PrePlan)
	if err != nil || wait {
		return err
	}
	return askPlan(ctx, tx, r)
}
