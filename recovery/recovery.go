package recovery

import (
	"context"
	_ "embed"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Settings of the service; Defaults gives them.
type Settings struct {
	Lease      time.Duration // how long a prepared recovery is its principal's alone (RC-42)
	StateLimit int64         // bytes of an emergency state
	// StepUp answers nil for an actor that proved lately who it is (RC-12); else its
	// answer is given to the client. Nil refuses everybody.
	StepUp func(ctx context.Context, tx postgres.Tx, actor authz.Actor) error
}

// Defaults gives the settings a server starts with.
func Defaults() Settings {
	return Settings{Lease: 15 * time.Minute, StateLimit: state.DefaultUploadLimit}
}

// Service frees held workspaces.
type Service struct {
	db       *postgres.DB
	objects  *artifacts.Service
	state    *state.Service
	dispatch *dispatch.Service
	settings Settings
}

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service, st *state.Service, d *dispatch.Service, settings Settings) *Service {
	if settings.StepUp == nil {
		settings.StepUp = func(context.Context, postgres.Tx, authz.Actor) error {
			return fault.New(fault.Forbidden, "step_up_required", "A recovery needs a recent step-up, and this server has none.")
		}
	}
	return &Service{db: db, objects: objects, state: st, dispatch: d, settings: settings}
}

// Report is what is known about a held run (RC-06).
type Report struct {
	Run         ids.Run
	Workspace   string // organization/name
	Status      runs.Status
	Reason      string
	Message     string
	Epoch       int64
	HeldSince   time.Time
	Before      *state.Version // current when the run was admitted; nil: no state
	Now         *state.Version // current now; nil: no state
	Publication int            // versions between the two that this run published
	OpenUploads int
}

// Inspect reports on a held run.
// Errors: NotFound; Conflict "not_held" when the run holds nothing for recovery.
func (s *Service) Inspect(ctx context.Context, run ids.Run) (r Report, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.inspect", func(tx postgres.Tx) error {
		report, _, _, found, err := s.lost(ctx, tx, run, fence.Read)
		if err != nil || found {
			r = report
			return err
		}
		held, err := runs.Load(ctx, tx, run)
		if err != nil {
			return err
		}
		status, err := fence.Read(ctx, tx, held.WorkspaceID)
		if err != nil {
			return err
		}
		r, err = s.report(ctx, tx, held, status)
		return err
	})
	return r, err
}

func (s *Service) report(ctx context.Context, tx postgres.Tx, held runs.Run, status fence.Status) (Report, error) {
	if !status.RecoveryHeld || !status.HeldBy(fence.Run, string(held.ID)) {
		return Report{}, fault.New(fault.Conflict, "not_held", "%s is %s and does not hold its workspace for recovery; there is nothing to release.", held.ID, held.DurableStatus)
	}
	r := Report{
		Run: held.ID, Workspace: held.OrganizationName + "/" + held.WorkspaceName, Status: held.DurableStatus, Reason: held.DurableReason,
		Message: held.StatusMessage, Epoch: status.Epoch, HeldSince: *held.FinishedAt,
	}
	current, err := state.CurrentID(ctx, tx, held.WorkspaceID)
	if err != nil {
		return r, err
	}
	for _, part := range []struct {
		id   ids.StateVersion
		into **state.Version
	}{{held.PredecessorVersionID, &r.Before}, {current, &r.Now}} {
		if part.id == "" {
			continue
		}
		v, err := s.state.Load(ctx, tx, part.id)
		if err != nil {
			return r, err
		}
		*part.into = &v
	}
	if r.Publication, err = state.Publications(ctx, tx, held.ID); err != nil {
		return r, err
	}
	r.OpenUploads, err = state.OpenUploads(ctx, tx, held.WorkspaceID, status.Epoch)
	return r, err
}

// Release is the break-glass of the server's host. It frees the workspace of a held run on
// the operator's word, which is audited as such: the current
// state stays current, the run stays in history as needs_recovery, the epoch grows
// and the next run is promoted (RC-54…RC-61).
// Errors: Invalid "reason_required"; those of Inspect.
func (s *Service) Release(ctx context.Context, actor authz.Actor, run ids.Run, reason string) (r Report, err error) {
	reason = strings.TrimSpace(reason)
	if reason == "" || len(reason) > 2000 {
		return Report{}, fault.New(fault.Invalid, "reason_required", "Say in 1 to 2,000 characters why the current state can be trusted; it is kept in the audit log.")
	}
	err = postgres.InTx(ctx, s.db, "recovery.release", func(tx postgres.Tx) error {
		report, found, err := s.releaseLost(ctx, tx, actor, run, reason)
		if err != nil || found {
			r = report
			return err
		}
		held, status, err := runs.Lock(ctx, tx, run)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.RunRecover, held.Object()); err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.StateRecover, held.Object()); err != nil {
			return err
		}
		if r, err = s.report(ctx, tx, held, status); err != nil {
			return err
		}
		if err := runs.Recover(ctx, tx, actor, held, reason); err != nil {
			return err
		}
		if err := s.breakPrepared(ctx, tx, run); err != nil {
			return err
		}
		epoch, err := fence.Revoke(ctx, tx, status)
		if err != nil {
			return err
		}
		slog.WarnContext(ctx, "a held workspace is freed on the server's host, without proof of its state", "run", run, "workspace", held.WorkspaceID, "reason", reason)
		for _, action := range []string{"run.recovered", "state.recovered", "recovery.break-glass"} {
			err := audit.Append(ctx, tx, audit.Entry{
				Organization: held.OrganizationID, Actor: actor, Action: action, ObjectKind: "run", ObjectID: string(run), Reason: reason,
				Details: map[string]any{
					"workspace": held.WorkspaceID, "resolution": "current_state_verified", "host_local": true, "from_status": held.DurableStatus,
					"before": held.PredecessorVersionID, "current": versionID(r.Now), "epoch": epoch, "open_uploads": r.OpenUploads,
				},
			})
			if err != nil {
				return err
			}
		}
		return runs.PromoteNext(ctx, tx, held.WorkspaceID)
	})
	return r, err
}

func versionID(v *state.Version) ids.StateVersion {
	if v == nil {
		return ""
	}
	return v.ID
}
