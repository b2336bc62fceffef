package runs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/archive"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Configuration is a configuration version: a tar.gz of what is to be planned.
type Configuration struct {
	ID             ids.ConfigurationVersion
	OrganizationID ids.Organization
	WorkspaceID    ids.Workspace
	ProjectID      ids.Project
	Status         string // pending, uploaded or errored
	Error          string
	AutoQueueRuns  bool
	Speculative    bool // its runs only plan, and never lock
	Provisional    bool
	ObjectID       ids.Object
	CapturedAt     *time.Time
	CreatedBy      ids.User
	CreatedAt      time.Time
	UploadedAt     *time.Time
	HiddenAt       *time.Time // its bytes are out of reach since then
	DeletedAt      *time.Time // and given up since then
}

// Shown is its status as people know it.
func (c Configuration) Shown() string {
	switch {
	case c.DeletedAt != nil && c.Status != "archived":
		return "backing_data_permanently_deleted"
	case c.HiddenAt != nil && c.Status != "archived":
		return "backing_data_soft_deleted"
	}
	return c.Status
}

func (c Configuration) object() authz.Object {
	return authz.Object{Organization: c.OrganizationID, Project: c.ProjectID, Workspace: c.WorkspaceID, Noun: "configuration version", Name: string(c.ID)}
}

// NewConfiguration is what a client asks for.
type NewConfiguration struct{ AutoQueueRuns, Speculative, Provisional bool }

// CreateConfiguration announces a configuration version; its bytes follow by
// UploadConfiguration.
func (s *Service) CreateConfiguration(ctx context.Context, actor authz.Actor, workspace ids.Workspace, n NewConfiguration) (c Configuration, err error) {
	err = postgres.InTx(ctx, s.db, "runs.create-configuration", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.ConfigurationUpload, workspace)
		if err != nil {
			return err
		}
		id := ids.New[ids.ConfigurationVersion]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("ConfigurationInsert"), postgres.Args{
			"id": id, "organization_id": w.Organization, "workspace_id": w.ID, "auto_queue_runs": n.AutoQueueRuns,
			"speculative": n.Speculative, "provisional": n.Provisional, "created_by": actor.User,
		})
		if err != nil {
			return fmt.Errorf("create the configuration version: %w", err)
		}
		c, err = loadConfiguration(ctx, tx, id)
		return err
	})
	return c, err
}

func loadConfiguration(ctx context.Context, tx postgres.Tx, id ids.ConfigurationVersion) (Configuration, error) {
	c, err := postgres.One[Configuration](ctx, tx, Queries.Get("ConfigurationGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Configuration{}, fault.Missing("configuration version", string(id))
	}
	if err != nil {
		return Configuration{}, fmt.Errorf("read the configuration version: %w", err)
	}
	return c, nil
}

// Configuration gives one configuration version.
func (s *Service) Configuration(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion) (c Configuration, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.configuration", func(tx postgres.Tx) error {
		if c, err = loadConfiguration(ctx, tx, id); err != nil {
			return err
		}
		return authz.Allow(actor, authz.ConfigurationRead, c.object())
	})
	return c, err
}

// Configurations lists the configuration versions of a workspace, newest first.
func (s *Service) Configurations(ctx context.Context, actor authz.Actor, workspace ids.Workspace, limit, offset int) (list []Configuration, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.configurations", func(tx postgres.Tx) error {
		if _, err := workspaces.Allowed(ctx, tx, actor, authz.ConfigurationRead, workspace); err != nil {
			return err
		}
		args := postgres.Args{"workspace_id": workspace, "limit": limit, "offset": offset}
		if list, err = postgres.All[Configuration](ctx, tx, Queries.Get("ConfigurationList"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("ConfigurationCount"), args)
		return err
	})
	return list, total, err
}

// UploadConfiguration takes the bytes of an announced configuration version; the
// caller has proved by a link that it may. A repeated upload replaces the bytes
// until a run has captured them; then the same bytes are fine and others are a
// Conflict (amendment 9), and so are any once the version's own were given up.
// More than the launch limit is TooLarge while it streams (PL-06); bytes that are
// no safe archive are Invalid and leave the version errored.
func (s *Service) UploadConfiguration(ctx context.Context, id ids.ConfigurationVersion, body io.Reader) error {
	var c Configuration
	err := postgres.InSnapshot(ctx, s.db, "runs.find-configuration", func(tx postgres.Tx) (err error) {
		c, err = loadConfiguration(ctx, tx, id)
		return err
	})
	if err != nil {
		return err
	}
	object, err := s.storeConfiguration(ctx, c, body)
	if err != nil {
		s.markErrored(ctx, c, err)
		return err
	}
	ctx = context.WithoutCancel(ctx)
	var refused error
	err = postgres.InTx(ctx, s.db, "runs.configuration-uploaded", func(tx postgres.Tx) (err error) {
		refused, err = s.takeConfiguration(ctx, tx, c, object)
		return err
	})
	if err != nil {
		return err
	}
	return refused
}

// takeConfiguration makes stored bytes those of a version, or says why not. What nothing points
// to then, the bytes or those before them, is given up.
func (s *Service) takeConfiguration(ctx context.Context, tx postgres.Tx, c Configuration, object artifacts.Object) (refused, err error) {
	had, err := postgres.Value[ids.Object](ctx, tx, Queries.Get("ConfigurationBytes"), postgres.Args{"id": c.ID})
	if err != nil {
		return nil, err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("ConfigurationUploaded"), postgres.Args{"id": c.ID, "object_id": object.ID})
	switch {
	case err != nil || n == 1 && had == "":
		return nil, err
	case n == 1:
		return nil, s.objects.Discard(ctx, tx, c.OrganizationID, had)
	case had == "":
		refused = fault.New(fault.Conflict, "configuration_archived", "The bytes of this configuration version were given up, so no others are taken. Make a new configuration version.")
		return refused, s.objects.Discard(ctx, tx, c.OrganizationID, object.ID)
	}
	captured, err := s.objects.Info(ctx, tx, c.OrganizationID, had)
	if err != nil {
		return nil, err
	}
	if captured.SHA256 != object.SHA256 {
		refused = fault.New(fault.Conflict, "configuration_captured", "A run uses this configuration version already, so its bytes do not change. Make a new configuration version.")
	}
	return refused, s.objects.Discard(ctx, tx, c.OrganizationID, object.ID)
}

// storeConfiguration seals the bytes while checking that they are an archive a
// runner would unpack.
func (s *Service) storeConfiguration(ctx context.Context, c Configuration, body io.Reader) (object artifacts.Object, err error) {
	err = archive.CheckBeside(body, func(body io.Reader) (err error) {
		object, err = s.objects.Put(ctx, artifacts.Spec{Organization: c.OrganizationID, Workspace: c.WorkspaceID, Kind: artifacts.KindConfiguration}, body, s.settings.LaunchLimit)
		return err
	})
	if err != nil && object.ID != "" { // they are stored, and refused
		_ = postgres.InTx(context.WithoutCancel(ctx), s.db, "runs.configuration-refused", func(tx postgres.Tx) error { // what stays is only a waste
			return s.objects.Discard(ctx, tx, c.OrganizationID, object.ID)
		})
	}
	return object, err
}

func (s *Service) markErrored(ctx context.Context, c Configuration, cause error) {
	var why *fault.Error
	if !errors.As(cause, &why) || (why.Kind != fault.Invalid && why.Kind != fault.TooLarge) {
		return // it may be repeated
	}
	ctx = context.WithoutCancel(ctx)
	_ = postgres.InTx(ctx, s.db, "runs.configuration-errored", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("ConfigurationErrored"), postgres.Args{"id": c.ID, "error": why.Message})
		return err
	})
}

// DownloadConfiguration gives the bytes as they came. The caller closes the reader.
func (s *Service) DownloadConfiguration(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion) (io.ReadCloser, error) {
	c, err := s.Configuration(ctx, actor, id)
	if err != nil {
		return nil, err
	}
	if c.ObjectID == "" || c.HiddenAt != nil {
		return nil, fault.New(fault.NotFound, "no_bytes", "Configuration version %s has no bytes: it is %s.", id, c.Shown())
	}
	body, _, err := s.objects.Open(ctx, c.OrganizationID, c.ObjectID)
	return body, err
}
