package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// sourcePreview is where a drift preview comes from: no client can ask for such a run.
const sourcePreview = "holdfast-recovery"

// Preview makes a run that only compares the current state of a held workspace with the real
// infrastructure: a refresh-only plan of the configuration and the variables of the run that
// holds it. It takes no fence, waits for nobody and is never applied, so it may exist where
// Create is refused. The caller holds the run's row and has asked who may.
// Errors: those of a closed gate; Invalid when the workspace runs nothing any more; TooLarge.
func (s *Service) Preview(ctx context.Context, tx postgres.Tx, actor authz.Actor, held Run) (Run, error) {
	denial, err := gates.Check(ctx, tx, held.OrganizationID)
	if err != nil {
		return Run{}, err
	}
	if denial.Closed() {
		return Run{}, denial.AtCreation()
	}
	w, err := workspaces.Load(ctx, tx, held.WorkspaceID)
	if err == nil {
		err = checkExecutable(w)
	}
	if err != nil {
		return Run{}, err
	}
	c, err := loadConfiguration(ctx, tx, held.ConfigurationVersionID)
	if err != nil {
		return Run{}, err
	}
	given, err := s.openVariables(ctx, tx, held.OrganizationID, runVariablesLabel(held.ID), held.RunVariablesSealed)
	if err != nil {
		return Run{}, err
	}
	never := false
	return s.create(ctx, tx, actor, w, c, NewRun{
		Workspace: w.ID, Operation: OperationPlanOnly, PlanOnly: true, RefreshOnly: true, AutoApply: &never, Variables: given,
		Source: sourcePreview, Message: fmt.Sprintf("Drift preview for the recovery of %s", held.ID),
	})
}
