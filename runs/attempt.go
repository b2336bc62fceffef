package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Poll records the polling runner and assigns it the attempt whose turn it is; found
// is false when none fits now. The runner's id is given in either case. A poll
// repeated after a lost answer gets the same attempt. Organizations whose gates
// are closed have none. An offer is no promise: should PostgreSQL crash and forget it,
// the runner's accept is refused (assignment_lost) and the attempt is offered again, so
// the answer does not wait for the disk.
// Errors: Conflict "release_not_allowed" (AU-07).
func (s *Service) Poll(ctx context.Context, group accounts.RunnerGroup, hello dispatch.RunnerHello) (runner ids.Runner, a dispatch.Attempt, found bool, err error) {
	err = postgres.InTx(ctx, s.db, "runs.poll", func(tx postgres.Tx) error {
		if err := mayExecute(ctx, tx, hello.Release); err != nil {
			return err
		}
		if err := errors.Join(postgres.ForgoFlush(ctx, tx), postgres.PlanOnce(ctx, tx)); err != nil {
			return err
		}
		if runner, err = dispatch.See(ctx, tx, group, hello); err != nil {
			return err
		}
		trusted := false
		err := postgres.LaterOne(ctx, tx, Queries.Get("PrimaryTrusted"), nil, func(row struct{ Trusted bool }, _ bool) error {
			trusted = row.Trusted
			return nil
		})
		if err != nil {
			return err
		}
		// A new one was offered nothing yet; asked all the same, in one exchange with what is above.
		if a, found, err = dispatch.Offered(ctx, tx, group, runner); err != nil || found || !trusted {
			return err
		}
		seen := hello
		seen.ID = runner
		a, found, err = dispatch.Claim(ctx, tx, group, seen, s.settings.AssignmentExpiry)
		return err
	})
	return runner, a, found, err
}

// Claim is Poll for a runner that has polled already and waits: it only looks for
// work. See dispatch.Claim, and Poll for what an offer is worth.
func (s *Service) Claim(ctx context.Context, group accounts.RunnerGroup, hello dispatch.RunnerHello) (a dispatch.Attempt, found bool, err error) {
	err = postgres.InTx(ctx, s.db, "runs.claim", func(tx postgres.Tx) error {
		if err := errors.Join(postgres.ForgoFlush(ctx, tx), postgres.PlanOnce(ctx, tx)); err != nil {
			return err
		}
		a, found, err = dispatch.Claim(ctx, tx, group, hello, s.settings.AssignmentExpiry)
		return err
	})
	return a, found, err
}

// Ready marks a runner ready to accept. Should PostgreSQL crash and forget it, the accept
// is refused (runner_not_ready).
func (s *Service) Ready(ctx context.Context, group accounts.RunnerGroup, runner ids.Runner) error {
	return postgres.InTx(ctx, s.db, "runs.ready", func(tx postgres.Tx) error {
		if err := postgres.ForgoFlush(ctx, tx); err != nil {
			return err
		}
		return dispatch.Ready(ctx, tx, group, runner)
	})
}

// Deregister removes a runner.
func (s *Service) Deregister(ctx context.Context, group accounts.RunnerGroup, runner ids.Runner) error {
	return postgres.InTx(ctx, s.db, "runs.deregister", func(tx postgres.Tx) error { return dispatch.Deregister(ctx, tx, group, runner) })
}

// Facts are what a manifest is made from.
type Facts struct {
	Attempt       dispatch.Attempt
	Run           Run
	Configuration artifacts.Object
	Plan          artifacts.Object // apply
	LockFile      artifacts.Object // apply; zero when the plan's init wrote none
	Settings      Settings
}

func (s *Service) fixManifest(ctx context.Context, tx postgres.Tx, id ids.Attempt, r Run, render func(Facts) ([]byte, error)) (dispatch.Attempt, error) {
	a, err := dispatch.Get(ctx, tx, id)
	if err != nil {
		return a, err
	}
	facts := Facts{Attempt: a, Run: r, Settings: s.settings}
	for _, part := range []struct {
		object ids.Object
		into   *artifacts.Object
		needed bool
	}{{r.ConfigurationObjectID, &facts.Configuration, true}, {r.PlanObjectID, &facts.Plan, a.Phase == authz.Apply}, {r.LockFileObjectID, &facts.LockFile, false}} {
		if part.object == "" && !part.needed {
			continue
		}
		if *part.into, err = s.objects.Info(ctx, tx, r.OrganizationID, part.object); err != nil {
			return a, err
		}
	}
	manifest, err := render(facts)
	if err != nil {
		return a, fmt.Errorf("write the manifest: %w", err)
	}
	sum := sha256.Sum256(manifest)
	a.Manifest, a.ManifestDigest = manifest, hex.EncodeToString(sum[:])
	return a, dispatch.FixManifest(ctx, tx, id, manifest, a.ManifestDigest)
}

// runnerActor is the attempt as the history and the audit log name it.
func runnerActor(a dispatch.Attempt) authz.Actor {
	return authz.Actor{Kind: authz.AttemptActor, Attempt: a.ID, Run: a.RunID}
}

// lockAttempt locks workspace, run and attempt in this order.
func lockAttempt(ctx context.Context, tx postgres.Tx, id ids.Attempt) (dispatch.Attempt, Run, error) {
	var status fence.Status
	if err := fence.LockOf(ctx, tx, "", id, &status); err != nil {
		return dispatch.Attempt{}, Run{}, err
	}
	if err := postgres.Later(ctx, tx, Queries.Get("RunLock"), postgres.Args{"id": "", "attempt_id": id}, nil); err != nil {
		return dispatch.Attempt{}, Run{}, err
	}
	var r Run
	err := postgres.LaterOne(ctx, tx, Queries.Get("RunGet"), postgres.Args{"id": "", "attempt_id": id, "queue_of": ""}, func(row Run, _ bool) error {
		r = row
		return nil
	})
	if err != nil {
		return dispatch.Attempt{}, r, err
	}
	a, err := dispatch.Lock(ctx, tx, id)
	if err == nil && (r.ID != a.RunID || status.Workspace != a.WorkspaceID) {
		err = fmt.Errorf("the run or the workspace of %s is not there", id) // a constraint says that they are
	}
	return a, r, err
}

// Heartbeat notes that an attempt's runner lives and tells whether it shall stop. One that
// PostgreSQL forgets in a crash is followed by the next.
func (s *Service) Heartbeat(ctx context.Context, actor authz.Actor) (stop bool, err error) {
	err = postgres.InTx(ctx, s.db, "runs.heartbeat", func(tx postgres.Tx) error {
		if err := postgres.ForgoFlush(ctx, tx); err != nil {
			return err
		}
		stop, err = dispatch.Heartbeat(ctx, tx, actor.Attempt)
		return err
	})
	return stop, err
}

// HeartbeatInterval is how often a runner asks for its status.
func (s *Service) HeartbeatInterval() time.Duration { return s.settings.Heartbeat }

// inputs maps the kinds an attempt may fetch to the run's objects.
func (r Run) input(phase authz.Phase, kind artifacts.Kind) ids.Object {
	switch {
	case kind == artifacts.KindConfiguration:
		return r.ConfigurationObjectID
	case kind == artifacts.KindPlan && phase == authz.Apply:
		return r.PlanObjectID
	case kind == artifacts.KindLockFile && phase == authz.Apply:
		return r.LockFileObjectID
	}
	return ""
}

// Input gives an input of the attempt. The caller closes the reader.
func (s *Service) Input(ctx context.Context, actor authz.Actor, kind artifacts.Kind) (io.ReadCloser, artifacts.Object, error) {
	var r Run
	err := postgres.InSnapshot(ctx, s.db, "runs.input", func(tx postgres.Tx) (err error) {
		r, err = load(ctx, tx, actor.Run)
		return err
	})
	if err != nil {
		return nil, artifacts.Object{}, err
	}
	object := r.input(actor.Phase, kind)
	if object == "" {
		return nil, artifacts.Object{}, fault.Missing("input", string(kind))
	}
	return s.objects.Open(ctx, r.OrganizationID, object)
}

// InputVariables gives the values the run was created with: the workspace's first,
// then the run's own; and, where they name whom it is for, a token of what the run is.
func (s *Service) InputVariables(ctx context.Context, actor authz.Actor) (list []Variable, err error) {
	var r Run
	var a dispatch.Attempt
	var w workspaces.Workspace
	err = postgres.InSnapshot(ctx, s.db, "runs.input-variables", func(tx postgres.Tx) error {
		if r, err = load(ctx, tx, actor.Run); err != nil {
			return err
		}
		if list, err = s.openVariables(ctx, tx, r.OrganizationID, snapshotLabel(r.ID), r.VariablesSealed); err != nil || identityAudience(list) == "" {
			return err
		}
		if w, err = workspaces.Load(ctx, tx, r.WorkspaceID); err != nil {
			return err
		}
		a, err = dispatch.Get(ctx, tx, actor.Attempt)
		return err
	})
	if err != nil || s.settings.Identity == nil || identityAudience(list) == "" || a.TokenExpiresAt == nil {
		return list, err
	}
	token, err := s.settings.Identity(ctx, site.Claims{
		Audience: identityAudience(list), OrganizationID: string(r.OrganizationID), OrganizationName: w.OrganizationName, ProjectID: string(w.Project), ProjectName: w.ProjectName,
		WorkspaceID: string(w.ID), WorkspaceName: w.Name, RunID: string(r.ID), Phase: string(a.Phase), ExpiresAt: *a.TokenExpiresAt,
	})
	return append(list, Variable{Key: "TFC_WORKLOAD_IDENTITY_TOKEN", Value: token, Env: true}), err
}

// identityAudience is for whom a run wants a token of what it is, or empty.
func identityAudience(list []Variable) (audience string) {
	for _, v := range list {
		if v.Env && v.Key == workspaces.IdentityAudience {
			audience = v.Value // the later one wins
		}
	}
	return audience
}

// artifactLimits bounds what an attempt may hand over, by kind, in bytes.
var artifactLimits = map[artifacts.Kind]int64{
	artifacts.KindPlan:             1 << 30,
	artifacts.KindPlanJSON:         1 << 30,
	artifacts.KindPlanJSONRedacted: 1 << 30,
	artifacts.KindLockFile:         4 << 20,
	artifacts.KindCostEstimate:     5 << 20,
}

// HandOver takes an artifact of a plan attempt, once a kind (RL-15). sha256 is the
// digest the runner names; other bytes are Invalid "digest_mismatch".
func (s *Service) HandOver(ctx context.Context, actor authz.Actor, kind artifacts.Kind, digest string, body io.Reader) error {
	limit, ok := artifactLimits[kind]
	if !ok || actor.Phase != authz.Plan {
		return fault.Missing("artifact kind", string(kind))
	}
	if kind == artifacts.KindPlan {
		if err := s.mayHandOverPlan(ctx, actor.Run); err != nil {
			return err
		}
	}
	spec := artifacts.Spec{Organization: actor.Organization, Workspace: actor.Workspace, Kind: kind, Run: actor.Run, Epoch: actor.Epoch}
	_, err := s.objects.PutWith(ctx, spec, body, limit, func(tx postgres.Tx, object artifacts.Object) error {
		if digest != object.SHA256 {
			return fault.New(fault.Invalid, "digest_mismatch", "The bytes have the SHA-256 %s, not %s. Send them again.", object.SHA256, digest)
		}
		a, err := dispatch.Lock(ctx, tx, actor.Attempt)
		if err != nil {
			return err
		}
		return dispatch.HandOver(ctx, tx, a, string(kind), object)
	})
	return err
}

// mayHandOverPlan refuses what could be applied where nothing is to be (OP-05).
func (s *Service) mayHandOverPlan(ctx context.Context, run ids.Run) error {
	return postgres.InOneStatement(ctx, s.db, "runs.may-hand-over", func(tx postgres.Tx) error {
		r, err := load(ctx, tx, run)
		if err == nil && r.PlanOnly {
			err = fault.New(fault.Conflict, "plan_only", "%s only plans, so its plan file is not kept.", run)
		}
		return err
	})
}

// AppendLog takes a piece of one of the attempt's logs; see dispatch.AppendLog. Each
// may have as many bytes as its stream makes of Settings.LogLimit (dispatch.Stream.Limit).
func (s *Service) AppendLog(ctx context.Context, actor authz.Actor, stream dispatch.Stream, start int64, data []byte) (next int64, err error) {
	err = postgres.InTx(ctx, s.db, "runs.append-log", func(tx postgres.Tx) error {
		a, err := dispatch.Lock(ctx, tx, actor.Attempt)
		if err != nil {
			return err
		}
		next, err = s.dispatch.AppendLog(ctx, tx, a, stream, start, data, s.settings.LogLimit)
		return err
	})
	return next, err
}
