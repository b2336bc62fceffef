package workspaces

import (
	"context"
	_ "embed"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

//go:embed teams.sql
var teamsSQL string

//go:embed lists.sql
var listsSQL string

//go:embed site.sql
var siteSQL string

var queries = postgres.ParseQueries(queriesSQL + "\n" + teamsSQL + "\n" + listsSQL + "\n" + siteSQL)

// Page selects a part of a list.
type Page = accounts.Page

// Sealer seals and opens small values under an organization's key. The label names
// the place of a value: it opens only under the same label.
type Sealer interface {
	SealValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, plain []byte) ([]byte, error)
	OpenValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, sealed []byte) ([]byte, error)
}

// Service keeps projects, workspaces and variables.
type Service struct {
	db       *postgres.DB
	accounts *accounts.Service
	sealer   Sealer
}

// New makes the service.
func New(db *postgres.DB, who *accounts.Service, sealer Sealer) *Service {
	return &Service{db: db, accounts: who, sealer: sealer}
}

// CreateOrganization makes an organization and, in the same transaction, the
// project that its workspaces belong to when nothing else is said. See
// accounts.CreateOrganization for who may and what is refused.
func (s *Service) CreateOrganization(ctx context.Context, actor authz.Actor, n accounts.NewOrganization) (accounts.Organization, error) {
	var org accounts.Organization
	err := postgres.InTx(ctx, s.db, "workspaces.create-organization", func(tx postgres.Tx) (err error) {
		if org, err = s.accounts.CreateOrganization(ctx, tx, actor, n); err != nil {
			return err
		}
		project, err := insertProject(ctx, tx, actor, Project{Organization: org.ID, Name: "Default Project", IsDefault: true}, nil)
		org.DefaultProject = project.ID
		return err
	})
	if err != nil {
		return accounts.Organization{}, err
	}
	return org, nil
}

// UpdateOrganization changes an organization and, with it, what its projects and
// workspaces inherit. See accounts.UpdateOrganization for who may and what is refused.
func (s *Service) UpdateOrganization(ctx context.Context, actor authz.Actor, name string, c accounts.OrganizationChanges) (accounts.Organization, error) {
	var org accounts.Organization
	err := postgres.InTx(ctx, s.db, "workspaces.update-organization", func(tx postgres.Tx) (err error) {
		if org, err = accounts.UpdateOrganization(ctx, tx, actor, name, c); err != nil {
			return err
		}
		if c.DefaultExecutionMode == nil && c.DefaultAgentPool == nil {
			return nil
		}
		return inherit(ctx, tx, org.ID, "", org.Placement())
	})
	if err != nil {
		return accounts.Organization{}, err
	}
	return org, nil
}

// inherit brings the workspaces of a project, or of all, to where their runs are executed
// now when they say nothing themselves. A pool that one of them may not use is Invalid.
func inherit(ctx context.Context, tx postgres.Tx, org ids.Organization, project ids.Project, where accounts.Placement) error {
	if _, err := postgres.Exec(ctx, tx, queries.Get("Inherit"), postgres.Args{"organization_id": org, "project_id": project}); err != nil {
		return err
	}
	return accounts.CheckPoolUsers(ctx, tx, where)
}
