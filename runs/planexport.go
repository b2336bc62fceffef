package runs

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// PlanExport is a plan made ready for download for an hour. Its bytes are made of the
// plan when they are asked for.
type PlanExport struct {
	ID             ids.PlanExport
	OrganizationID ids.Organization
	ProjectID      ids.Project // of the workspace
	WorkspaceID    ids.Workspace
	RunID          ids.Run
	PlanID         ids.Plan
	DataType       string
	CreatedAt      time.Time
	ExpiresAt      time.Time
	Over           bool
}

// SentinelMocks is the only data type of an export.
const SentinelMocks = "sentinel-mock-bundle-v0"

const exportLifetime = time.Hour

func (e PlanExport) object() authz.Object {
	return authz.Object{Organization: e.OrganizationID, Project: e.ProjectID, Workspace: e.WorkspaceID, Noun: "plan export", Name: string(e.ID)}
}

// ExportPlan makes a finished plan ready. For those who may read the whole plan, see
// PlanJSON. Another data type, and a plan that has not finished, are Invalid.
func (s *Service) ExportPlan(ctx context.Context, actor authz.Actor, plan ids.Plan, dataType string) (e PlanExport, err error) {
	d, err := s.ByPlan(ctx, actor, plan)
	if err != nil {
		return PlanExport{}, err
	}
	if err := authz.Allow(actor, authz.StateRead, d.Object()); err != nil {
		return PlanExport{}, err
	}
	if dataType != SentinelMocks {
		return PlanExport{}, fault.New(fault.Invalid, "invalid_attribute", "Data type must be %s", SentinelMocks).At("/data/attributes/data-type")
	}
	if d.PlanJSONObjectID == "" {
		return PlanExport{}, fault.New(fault.Invalid, "plan_not_finished", "The plan of %s has no result that could be exported.", d.ID).At("/data/relationships/plan")
	}
	err = postgres.InTx(ctx, s.db, "runs.export-plan", func(tx postgres.Tx) error {
		id := ids.New[ids.PlanExport]()
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PlanExportInsert"), postgres.Args{
			"id": id, "organization_id": d.OrganizationID, "workspace_id": d.WorkspaceID, "run_id": d.ID, "data_type": dataType, "seconds": exportLifetime.Seconds(),
		}); err != nil {
			return err
		}
		e, err = loadExport(ctx, tx, id)
		return err
	})
	return e, err
}

func loadExport(ctx context.Context, tx postgres.Tx, id ids.PlanExport) (PlanExport, error) {
	e, err := postgres.One[PlanExport](ctx, tx, Queries.Get("PlanExportByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return PlanExport{}, fault.Missing("plan export", string(id))
	}
	return e, err
}

// PlanExport gives an export.
func (s *Service) PlanExport(ctx context.Context, actor authz.Actor, id ids.PlanExport) (e PlanExport, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.plan-export", func(tx postgres.Tx) error {
		if e, err = loadExport(ctx, tx, id); err != nil {
			return err
		}
		return authz.Allow(actor, authz.StateRead, e.object())
	})
	return e, err
}

// DeletePlanExport ends an export.
func (s *Service) DeletePlanExport(ctx context.Context, actor authz.Actor, id ids.PlanExport) error {
	return postgres.InTx(ctx, s.db, "runs.delete-plan-export", func(tx postgres.Tx) error {
		e, err := loadExport(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.StateRead, e.object()); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("PlanExportDelete"), postgres.Args{"id": id})
		if err == nil && n == 0 {
			err = fault.Missing("plan export", string(id))
		}
		return err
	})
}
