package dispatch

import (
	"context"
	_ "embed"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
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
	HeartbeatAt         *time.Time
	StopRequestedAt     *time.Time
	ApplyStartedAt      *time.Time
	TofuVersion         string
	StateConfirmedID    ids.StateVersion
	ExitCode            *int
	Outcome             string
	DoneDigest          string
	LogSize             int64 // of the human log
	LogObjectID         ids.Object
	JSONLog             bool       `db:"json_log"` // it has a log of events, too; fixed by accept
	JSONLogSize         int64      `db:"json_log_size"`
	JSONLogObjectID     ids.Object `db:"json_log_object_id"`
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

// Create makes a pending attempt for the runners that the workspace's settings ask for
// now, and wakes waiting ones at commit.
func Create(ctx context.Context, tx postgres.Tx, n NewAttempt) (ids.Attempt, error) {
	id := ids.New[ids.Attempt]()
	made, err := postgres.Exec(ctx, tx, Queries.Get("Create"), postgres.Args{
		"id": id, "organization_id": n.Organization, "workspace_id": n.Workspace, "run_id": n.Run, "phase": string(n.Phase),
		"fence_epoch": n.Epoch, "tofu_version": n.TofuVersion, "speculative": n.Speculative,
	})
	if err == nil && made != 1 {
		err = fault.Missing("workspace", string(n.Workspace))
	}
	if err != nil {
		return "", fmt.Errorf("create the attempt: %w", err)
	}
	return id, nil
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
	_, err = postgres.Value[time.Time](ctx, tx, Queries.Get("Accept"), postgres.Args{
		"id": a.ID, "runner_id": by.Runner, "sandbox_id": by.Sandbox, "json_log": by.JSONLog, "authority_seconds": authority.Seconds(),
	})
	if err != nil {
		return fmt.Errorf("accept %s: %w", a.ID, err)
	}
	return nil
}

// FixManifest stores the bytes of the manifest and their digest, once (PL-01).
func FixManifest(ctx context.Context, tx postgres.Tx, id ids.Attempt, manifest []byte, digest string) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("FixManifest"), postgres.Args{"id": id, "manifest": manifest, "manifest_digest": digest})
	if err == nil && n == 0 {
		return fault.New(fault.Conflict, "manifest_fixed", "The manifest of %s is fixed already.", id)
	}
	return err
}

const tokenPrefix = "hfa_"

// Token gives the session token of a running attempt. It is derived, so the exact
// repeat of an accept gives the same one, and it is stored nowhere.
func (s *Service) Token(a Attempt) string {
	return tokenPrefix + string(a.ID) + "." + s.links.Mint(tokenSubject(a.ID, a.SandboxID), *a.TokenExpiresAt)
}

func tokenSubject(id ids.Attempt, sandbox string) string {
	return "attempt-session/" + string(id) + "/" + sandbox
}

// IsToken tells whether the text looks like a session token.
func IsToken(token string) bool {
	return strings.HasPrefix(token, tokenPrefix)
}

// Authenticate gives the actor a session token stands for, as long as its attempt
// runs and its authority lasts; else Unauthenticated.
func (s *Service) Authenticate(ctx context.Context, token string) (actor authz.Actor, err error) {
	refused := fault.New(fault.Unauthenticated, "unauthenticated", "This attempt's token is not valid, or its attempt has ended.")
	id, mac, ok := parseToken(token)
	if !ok {
		return actor, refused
	}
	err = postgres.InSnapshot(ctx, s.db, "dispatch.authenticate", func(tx postgres.Tx) error {
		row, err := postgres.One[struct {
			ID                   ids.Attempt
			OrganizationID       ids.Organization
			WorkspaceID          ids.Workspace
			RunID                ids.Run
			Phase                authz.Phase
			SandboxID            string
			FenceEpoch           int64
			PredecessorVersionID ids.StateVersion
			Applying             bool
		}](ctx, tx, Queries.Get("Session"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return refused
		}
		if err != nil {
			return err
		}
		if !s.links.Minted(mac, tokenSubject(row.ID, row.SandboxID)) { // its end was compared by the database's clock
			return refused
		}
		actor = authz.Actor{
			Kind: authz.AttemptActor, Name: string(row.RunID), Attempt: row.ID, Run: row.RunID, Organization: row.OrganizationID, Workspace: row.WorkspaceID,
			Phase: row.Phase, Sandbox: row.SandboxID, Epoch: row.FenceEpoch, Predecessor: row.PredecessorVersionID, Applying: row.Applying,
		}
		return nil
	})
	return actor, err
}

// AuthenticateEnded gives the attempt a session token was made for, even when the
// attempt has ended: only a repeated report may use it.
func (s *Service) AuthenticateEnded(ctx context.Context, token string) (id ids.Attempt, err error) {
	refused := fault.New(fault.Unauthenticated, "unauthenticated", "This attempt's token is not valid.")
	claimed, mac, ok := parseToken(token)
	if !ok {
		return "", refused
	}
	err = postgres.InSnapshot(ctx, s.db, "dispatch.authenticate-ended", func(tx postgres.Tx) error {
		a, err := Get(ctx, tx, claimed)
		if fault.Is(err, fault.NotFound) || (err == nil && !s.links.Minted(mac, tokenSubject(a.ID, a.SandboxID))) {
			return refused
		}
		id = a.ID
		return err
	})
	return id, err
}

// parseToken splits a session token; ok is false for text that cannot be one.
func parseToken(token string) (id ids.Attempt, mac string, ok bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	if !ok {
		return "", "", false
	}
	name, mac, ok := strings.Cut(rest, ".")
	if !ok {
		return "", "", false
	}
	id, err := ids.Parse[ids.Attempt](name)
	return id, mac, err == nil
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

// StartApply notes that the authority to apply was redeemed and when. first is
// false when it was before, or when the attempt is no running apply.
func StartApply(ctx context.Context, tx postgres.Tx, id ids.Attempt) (at time.Time, first bool, err error) {
	at, err = postgres.Value[time.Time](ctx, tx, Queries.Get("StartApply"), postgres.Args{"id": id})
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
}

// Finish ends an attempt from the status its caller saw under the row's lock.
func Finish(ctx context.Context, tx postgres.Tx, a Attempt, end End) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Finish"), postgres.Args{
		"id": a.ID, "from_status": string(a.Status), "status": string(end.Status), "outcome": end.Outcome, "exit_code": end.ExitCode, "done_digest": end.DoneDigest,
	})
	if err != nil {
		return fmt.Errorf("finish %s: %w", a.ID, err)
	}
	if n == 0 {
		return fault.New(fault.Conflict, "attempt_ended", "Attempt %s has ended.", a.ID)
	}
	return nil
}
