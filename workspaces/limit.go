package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
)

// roomFor refuses one more workspace where the organization, or else the site, says how many
// there may be. Those that are there already are not touched by a limit below their number.
func roomFor(ctx context.Context, tx postgres.Tx, org ids.Organization) error {
	args := postgres.Args{"organization_id": org}
	limit, err := postgres.Value[int](ctx, tx, queries.Get("WorkspaceLimit"), args)
	if err != nil || limit == 0 {
		return err
	}
	if _, err := postgres.Value[ids.Organization](ctx, tx, queries.Get("OrganizationHold"), args); err != nil {
		return err
	}
	n, err := postgres.Value[int](ctx, tx, queries.Get("WorkspacesLiving"), args)
	if err == nil && n >= limit {
		err = fault.New(fault.Invalid, "workspace_limit_reached", "The organization may have at most %d workspaces and has %d. Delete one, or ask a site admin to raise its limit.", limit, n)
	}
	return err
}

// checkVersion refuses a version that the catalogue of the site lets nobody choose. before is
// the one the workspace has.
func (s Settings) checkVersion(ctx context.Context, tx postgres.Tx, before string) error {
	if s.TerraformVersion == nil || *s.TerraformVersion == before {
		return nil
	}
	return site.CheckChoice(ctx, tx, site.Terraform, "terraform-version", *s.TerraformVersion, before)
}
