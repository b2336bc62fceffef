package dispatch

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Channel is notified when an attempt becomes pending, and LogChannel, with the run's
// id, when its logs or its status have something new for a reader.
const (
	Channel    = "holdfast_attempts"
	LogChannel = "holdfast_logs"
)

// Status of an attempt (RP-19).
type Status string

// The statuses.
const (
	Pending  Status = "pending"
	Assigned Status = "assigned"
	Running  Status = "running"
	Finished Status = "finished" // its runner reported done
	Lost     Status = "lost"     // nobody reported
	Canceled Status = "canceled" // withdrawn before a runner accepted it
)

// Attempt is one execution of one phase of a run.
type Attempt struct {
	ID                  ids.Attempt
	OrganizationID      ids.Organization
	WorkspaceID         ids.Workspace
	RunID               ids.Run
	Phase               authz.Phase
	Status              Status
	FenceEpoch          *int64
	RunnerID            ids.Runner
	GroupID             ids.RunnerGroup
	AssignmentExpiresAt *time.Time
	AcceptedAt          *time.Time
	SandboxID           string
	TokenExpiresAt      *time.Time
	Manifest            []byte
	ManifestDigest      string
	ExecutionNonce      string // f(run, attempt); fixed by accept (AU-15)
	AcceptDigest        string // of what its runner accepted with
	StartDigest         string // of what its apply-start was redeemed with
	JTI                 string `db:"jti"` // of its session; empty without one
	RunnerVersion       string // its runner's release
	RunnerDigest        string
	StartDeniedAt       *time.Time // a gate refused its apply-start
	HeartbeatAt         *time.Time
	StopRequestedAt     *time.Time
	ApplyStartedAt      *time.Time
	TofuVersion         string
	StateConfirmedID    ids.StateVersion
	ExitCode            *int
	Outcome             string
	DoneDigest          string
	ErroredState        *bool // tofu left state that it could not publish, as its runner reported; nil: nobody did
	LogSize             int64 // of the human log
	LogObjectID         ids.Object
	JSONLog             bool       `db:"json_log"` // it has a log of events, too; fixed by accept
	JSONLogSize         int64      `db:"json_log_size"`
	JSONLogObjectID     ids.Object `db:"json_log_object_id"`
	LogTruncated        bool       // its runner left something out of a log (PL-04)
	CreatedAt           time.Time
	FinishedAt          *time.Time
}

// Service keeps attempts and their logs.
type Service struct {
	db      *postgres.DB
	objects *artifacts.Service
	links   *envelope.Links
	windows windows // of folded logs
}

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service, links *envelope.Links) *Service {
	return &Service{db: db, objects: objects, links: links}
}

// NewAttempt is what a run asks for. Epoch is nil for a plan that never locks.
type NewAttempt struct {
	Organization ids.Organization
	Workspace    ids.Workspace
	Run          ids.Run
	Phase        authz.Phase
	Epoch        *int64
	TofuVersion  string
	Speculative  bool
}

// Create makes a pending attempt, with the transaction's next statement, for the runners that
// the workspace's settings ask for now, and wakes waiting ones at commit.
func Create(ctx context.Context, tx postgres.Tx, n NewAttempt) (ids.Attempt, error) {
	id := ids.New[ids.Attempt]()
	args := postgres.Args{
		"id": id, "organization_id": n.Organization, "workspace_id": n.Workspace, "run_id": n.Run, "phase": string(n.Phase),
		"fence_epoch": n.Epoch, "tofu_version": n.TofuVersion, "speculative": n.Speculative,
	}
	err := postgres.LaterOne(ctx, tx, Queries.Get("Create"), args, func(made struct{ Demand string }, found bool) error {
		if !found {
			return fault.Missing("workspace", string(n.Workspace))
		}
		return postgres.Notify(ctx, tx, Channel, made.Demand)
	})
	return id, err
}

// Get reads an attempt.
func Get(ctx context.Context, tx postgres.Tx, id ids.Attempt) (Attempt, error) {
	return one(ctx, tx, "Get", postgres.Args{"id": id}, string(id))
}

// Lock reads an attempt and locks its row; the workspace and the run come before it
// in the lock order.
func Lock(ctx context.Context, tx postgres.Tx, id ids.Attempt) (Attempt, error) {
	return one(ctx, tx, "Lock", postgres.Args{"id": id}, string(id))
}

// OfRun gives the newest attempt of a run's phase since the run was made or requeued;
// found is false when there is none.
func OfRun(ctx context.Context, tx postgres.Tx, run ids.Run, phase authz.Phase) (a Attempt, found bool, err error) {
	a, err = one(ctx, tx, "OfRun", postgres.Args{"run_id": run, "phase": string(phase)}, string(run))
	if fault.Is(err, fault.NotFound) {
		return Attempt{}, false, nil
	}
	return a, err == nil, err
}

func one(ctx context.Context, tx postgres.Tx, query string, args postgres.Args, name string) (Attempt, error) {
	a, err := postgres.One[Attempt](ctx, tx, Queries.Get(query), args)
	if postgres.NoRow(err) {
		return Attempt{}, fault.Missing("attempt", name)
	}
	if err != nil {
		return Attempt{}, fmt.Errorf("read the attempt: %w", err)
	}
	return a, nil
}

// Acceptance is what a runner says when it accepts an attempt.
type Acceptance struct {
	Runner  ids.Runner
	Sandbox string // where it will execute
	JSONLog bool   // it will send a log of events beside the human one
	// Bootstrap asks for a capability to redeem in place of the session itself.
	Bootstrap bool
	Release   gates.Release // of the runner
	Lifetime  time.Duration // of the bootstrap capability
}

// Accept opens the session of an assigned attempt in a sandbox (RP-08, RP-09). The
// caller holds the attempt's row.
// Errors: Conflict "runner_not_ready", "assignment_expired", "assignment_lost".
func Accept(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, a Attempt, by Acceptance, authority time.Duration) error {
	if a.RunnerID != by.Runner || a.GroupID != group.ID || a.Status != Assigned {
		return fault.New(fault.Conflict, "assignment_lost", "Attempt %s is not assigned to this runner any more; poll again.", a.ID)
	}
	status, err := postgres.Value[string](ctx, tx, Queries.Get("RunnerStatus"), postgres.Args{"id": by.Runner, "group_id": group.ID})
	if err != nil && !postgres.NoRow(err) {
		return fmt.Errorf("read the runner: %w", err)
	}
	if status != "ready" { // also when it has deregistered
		return fault.New(fault.Conflict, "runner_not_ready", "Runner %s must say that it is ready before it accepts.", by.Runner)
	}
	open, err := postgres.Value[bool](ctx, tx, Queries.Get("AssignmentOpen"), postgres.Args{"id": a.ID})
	if err != nil {
		return err
	}
	if !open {
		return fault.New(fault.Conflict, "assignment_expired", "The assignment of %s has expired; poll again.", a.ID)
	}
	err = postgres.Later(ctx, tx, Queries.Get("Accept"), postgres.Args{
		"id": a.ID, "runner_id": by.Runner, "sandbox_id": by.Sandbox, "json_log": by.JSONLog, "authority_seconds": authority.Seconds(),
		"execution_nonce": Nonce(a.RunID, a.ID), "accept_digest": by.Digest(), "runner_version": by.Release.Version, "runner_digest": by.Release.Digest,
	}, func(rows int64) error {
		if rows != 1 {
			return fmt.Errorf("accept %s: %d rows", a.ID, rows) // its row is locked and was looked at
		}
		return nil
	})
	if err != nil {
		return err
	}
	return openSession(ctx, tx, a, by)
}

// FixManifest stores the bytes of the manifest and their digest, once (PL-01), with the
// transaction's next statement.
func FixManifest(ctx context.Context, tx postgres.Tx, id ids.Attempt, manifest []byte, digest string) error {
	return postgres.Later(ctx, tx, Queries.Get("FixManifest"), postgres.Args{"id": id, "manifest": manifest, "manifest_digest": digest}, func(rows int64) error {
		if rows == 0 {
			return fault.New(fault.Conflict, "manifest_fixed", "The manifest of %s is fixed already.", id)
		}
		return nil
	})
}

// Heartbeat notes that the runner lives and tells whether it shall stop (RP-11).
func Heartbeat(ctx context.Context, tx postgres.Tx, id ids.Attempt) (stop bool, err error) {
	stop, err = postgres.Value[bool](ctx, tx, Queries.Get("Heartbeat"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return true, nil // it has ended
	}
	return stop, err
}

// RequestStop asks the runner to stop; it learns of it at its next status poll.
func RequestStop(ctx context.Context, tx postgres.Tx, id ids.Attempt) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("RequestStop"), postgres.Args{"id": id})
	return err
}

// StartApply notes that the authority to apply was redeemed, when, and with which
// input. first is false when it was before, or when the attempt is no running apply.
func StartApply(ctx context.Context, tx postgres.Tx, id ids.Attempt, digest string) (at time.Time, first bool, err error) {
	at, err = postgres.Value[time.Time](ctx, tx, Queries.Get("StartApply"), postgres.Args{"id": id, "start_digest": digest})
	if postgres.NoRow(err) {
		return time.Time{}, false, nil
	}
	return at, err == nil, err
}

// ConfirmState notes the version that was proved to be this attempt's own.
func ConfirmState(ctx context.Context, tx postgres.Tx, id ids.Attempt, v ids.StateVersion) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("ConfirmState"), postgres.Args{"id": id, "state_version_id": v})
	if err == nil && n == 0 {
		return fault.New(fault.Conflict, "not_applying", "Attempt %s is not applying.", id)
	}
	return err
}

// End is how an attempt ended.
type End struct {
	Status     Status // Finished, Lost or Canceled
	Outcome    string
	ExitCode   *int
	DoneDigest string
	// ErroredState is what its runner reported of state left unpublished; nil without a report.
	ErroredState *bool
	LogTruncated bool // the runner left something out of a log
}

// Finish ends an attempt, with the transaction's next statement, from the status its caller
// saw under the row's lock.
func Finish(ctx context.Context, tx postgres.Tx, a Attempt, end End) error {
	return postgres.Later(ctx, tx, Queries.Get("Finish"), postgres.Args{
		"id": a.ID, "from_status": string(a.Status), "status": string(end.Status), "outcome": end.Outcome, "exit_code": end.ExitCode, "done_digest": end.DoneDigest, "errored_state": end.ErroredState, "log_truncated": end.LogTruncated,
	}, func(rows int64) error {
		if rows == 0 {
			return fault.New(fault.Conflict, "attempt_ended", "Attempt %s has ended.", a.ID)
		}
		return nil
	})
}
