package fence

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// HolderKind says what sort of thing holds a fence.
type HolderKind string

// The kinds of holders.
const (
	User     HolderKind = "user"
	Team     HolderKind = "team"
	Run      HolderKind = "run"
	Recovery HolderKind = "recovery"
)

// Holder is who holds, or wants to hold, a fence. Name is for showing only.
type Holder struct {
	Kind HolderKind
	ID   string
	Name string
}

// Token is proof of holding: it passes Guard as long as nobody else was let in.
type Token struct {
	Workspace ids.Workspace
	Epoch     int64
	Holder    Holder
}

// Status is a fence as it stands. An empty Holder.Kind means free.
type Status struct {
	Workspace    ids.Workspace
	Epoch        int64
	Holder       Holder
	Reason       string
	RecoveryHeld bool
	AcquiredAt   *time.Time
}

// Held tells whether anybody holds the fence.
func (s Status) Held() bool { return s.Holder.Kind != "" }

// HeldByActor is HeldBy for what the actor is as a holder.
func (s Status) HeldByActor(actor authz.Actor) bool {
	holder := HolderOf(actor)
	return s.HeldBy(holder.Kind, holder.ID)
}

// HolderOf is what an actor is as the holder of a fence: a user, or a team whose token it showed.
func HolderOf(actor authz.Actor) Holder {
	if actor.Kind == authz.TeamActor {
		return Holder{Kind: Team, ID: string(actor.Team), Name: actor.Name}
	}
	return Holder{Kind: User, ID: string(actor.User), Name: actor.Name}
}

// HeldBy tells whether this very holder does. Nobody holds a free fence, not even
// a holder without a name.
func (s Status) HeldBy(kind HolderKind, id string) bool {
	return s.Held() && s.Holder.Kind == kind && s.Holder.ID == id
}

// Token gives the token of the current holder.
func (s Status) Token() Token {
	return Token{Workspace: s.Workspace, Epoch: s.Epoch, Holder: s.Holder}
}

// Create makes the fence of a new workspace: free, epoch 0.
func Create(ctx context.Context, tx postgres.Tx, organization ids.Organization, workspace ids.Workspace) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("Create"), postgres.Args{"workspace_id": workspace, "organization_id": organization})
	return err
}

// Read gives the fence as it stands.
func Read(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) (Status, error) {
	return read(ctx, tx, "Read", workspace)
}

// Lock gives the fence and holds its row until the transaction ends: the lineage
// lock (ST-19). It comes first in the lock order.
func Lock(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) (Status, error) {
	return read(ctx, tx, "Lock", workspace)
}

// LockLater is Lock that goes with the transaction's next statement: with that, into has the
// fence, or the transaction has failed because there is none.
func LockLater(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, into *Status) error {
	return postgres.LaterOne(ctx, tx, Queries.Get("Lock"), postgres.Args{"workspace_id": workspace}, func(r row, found bool) error {
		if !found {
			return fault.Missing("workspace", string(workspace))
		}
		*into = r.status()
		return nil
	})
}

// LockOf is Lock for the workspace of a run that is named, or of the run of an attempt, and
// goes with the transaction's next statement: with that, into has the fence. It stays as it
// is without such a run or attempt.
func LockOf(ctx context.Context, tx postgres.Tx, run ids.Run, attempt ids.Attempt, into *Status) error {
	return postgres.LaterOne(ctx, tx, Queries.Get("LockOf"), postgres.Args{"run_id": run, "attempt_id": attempt}, func(r row, found bool) error {
		if found {
			*into = r.status()
		}
		return nil
	})
}

type row struct {
	WorkspaceID  ids.Workspace
	Epoch        int64
	HolderKind   HolderKind
	HolderID     string
	HolderName   string
	Reason       string
	RecoveryHeld bool
	AcquiredAt   *time.Time
}

func (r row) status() Status {
	return Status{
		Workspace: r.WorkspaceID, Epoch: r.Epoch, Holder: Holder{Kind: r.HolderKind, ID: r.HolderID, Name: r.HolderName},
		Reason: r.Reason, RecoveryHeld: r.RecoveryHeld, AcquiredAt: r.AcquiredAt,
	}
}

func read(ctx context.Context, tx postgres.Tx, query string, workspace ids.Workspace) (Status, error) {
	r, err := postgres.One[row](ctx, tx, Queries.Get(query), postgres.Args{"workspace_id": workspace})
	if postgres.NoRow(err) {
		return Status{}, fault.Missing("workspace", string(workspace))
	}
	if err != nil {
		return Status{}, fmt.Errorf("read the fence: %w", err)
	}
	return r.status(), nil
}

// Acquire takes a free fence and advances its epoch. It answers Locked when
// somebody holds it and RecoveryHeld when a run must be recovered first (RC-08).
func Acquire(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, holder Holder, reason string) (Token, error) {
	epoch, err := postgres.Value[int64](ctx, tx, Queries.Get("Acquire"), postgres.Args{
		"workspace_id": workspace, "holder_kind": string(holder.Kind), "holder_id": holder.ID, "holder_name": holder.Name, "reason": reason,
	})
	if err == nil {
		return Token{Workspace: workspace, Epoch: epoch, Holder: holder}, nil
	}
	if !postgres.NoRow(err) {
		return Token{}, fmt.Errorf("acquire the fence: %w", err)
	}
	status, err := Read(ctx, tx, workspace)
	if err != nil {
		return Token{}, err
	}
	if err := status.CheckRecovery(); err != nil {
		return Token{}, err
	}
	return Token{}, fault.New(fault.Locked, "workspace_locked", "The workspace %s.", status.Describe())
}

// Describe says who holds the fence in words that clients look for ("is locked by
// User", "Run" or "Team").
func (s Status) Describe() string {
	kind := map[HolderKind]string{User: "User", Team: "Team", Run: "Run", Recovery: "Run"}[s.Holder.Kind]
	name := s.Holder.Name
	if name == "" {
		name = s.Holder.ID
	}
	return fmt.Sprintf("is locked by %s %s", kind, name)
}

// CheckRecovery answers RecoveryHeld, naming the run and the way out, when the
// fence is held for recovery (RC-08, ER-03).
func (s Status) CheckRecovery() error {
	if !s.RecoveryHeld {
		return nil
	}
	return fault.New(fault.RecoveryHeld, "workspace_recovery_pending",
		"Complete recovery of %s first: its apply ended without proof of what it wrote, so the workspace is held. "+
			"An operator looks at what is known with `holdfast admin recover show %s` and frees the workspace with `holdfast admin recover %s --apply`.", s.Holder.ID, s.Holder.ID, s.Holder.ID).
		With("run-id", s.Holder.ID)
}

// Guard answers nil only while tok is the current holder's: held, same epoch,
// same holder (ST-15, AU-02). It locks the fence row, so that what is checked
// stays true until the transaction ends.
func Guard(ctx context.Context, tx postgres.Tx, tok Token) (Status, error) {
	status, err := Lock(ctx, tx, tok.Workspace)
	if err != nil {
		return Status{}, err
	}
	if status.Epoch != tok.Epoch || !status.HeldBy(tok.Holder.Kind, tok.Holder.ID) {
		return status, stale(tok, status)
	}
	return status, nil
}

func stale(tok Token, status Status) error {
	now := "nobody holds it now"
	if status.Held() {
		now = "it " + status.Describe() + " now"
	}
	return fault.New(fault.Conflict, "stale_fence",
		"The lock under which this was begun (epoch %d) is gone: the workspace is at epoch %d and %s. Lock the workspace again, read the current state and repeat the change on top of it.", tok.Epoch, status.Epoch, now)
}

// Release frees the fence for the next holder; the epoch stays. It answers
// Conflict "stale_fence" when tok no longer holds it.
func Release(ctx context.Context, tx postgres.Tx, tok Token) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Release"), args(tok))
	if err != nil {
		return fmt.Errorf("release the fence: %w", err)
	}
	if n == 0 {
		status, err := Read(ctx, tx, tok.Workspace)
		if err != nil {
			return err
		}
		return stale(tok, status)
	}
	return nil
}

// ReleaseLocked is Release for whoever has locked the fence and seen that tok holds it; it
// goes with the transaction's next statement.
func ReleaseLocked(ctx context.Context, tx postgres.Tx, tok Token) error {
	return postgres.Later(ctx, tx, Queries.Get("Release"), args(tok), func(rows int64) error { return one(rows, "release", tok) })
}

// AcquireLocked is Acquire for whoever has locked the fence and seen that it is free; it
// goes with the transaction's next statement.
func AcquireLocked(ctx context.Context, tx postgres.Tx, locked Status, holder Holder, reason string) (Token, error) {
	tok := Token{Workspace: locked.Workspace, Epoch: locked.Epoch + 1, Holder: holder}
	err := postgres.Later(ctx, tx, Queries.Get("AcquireLocked"), postgres.Args{
		"workspace_id": locked.Workspace, "epoch": locked.Epoch, "holder_kind": string(holder.Kind), "holder_id": holder.ID, "holder_name": holder.Name, "reason": reason,
	}, func(rows int64) error { return one(rows, "acquire", tok) })
	return tok, err
}

// one is nil for one row. Another number is a defect: the fence was locked and looked at.
func one(rows int64, what string, tok Token) error {
	if rows != 1 {
		return fmt.Errorf("%s the fence of %s at epoch %d for %s: %d rows", what, tok.Workspace, tok.Epoch, tok.Holder.ID, rows)
	}
	return nil
}

// Revoke takes the fence from whoever holds it and advances the epoch, so that the
// old holder can never publish again. It must follow Lock in the same transaction.
func Revoke(ctx context.Context, tx postgres.Tx, locked Status) (epoch int64, err error) {
	epoch, err = postgres.Value[int64](ctx, tx, Queries.Get("Revoke"), postgres.Args{"workspace_id": locked.Workspace, "epoch": locked.Epoch})
	if err != nil {
		return 0, fmt.Errorf("revoke the fence: %w", err)
	}
	return epoch, nil
}

// Grow advances the epoch under the same holder: uploads begun before are fenced
// off, the holder goes on with the new token (ST-22).
func Grow(ctx context.Context, tx postgres.Tx, tok Token) (Token, error) {
	epoch, err := postgres.Value[int64](ctx, tx, Queries.Get("Grow"), args(tok))
	if postgres.NoRow(err) {
		status, err := Read(ctx, tx, tok.Workspace)
		if err != nil {
			return Token{}, err
		}
		return Token{}, stale(tok, status)
	}
	if err != nil {
		return Token{}, fmt.Errorf("advance the fence: %w", err)
	}
	tok.Epoch = epoch
	return tok, nil
}

// HoldForRecovery keeps the fence with a run that has ended without proof. From
// here on only recovery frees it (RC-05).
func HoldForRecovery(ctx context.Context, tx postgres.Tx, tok Token, reason string) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("HoldForRecovery"), postgres.Args{
		"workspace_id": tok.Workspace, "epoch": tok.Epoch, "holder_id": tok.Holder.ID, "reason": reason,
	})
	if err != nil {
		return fmt.Errorf("hold the fence for recovery: %w", err)
	}
	if n == 0 {
		status, err := Read(ctx, tx, tok.Workspace)
		if err != nil {
			return err
		}
		return stale(tok, status)
	}
	return nil
}

// HoldLost takes the fence from whoever holds it, for the recovery of a run that has
// authority nobody remembers, and advances the epoch past the one it was given. It must
// follow Lock in the same transaction.
func HoldLost(ctx context.Context, tx postgres.Tx, locked Status, run ids.Run, seen int64, reason string) (epoch int64, err error) {
	epoch, err = postgres.Value[int64](ctx, tx, Queries.Get("HoldLost"), postgres.Args{
		"workspace_id": locked.Workspace, "epoch": locked.Epoch, "seen_epoch": seen, "holder_id": string(run), "reason": reason,
	})
	if err != nil {
		return 0, fmt.Errorf("hold the fence for a lost run: %w", err)
	}
	return epoch, nil
}

// LostBy gives the workspace that HoldLost keeps for a run; found is false without one.
func LostBy(ctx context.Context, tx postgres.Tx, run ids.Run) (workspace ids.Workspace, found bool, err error) {
	workspace, err = postgres.Value[ids.Workspace](ctx, tx, Queries.Get("LostBy"), postgres.Args{"holder_id": string(run)})
	if postgres.NoRow(err) {
		return "", false, nil
	}
	return workspace, err == nil, err
}

func args(tok Token) postgres.Args {
	return postgres.Args{"workspace_id": tok.Workspace, "epoch": tok.Epoch, "holder_kind": string(tok.Holder.Kind), "holder_id": tok.Holder.ID}
}
