package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// QueryRun is what somebody asked of a workspace by `terraform query`. OpenTofu has no such
// command, so each one has errored from its first instant, with the reason; none has ever a
// result.
type QueryRun struct {
	ID                     ids.QueryRun
	OrganizationID         ids.Organization
	ProjectID              ids.Project
	WorkspaceID            ids.Workspace
	ConfigurationVersionID ids.ConfigurationVersion
	Source                 string
	GenerateConfigOut      bool
	Reason                 string // why it errored
	CreatedBy              ids.User
	CreatedAt              time.Time
}

func (q QueryRun) object() authz.Object {
	return authz.Object{Organization: q.OrganizationID, Project: q.ProjectID, Workspace: q.WorkspaceID, Noun: "query run", Name: string(q.ID)}
}

const noQueryCommand = "This query run was not executed and has found nothing: runs are executed with OpenTofu, which has no command `query`. " +
	"To bring what is there already under a configuration, use import blocks in a run."

// NewQueryRun is what a query run is made from. No configuration version is the newest one.
type NewQueryRun struct {
	Workspace         ids.Workspace
	Configuration     ids.ConfigurationVersion
	GenerateConfigOut bool
}

// CreateQueryRun writes down what was asked, and that it cannot be done. It is refused like the
// creation of a run, for want of the right or of a configuration.
func (s *Service) CreateQueryRun(ctx context.Context, actor authz.Actor, n NewQueryRun) (q QueryRun, err error) {
	err = postgres.InTx(ctx, s.db, "runs.create-query-run", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.RunQueue, n.Workspace)
		if err != nil {
			return err
		}
		c, err := queryConfiguration(ctx, tx, w, n.Configuration)
		if err != nil {
			return err
		}
		id := ids.New[ids.QueryRun]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("QueryRunInsert"), postgres.Args{
			"id": id, "organization_id": w.Organization, "workspace_id": w.ID, "configuration_version_id": c, "source": "tfe-api",
			"generate_config_out": n.GenerateConfigOut, "reason": noQueryCommand, "created_by": actor.User,
		})
		if err != nil {
			return err
		}
		if q, err = postgres.One[QueryRun](ctx, tx, Queries.Get("QueryRunByID"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: w.Organization, Actor: actor, Action: "query-run.errored", ObjectKind: "query-run", ObjectID: string(id),
			Details: map[string]any{"workspace": w.ID, "configuration_version": c},
		})
	})
	return q, err
}

// queryConfiguration finds the configuration version that was asked for, else the newest one.
func queryConfiguration(ctx context.Context, tx postgres.Tx, w workspaces.Workspace, id ids.ConfigurationVersion) (ids.ConfigurationVersion, error) {
	if id == "" {
		newest, err := postgres.Value[ids.ConfigurationVersion](ctx, tx, Queries.Get("ConfigurationNewest"), postgres.Args{"workspace_id": w.ID})
		if postgres.NoRow(err) {
			return "", fault.New(fault.Invalid, "no_configuration", "Workspace %q has no uploaded configuration version yet. Upload one first.", w.Name).At("/data/relationships/configuration-version")
		}
		return newest, err
	}
	c, err := loadConfiguration(ctx, tx, id)
	switch {
	case err == nil && c.WorkspaceID != w.ID:
		return "", fault.Missing("configuration version", string(id))
	case err == nil && c.Status != "uploaded":
		return "", fault.New(fault.Invalid, "configuration_not_uploaded", "Configuration version %s is %s. Upload its archive first.", id, c.Status).At("/data/relationships/configuration-version")
	}
	return id, err
}

// QueryRuns gives those of a workspace, the newest first, and how many there are.
func (s *Service) QueryRuns(ctx context.Context, actor authz.Actor, workspace ids.Workspace, limit, offset int) (list []QueryRun, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.query-runs", func(tx postgres.Tx) error {
		if _, err := workspaces.Allowed(ctx, tx, actor, authz.RunRead, workspace); err != nil {
			return err
		}
		args := postgres.Args{"workspace_id": workspace, "limit": limit, "offset": offset}
		if list, err = postgres.All[QueryRun](ctx, tx, Queries.Get("QueryRuns"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("QueryRunsCount"), args)
		return err
	})
	return list, total, err
}

// QueryRun gives one that the actor sees.
func (s *Service) QueryRun(ctx context.Context, actor authz.Actor, id ids.QueryRun) (q QueryRun, err error) {
	err = postgres.InOneStatement(ctx, s.db, "runs.query-run", func(tx postgres.Tx) error {
		q, err = loadQueryRun(ctx, tx, actor, authz.RunRead, id)
		return err
	})
	return q, err
}

func loadQueryRun(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.QueryRun) (QueryRun, error) {
	q, err := postgres.One[QueryRun](ctx, tx, Queries.Get("QueryRunByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return QueryRun{}, fault.Missing("query run", string(id))
	}
	if err != nil {
		return QueryRun{}, err
	}
	return q, authz.Allow(actor, action, q.object())
}

// CancelQueryRun refuses, because a query run has always ended: Conflict "transition_not_allowed".
func (s *Service) CancelQueryRun(ctx context.Context, actor authz.Actor, id ids.QueryRun) error {
	return postgres.InOneStatement(ctx, s.db, "runs.cancel-query-run", func(tx postgres.Tx) error {
		if _, err := loadQueryRun(ctx, tx, actor, authz.RunQueue, id); err != nil {
			return err
		}
		return fault.New(fault.Conflict, "transition_not_allowed", "The query run has errored already, so there is nothing to cancel.")
	})
}

// QueryRunLog gives a part of the log, which is the reason. Whoever calls it has been let in by the
// address.
func (s *Service) QueryRunLog(ctx context.Context, id ids.QueryRun, offset, limit int64) (log LogSlice, err error) {
	err = postgres.InOneStatement(ctx, s.db, "runs.query-run-log", func(tx postgres.Tx) error {
		q, err := loadQueryRun(ctx, tx, authz.System(), authz.RunRead, id)
		if err != nil {
			return err
		}
		text := []byte("Error: " + q.Reason + "\n")
		size := int64(len(text))
		from := min(max(offset, 0), size)
		log = LogSlice{Data: text[from:min(from+max(limit, 0), size)], Size: size, Final: true}
		return nil
	})
	return log, err
}
