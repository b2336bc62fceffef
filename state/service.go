package state

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"regexp"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// UploadLifetime is how long after its announcement an upload may begin (G-28). One
// that has begun may be repeated later.
const UploadLifetime = 15 * time.Minute

// DefaultUploadLimit is how many bytes a state, and its JSON form, may have unless
// UploadLimit says otherwise.
const DefaultUploadLimit = 512 << 20

// Service publishes and reads state versions.
type Service struct {
	db      *postgres.DB
	objects *artifacts.Service
	limit   int64 // bytes of an upload
}

// Option changes how the service works.
type Option func(*Service)

// UploadLimit sets how many bytes a state, and its JSON form, may have.
func UploadLimit(bytes int64) Option { return func(s *Service) { s.limit = bytes } }

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service, options ...Option) *Service {
	s := &Service{db: db, objects: objects, limit: DefaultUploadLimit}
	for _, set := range options {
		set(s)
	}
	return s
}

// Create announces an upload. Serial, Lineage and MD5 (lower hex of the raw bytes)
// are what the client says; Lineage may be empty. Outputs is the JSON object that
// the client sends beside a state (name → {value, type, sensitive}); it serves only
// for a state that the client encrypted, and is not kept where the workspace insists
// on that.
type Create struct {
	Serial  int64
	Lineage string
	MD5     string
	Force   bool
	Outputs []byte
}

var md5Hex = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (c Create) check() error {
	switch {
	case c.Serial < 0:
		return accounts.Invalid("serial", "Serial must not be negative")
	case !storableLineage(c.Lineage):
		return accounts.Invalid("lineage", "Lineage must be at most %d bytes of text", lineageLimit)
	case !md5Hex.MatchString(c.MD5):
		return accounts.Invalid("md5", "MD5 must be the MD5 of the state file in 32 lower-case hexadecimal digits")
	}
	return nil
}

// Begin announces a state version under the lock that the actor holds (ST-02,
// ST-15). The exact repeat under the same lock answers the same version and
// created=false (amendment 15).
// Errors: Invalid for a broken attribute; Conflict "workspace_not_locked",
// "workspace_locked", "stale_fence", "stale_serial", "lineage_mismatch"; RecoveryHeld;
// Forbidden for a force without the right (ST-22).
func (s *Service) Begin(ctx context.Context, actor authz.Actor, workspace ids.Workspace, in Create) (v Version, created bool, err error) {
	if err := in.check(); err != nil {
		return Version{}, false, err
	}
	err = postgres.InTx(ctx, s.db, "state.begin", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.StateWrite, workspace)
		if err != nil {
			return err
		}
		var status fence.Status
		var earlier ids.StateVersion
		announced := 0 // by the same attempt
		err = errors.Join(fence.LockLater(ctx, tx, workspace, &status), retryLater(ctx, tx, workspace, in, &earlier), announcedLater(ctx, tx, actor, &announced))
		if err != nil {
			return err
		}
		current, err := current(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if err := mayPublish(actor, status); err != nil {
			return err
		}
		if earlier != "" {
			if again, err := s.retried(ctx, tx, earlier, current); err != nil || again.ID != "" {
				v, created = again, false
				return err
			}
		}
		if err := withinBound(announced); err != nil {
			return err
		}
		if err := in.mayFollow(current, actor, w); err != nil {
			return err
		}
		created = true
		return s.insertLater(ctx, tx, actor, w, status, current.ID, in, &v)
	})
	return v, created, err
}

// mayPublish demands that the actor holds the fence now: a user by its own lock, an
// attempt by its run's, with the epoch it was given.
func mayPublish(actor authz.Actor, status fence.Status) error {
	if actor.Kind == authz.AttemptActor {
		if !actor.Applying {
			return fault.New(fault.Conflict, "not_applying", "This attempt has not redeemed its authority to apply, so it may not publish state.")
		}
		if status.RecoveryHeld || !status.HeldBy(fence.Run, string(actor.Run)) || status.Epoch != actor.Epoch {
			return fault.New(fault.Conflict, "stale_fence", "This run no longer holds the workspace: its lock (epoch %d) has been taken away. The state was not accepted; it is left in errored.tfstate.", actor.Epoch)
		}
		return nil
	}
	if err := status.CheckRecovery(); err != nil {
		return err
	}
	if !status.Held() {
		return fault.New(fault.Conflict, "workspace_not_locked", "The workspace is not locked. Lock it, read the current state, and upload the new one while you hold the lock.")
	}
	if !status.HeldByActor(actor) {
		return fault.New(fault.Conflict, "workspace_locked", "The workspace %s, and only the holder of the lock may write its state.", status.Describe())
	}
	return nil
}

// mayForce holds ST-22: replacing history takes an admin's right and a user's lock.
func mayForce(actor authz.Actor, w workspaces.Workspace) error {
	if actor.Kind == authz.AttemptActor {
		return fault.New(fault.Forbidden, "forbidden", "A run may not force a state. Lock the workspace as its admin and push the state yourself.")
	}
	return authz.Allow(actor, authz.StateForce, workspaces.Object(w))
}

// mayFollow checks early what was declared; the bytes are checked again when they
// are there.
func (c Create) mayFollow(current Version, actor authz.Actor, w workspaces.Workspace) error {
	if c.Force && current.ID != "" {
		return mayForce(actor, w)
	}
	if actor.Kind != authz.AttemptActor && c.MD5 == current.DeclaredMD5 {
		return nil // the bytes decide, and they are those of the current one
	}
	if c.Lineage != "" {
		if refused := sameLineage(current, c.Serial, c.Lineage); refused != nil {
			return refused
		}
	}
	if refused := advances(current, c.Serial, c.MD5 == current.DeclaredMD5); refused != nil {
		return refused
	}
	return nil
}

// sameLineage and advances hold ST-16 and amendment 15: a state follows the current
// one when it is of the same lineage and has a higher serial, or is the same bytes.
func sameLineage(current Version, serial int64, lineage string) *fault.Error {
	if current.ID == "" || current.Lineage == lineage {
		return nil
	}
	return fault.New(fault.Conflict, "lineage_mismatch",
		"The workspace holds a state of lineage %q (serial %d), and the uploaded one is of lineage %q (serial %d): they describe different infrastructure. "+
			"To go back to an earlier state use a rollback of its state version.", current.Lineage, current.Serial, lineage, serial)
}

func advances(current Version, serial int64, sameBytes bool) *fault.Error {
	if current.ID == "" || serial > current.Serial || (serial == current.Serial && sameBytes) {
		return nil
	}
	return fault.New(fault.Conflict, "stale_serial",
		"The current state has serial %d and the uploaded one has serial %d, which is not newer. Read the current state and repeat the change on top of it; "+
			"to go back to an earlier state use a rollback of its state version.", current.Serial, serial)
}

// retryLater goes with the transaction's next statement: with that, into names the version
// that the same create made before under the lock, if it made one.
func retryLater(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, in Create, into *ids.StateVersion) error {
	return postgres.LaterOne(ctx, tx, Queries.Get("Retry"), postgres.Args{
		"workspace_id": workspace, "declared_serial": in.Serial, "declared_md5": in.MD5,
	}, func(earlier struct{ ID ids.StateVersion }, _ bool) error {
		*into = earlier.ID
		return nil
	})
}

// retried gives the version that the same create made before; none when its time to be
// uploaded is over: then it is given up.
func (s *Service) retried(ctx context.Context, tx postgres.Tx, id ids.StateVersion, current Version) (Version, error) {
	expired, err := postgres.Exec(ctx, tx, Queries.Get("DiscardExpired"), postgres.Args{"id": id})
	if err != nil || expired == 1 {
		return Version{}, err
	}
	v, err := s.Load(ctx, tx, id)
	if err != nil || v.Status != Finalized {
		return v, err
	}
	if current.ID != id { // answering it as accepted would say that it is current
		return Version{}, fault.New(fault.Conflict, "stale_serial", "This state (serial %d) was published under this lock before, and serial %d has replaced it since. To go back to it use a rollback to state version %s.", v.Serial, current.Serial, id)
	}
	return v, nil
}

// insertLater announces a version. It goes with the transaction's commit: with that, into has it.
func (s *Service) insertLater(ctx context.Context, tx postgres.Tx, actor authz.Actor, w workspaces.Workspace, status fence.Status, base ids.StateVersion, in Create, into *Version) error {
	id := ids.New[ids.StateVersion]()
	var sealed []byte
	if len(in.Outputs) > 0 && !w.ClientEncrypted {
		var err error
		if sealed, err = s.objects.SealValue(ctx, tx, w.Organization, outputsLabel(id), in.Outputs); err != nil {
			return err
		}
	}
	args := postgres.Args{
		"id": id, "organization_id": w.Organization, "workspace_id": w.ID, "epoch": status.Epoch,
		"holder_kind": string(status.Holder.Kind), "holder_id": status.Holder.ID,
		"declared_serial": in.Serial, "declared_lineage": in.Lineage, "declared_md5": in.MD5, "declared_outputs_sealed": sealed, "forced": in.Force && base != "",
		"base_version_id": base, "run_id": actor.Run, "attempt_id": actor.Attempt, "sandbox_id": actor.Sandbox, "created_by": actor.User,
		"lifetime_seconds": UploadLifetime.Seconds(),
	}
	return postgres.LaterOne(ctx, tx, Queries.Get("Insert"), args, func(row versionRow, _ bool) error {
		*into = row.version()
		return nil
	})
}

func outputsLabel(id ids.StateVersion) string   { return "state-outputs/" + string(id) }
func resourcesLabel(id ids.StateVersion) string { return "state-resources/" + string(id) }

func sealResources(sealer artifacts.Sealer, id ids.StateVersion, resources []Resource) ([]byte, error) {
	encoded, err := json.Marshal(resources)
	if err != nil {
		return nil, err
	}
	return sealer.Seal(resourcesLabel(id), encoded), nil
}
