package state

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Status of a version.
type Status string

// The statuses. A discarded version was refused; its bytes are kept as evidence.
const (
	Pending   Status = "pending"
	Finalized Status = "finalized"
	Discarded Status = "discarded"
)

// Version is one state version. Serial and Lineage are those of the bytes once
// they are there, and the declared ones before.
type Version struct {
	ID               ids.StateVersion
	Organization     ids.Organization
	Workspace        ids.Workspace
	Project          ids.Project // in which the workspace is now
	Status           Status
	DiscardReason    string
	Epoch            int64
	HolderKind       fence.HolderKind
	HolderID         string
	Serial           int64
	Lineage          string
	DeclaredSerial   int64
	DeclaredLineage  string
	DeclaredMD5      string
	Forced           bool
	Size             int64
	SHA256           string
	ClientEncrypted  bool
	TerraformVersion string
	Resources        []Resource // filled in by withResources; empty where nobody asked for it, or when it was too large to be kept
	ResourceCount    int        // resource blocks in the file; 0 when they cannot be read
	Base             ids.StateVersion
	RollbackOf       ids.StateVersion
	Run              ids.Run
	Attempt          ids.Attempt
	Sandbox          string
	CreatedBy        ids.User
	Object           ids.Object
	JSONObject       ids.Object
	CreatedAt        time.Time
	FinalizedAt      *time.Time
	HiddenAt         *time.Time // its bytes are out of reach since then
	DeletedAt        *time.Time // and given up since then

	mustBeEncrypted bool // the workspace takes nothing else; unknown in lists
	gone            bool // the workspace is deleted; unknown in lists
}

// actor is who began the upload, for the audit log: the PUT itself carries only a link.
func (v Version) actor() authz.Actor {
	if v.Attempt != "" && v.HolderKind != fence.Recovery {
		return authz.Actor{Kind: authz.AttemptActor, Attempt: v.Attempt, Run: v.Run}
	}
	return authz.Actor{Kind: authz.UserActor, User: v.CreatedBy}
}

type versionRow struct {
	ID               ids.StateVersion
	OrganizationID   ids.Organization
	WorkspaceID      ids.Workspace
	ProjectID        ids.Project
	Status           Status
	DiscardReason    string
	Epoch            int64
	HolderKind       fence.HolderKind
	HolderID         string
	DeclaredSerial   int64
	DeclaredLineage  string
	DeclaredMD5      string `db:"declared_md5"`
	Forced           bool
	Serial           int64
	Lineage          string
	Size             int64
	SHA256           string `db:"sha256"`
	ClientEncrypted  bool
	TerraformVersion string
	BaseVersionID    ids.StateVersion
	RollbackOfID     ids.StateVersion
	RunID            ids.Run
	AttemptID        ids.Attempt
	SandboxID        string
	CreatedBy        ids.User
	ObjectID         ids.Object
	JSONObjectID     ids.Object `db:"json_object_id"`
	MustBeEncrypted  bool
	Gone             bool
	ResourceCount    int
	CreatedAt        time.Time
	FinalizedAt      *time.Time
	BackingHiddenAt  *time.Time
	BackingDeletedAt *time.Time
}

func (r versionRow) version() Version {
	return Version{
		ID: r.ID, Organization: r.OrganizationID, Workspace: r.WorkspaceID, Project: r.ProjectID, Status: r.Status, DiscardReason: r.DiscardReason, Epoch: r.Epoch,
		HolderKind: r.HolderKind, HolderID: r.HolderID, Serial: r.Serial, Lineage: r.Lineage, DeclaredSerial: r.DeclaredSerial,
		DeclaredLineage: r.DeclaredLineage, DeclaredMD5: r.DeclaredMD5, Forced: r.Forced, Size: r.Size, SHA256: r.SHA256,
		ClientEncrypted: r.ClientEncrypted, TerraformVersion: r.TerraformVersion, Base: r.BaseVersionID, RollbackOf: r.RollbackOfID,
		Run: r.RunID, Attempt: r.AttemptID, Sandbox: r.SandboxID, CreatedBy: r.CreatedBy, Object: r.ObjectID, JSONObject: r.JSONObjectID,
		ResourceCount: r.ResourceCount, CreatedAt: r.CreatedAt, FinalizedAt: r.FinalizedAt, HiddenAt: r.BackingHiddenAt, DeletedAt: r.BackingDeletedAt,
		mustBeEncrypted: r.MustBeEncrypted, gone: r.Gone,
	}
}

// load reads one version without what is sealed in its row.
func (s *Service) load(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (Version, error) {
	return readVersion(ctx, tx, "Get", postgres.Args{"id": id}, fault.Missing("state version", string(id)))
}

// readVersion runs a statement that gives one version; without a row it answers none.
func readVersion(ctx context.Context, tx postgres.Tx, query string, args postgres.Args, none error) (Version, error) {
	row, err := postgres.One[versionRow](ctx, tx, Queries.Get(query), args)
	if postgres.NoRow(err) {
		return Version{}, none
	}
	if err != nil {
		return Version{}, fmt.Errorf("%s a state version: %w", strings.ToLower(query), err)
	}
	return row.version(), nil
}

// lockLater locks a version for the rest of the transaction, whose next statement it goes
// with: with that, into has it, or the transaction has failed because there is none.
func lockLater(ctx context.Context, tx postgres.Tx, id ids.StateVersion, into *Version) error {
	return postgres.LaterOne(ctx, tx, Queries.Get("Lock"), postgres.Args{"id": id}, func(row versionRow, found bool) error {
		if !found {
			return fault.Missing("state version", string(id))
		}
		*into = row.version()
		return nil
	})
}

// withResources opens the list of resources, which may be large, for those who show
// or count it. Only a finalized version has one.
func (s *Service) withResources(ctx context.Context, tx postgres.Tx, v Version) (Version, error) {
	if v.Status != Finalized {
		return v, nil
	}
	sealed, err := postgres.Value[[]byte](ctx, tx, Queries.Get("ResourcesSealed"), postgres.Args{"id": v.ID})
	if err != nil {
		return Version{}, fmt.Errorf("read the resources of %s: %w", v.ID, err)
	}
	return s.openResources(ctx, tx, v, sealed)
}

func (s *Service) openResources(ctx context.Context, tx postgres.Tx, v Version, sealed []byte) (Version, error) {
	if sealed == nil {
		return v, nil
	}
	plain, err := s.objects.OpenValue(ctx, tx, v.Organization, resourcesLabel(v.ID), sealed)
	if err != nil {
		return Version{}, err
	}
	if err := json.Unmarshal(plain, &v.Resources); err != nil {
		return Version{}, fmt.Errorf("read the resources of %s: %w", v.ID, err)
	}
	return v, nil
}

// CurrentID gives the current version of a workspace; empty when it has no state.
func CurrentID(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) (ids.StateVersion, error) {
	return postgres.Value[ids.StateVersion](ctx, tx, Queries.Get("Current"), postgres.Args{"workspace_id": workspace})
}

// current gives the current version of a workspace; a zero one when it has no state.
func current(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) (Version, error) {
	return readVersion(ctx, tx, "CurrentVersion", postgres.Args{"workspace_id": workspace}, nil)
}

// Current gives the version that the actor works on: the current one for a user;
// for an attempt its run's own latest publication, else the predecessor that the
// run was admitted on (ST-01). NotFound "no_state" means that there is none yet.
func (s *Service) Current(ctx context.Context, actor authz.Actor, workspace ids.Workspace) (v Version, err error) {
	err = postgres.InSnapshot(ctx, s.db, "state.current", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.StateRead, workspace)
		if err != nil {
			return err
		}
		id, err := currentFor(ctx, tx, actor, workspace)
		if err != nil {
			return err
		}
		if id == "" {
			return fault.New(fault.NotFound, "no_state", "Workspace %q has no state yet.", w.Name)
		}
		if v, err = s.load(ctx, tx, id); err != nil {
			return err
		}
		v, err = s.withResources(ctx, tx, v)
		return err
	})
	return v, err
}

// currentFor gives the version that the actor works on (ST-01); empty when there is none.
func currentFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, workspace ids.Workspace) (ids.StateVersion, error) {
	if actor.Kind != authz.AttemptActor || actor.Workspace != workspace {
		return CurrentID(ctx, tx, workspace)
	}
	id, err := PublishedByRun(ctx, tx, actor.Run)
	if err != nil || id != "" {
		return id, err
	}
	return actor.Predecessor, nil
}

// PublishedByRun gives the newest version that the run published; empty when it published none.
func PublishedByRun(ctx context.Context, tx postgres.Tx, run ids.Run) (ids.StateVersion, error) {
	return postgres.Value[ids.StateVersion](ctx, tx, Queries.Get("PublishedByRun"), postgres.Args{"run_id": run})
}

// Publications counts the versions that the run published.
func Publications(ctx context.Context, tx postgres.Tx, run ids.Run) (int, error) {
	return postgres.Value[int](ctx, tx, Queries.Get("Publications"), postgres.Args{"run_id": run})
}

// OpenUploads counts the uploads under an epoch that may still matter: begun and
// neither finalized, refused nor expired unclaimed.
func OpenUploads(ctx context.Context, tx postgres.Tx, workspace ids.Workspace, epoch int64) (int, error) {
	return postgres.Value[int](ctx, tx, Queries.Get("OpenUploads"), postgres.Args{"workspace_id": workspace, "epoch": epoch})
}

// Row gives a version without its resources and without asking who wants it, for the
// packages above.
func (s *Service) Row(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (Version, error) {
	return s.load(ctx, tx, id)
}

// Load is Row with the resources.
func (s *Service) Load(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (Version, error) {
	v, err := s.load(ctx, tx, id)
	if err != nil {
		return Version{}, err
	}
	return s.withResources(ctx, tx, v)
}

// Version gives one version with its resources.
func (s *Service) Version(ctx context.Context, actor authz.Actor, id ids.StateVersion) (v Version, err error) {
	var sealed []byte
	err = reading(actor)(ctx, s.db, "state.version", func(tx postgres.Tx) error {
		row, err := postgres.One[struct {
			versionRow
			ResourcesSealed []byte
		}](ctx, tx, Queries.Get("GetWhole"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return fault.Missing("state version", string(id))
		}
		if err != nil {
			return fmt.Errorf("get a state version: %w", err)
		}
		v, sealed = row.version(), row.ResourcesSealed
		return seen(ctx, tx, actor, authz.StateRead, v)
	})
	if err != nil {
		return Version{}, err
	}
	err = postgres.InOneStatement(ctx, s.db, "state.resources", func(tx postgres.Tx) error {
		v, err = s.openResources(ctx, tx, v, sealed) // mostly without a statement: a key never changes
		return err
	})
	return v, err
}

// reading gives the cheapest way to read a version for an actor. A run may be of another
// workspace, and then it takes more than one statement to decide.
func reading(actor authz.Actor) func(context.Context, *postgres.DB, string, func(postgres.Tx) error) error {
	if actor.Kind == authz.AttemptActor {
		return postgres.InSnapshot
	}
	return postgres.InOneStatement
}

// visible reads a version, with one statement, for an actor who may do action with it.
func (s *Service) visible(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.StateVersion) (Version, error) {
	v, err := s.load(ctx, tx, id)
	if err == nil {
		err = seen(ctx, tx, actor, action, v)
	}
	if err != nil {
		return Version{}, err
	}
	return v, nil
}

// seen is nil for an actor who may do action with v. For all but runs of other workspaces it
// takes no statement.
func seen(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, v Version) (err error) {
	object := authz.Object{Organization: v.Organization, Project: v.Project, Workspace: v.Workspace, Noun: "state version", Name: string(v.ID)}
	if outside(actor, v.Workspace) {
		if object.SharesState, err = consumable(ctx, tx, actor, v); err != nil {
			return err
		}
	}
	if err := authz.Allow(actor, action, object); err != nil {
		return err
	}
	if v.gone { // what belongs to a deleted workspace is not there for anybody
		return fault.Missing("state version", string(v.ID))
	}
	if actor.Kind == authz.AttemptActor && actor.Workspace == v.Workspace && v.ID != actor.Predecessor && v.Run != actor.Run {
		return fault.Missing("state version", string(v.ID)) // an attempt sees what its run began with and wrote (ST-01)
	}
	return nil
}

// Filter of a list. Status empty means all. Limit and Offset count versions.
type Filter struct {
	Statuses      []Status // one of these; none is any
	Limit, Offset int
}

// Versions lists the versions of a workspace without their resources, newest first,
// and counts all of them.
func (s *Service) Versions(ctx context.Context, actor authz.Actor, workspace ids.Workspace, f Filter) (list []Version, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "state.versions", func(tx postgres.Tx) error {
		if outside(actor, workspace) { // who may read the current state alone
			return fault.Missing("workspace", string(workspace))
		}
		if _, err := workspaces.Allowed(ctx, tx, actor, authz.StateRead, workspace); err != nil {
			return err
		}
		args := postgres.Args{"workspace_id": workspace, "statuses": append([]Status{}, f.Statuses...), "limit": f.Limit, "offset": f.Offset}
		rows, err := postgres.All[versionRow](ctx, tx, Queries.Get("List"), args)
		if err != nil {
			return err
		}
		list = make([]Version, 0, len(rows))
		for _, r := range rows {
			list = append(list, r.version())
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("Count"), args)
		return err
	})
	return list, total, err
}

// Download gives the bytes of a version as they came; the Version beside them has no
// resources. The caller closes the reader.
func (s *Service) Download(ctx context.Context, actor authz.Actor, id ids.StateVersion) (io.ReadCloser, Version, error) {
	return s.open(ctx, actor, id, func(v Version) ids.Object { return v.Object })
}

// DownloadJSON gives the JSON form that the client sent beside the state. The
// caller closes the reader. NotFound when it sent none.
func (s *Service) DownloadJSON(ctx context.Context, actor authz.Actor, id ids.StateVersion) (io.ReadCloser, Version, error) {
	return s.open(ctx, actor, id, func(v Version) ids.Object { return v.JSONObject })
}

func (s *Service) open(ctx context.Context, actor authz.Actor, id ids.StateVersion, which func(Version) ids.Object) (io.ReadCloser, Version, error) {
	var v Version
	err := reading(actor)(ctx, s.db, "state.open", func(tx postgres.Tx) (err error) {
		v, err = s.visible(ctx, tx, actor, authz.StateRead, id)
		return err
	})
	if err != nil {
		return nil, Version{}, err
	}
	object := which(v)
	if v.HiddenAt != nil {
		return nil, Version{}, fault.New(fault.NotFound, "bytes_hidden", "The bytes of state version %s are deleted. Until they are given up for good they can be restored.", id)
	}
	if object == "" {
		return nil, Version{}, fault.New(fault.NotFound, "no_bytes", "State version %s has no such bytes: its upload has not finished, or the client sent none.", id)
	}
	body, _, err := s.objects.Open(ctx, v.Organization, object)
	return body, v, err
}

// Stored gives what the store knows of a version's bytes.
func (s *Service) Stored(ctx context.Context, tx postgres.Tx, v Version) (artifacts.Object, error) {
	return s.objects.Info(ctx, tx, v.Organization, v.Object)
}
