package runs

import (
	"context"
	"slices"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// DeleteOrganization makes tombstones of the organization and all its workspaces,
// or of nothing (ST-23). It is refused like DeleteWorkspace, by the first workspace
// in which a run applies or is held.
func (s *Service) DeleteOrganization(ctx context.Context, actor authz.Actor, name string) error {
	return postgres.InTx(ctx, s.db, "runs.delete-organization", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationDelete, name)
		if err != nil {
			return err
		}
		living, err := workspaces.Living(ctx, tx, org.ID)
		if err != nil {
			return err
		}
		for _, workspace := range living {
			if err := s.deleteWorkspace(ctx, tx, actor, workspace, false); err != nil {
				return err
			}
		}
		return accounts.TombstoneOrganization(ctx, tx, actor, org.ID)
	})
}

// Versions gives the exact OpenTofu versions that runs of every organization can
// have, the newest first: those that runners for all of them have reported.
func (s *Service) Versions(ctx context.Context) (versions []string, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.versions", func(tx postgres.Tx) error {
		versions, err = dispatch.Versions(ctx, tx, "")
		return err
	})
	slices.SortFunc(versions, func(a, b string) int {
		if older(a, b) {
			return 1
		}
		return -1
	})
	return versions, err
}
