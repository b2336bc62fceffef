package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Retention says how long the bytes of old versions are kept. One of a workspace goes
// before that of its organization.
type Retention struct {
	ID           ids.RetentionPolicy
	Organization ids.Organization
	Days         *int // nil: nothing is deleted
}

const mostRetentionDays = 36500

// retentionOwner finds whose policy is meant, for an actor who may do action.
type retentionOwner func(ctx context.Context, tx postgres.Tx, actor authz.Actor, change bool) (ids.Organization, ids.Workspace, error)

func ofWorkspace(id ids.Workspace) retentionOwner {
	return func(ctx context.Context, tx postgres.Tx, actor authz.Actor, change bool) (ids.Organization, ids.Workspace, error) {
		action := authz.WorkspaceRead
		if change {
			action = authz.WorkspaceUpdate
		}
		w, err := Allowed(ctx, tx, actor, action, id)
		return w.Organization, w.ID, err
	}
}

func ofOrganization(name string) retentionOwner {
	return func(ctx context.Context, tx postgres.Tx, actor authz.Actor, change bool) (ids.Organization, ids.Workspace, error) {
		action := authz.OrganizationRead
		if change {
			action = authz.OrganizationUpdate
		}
		org, err := accounts.AllowedOrganization(ctx, tx, actor, action, name)
		return org.ID, "", err
	}
}

// Retention gives the policy of a workspace's own; nil when it has none.
func (s *Service) Retention(ctx context.Context, actor authz.Actor, id ids.Workspace) (*Retention, error) {
	return s.retention(ctx, actor, ofWorkspace(id))
}

// SetRetention gives the workspace a policy; days nil keeps everything.
func (s *Service) SetRetention(ctx context.Context, actor authz.Actor, id ids.Workspace, days *int) (Retention, error) {
	return s.setRetention(ctx, actor, ofWorkspace(id), days)
}

// ClearRetention takes the workspace's policy away; that of its organization holds then.
func (s *Service) ClearRetention(ctx context.Context, actor authz.Actor, id ids.Workspace) error {
	return s.clearRetention(ctx, actor, ofWorkspace(id))
}

// OrganizationRetention, SetOrganizationRetention and ClearOrganizationRetention are the
// same for an organization.
func (s *Service) OrganizationRetention(ctx context.Context, actor authz.Actor, organization string) (*Retention, error) {
	return s.retention(ctx, actor, ofOrganization(organization))
}

// SetOrganizationRetention gives the organization a policy.
func (s *Service) SetOrganizationRetention(ctx context.Context, actor authz.Actor, organization string, days *int) (Retention, error) {
	return s.setRetention(ctx, actor, ofOrganization(organization), days)
}

// ClearOrganizationRetention takes the organization's policy away.
func (s *Service) ClearOrganizationRetention(ctx context.Context, actor authz.Actor, organization string) error {
	return s.clearRetention(ctx, actor, ofOrganization(organization))
}

func (s *Service) retention(ctx context.Context, actor authz.Actor, owner retentionOwner) (found *Retention, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.retention", func(tx postgres.Tx) error {
		org, workspace, err := owner(ctx, tx, actor, false)
		if err != nil {
			return err
		}
		one, err := postgres.One[Retention](ctx, tx, queries.Get("RetentionGet"), postgres.Args{"organization_id": org, "workspace_id": workspace})
		if postgres.NoRow(err) {
			return nil
		}
		found = &one
		return err
	})
	return found, err
}

func (s *Service) setRetention(ctx context.Context, actor authz.Actor, owner retentionOwner, days *int) (set Retention, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.set-retention", func(tx postgres.Tx) error {
		org, workspace, err := owner(ctx, tx, actor, true)
		if err != nil {
			return err
		}
		if days != nil && (*days < 1 || *days > mostRetentionDays) {
			return accounts.Invalid("delete-older-than-n-days", "Delete older than n days must be 1 to %d", mostRetentionDays)
		}
		set, err = postgres.One[Retention](ctx, tx, queries.Get("RetentionSet"), postgres.Args{
			"id": ids.New[ids.RetentionPolicy](), "organization_id": org, "workspace_id": workspace, "days": days,
		})
		if err != nil {
			return err
		}
		return recordRetention(ctx, tx, actor, org, workspace, "retention-set", map[string]any{"days": days})
	})
	return set, err
}

func (s *Service) clearRetention(ctx context.Context, actor authz.Actor, owner retentionOwner) error {
	return postgres.InTx(ctx, s.db, "workspaces.clear-retention", func(tx postgres.Tx) error {
		org, workspace, err := owner(ctx, tx, actor, true)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("RetentionClear"), postgres.Args{"organization_id": org, "workspace_id": workspace})
		if err != nil || n == 0 {
			return err
		}
		return recordRetention(ctx, tx, actor, org, workspace, "retention-cleared", nil)
	})
}

func recordRetention(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, workspace ids.Workspace, action string, details map[string]any) error {
	kind, object := "organization", string(org)
	if workspace != "" {
		kind, object = "workspace", string(workspace)
	}
	return audit.Append(ctx, tx, audit.Entry{Organization: org, Actor: actor, Action: kind + "." + action, ObjectKind: kind, ObjectID: object, Details: details})
}
