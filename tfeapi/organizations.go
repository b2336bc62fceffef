package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
)

// organizationView is an organization on the wire; its id is its name.
type organizationView struct {
	ID                     string                  `jsonapi:"primary,organizations"`
	Name                   string                  `jsonapi:"attr,name"`
	ExternalID             string                  `jsonapi:"attr,external-id"`
	Email                  string                  `jsonapi:"attr,email"`
	CreatedAt              time.Time               `jsonapi:"attr,created-at,iso8601"`
	DefaultExecutionMode   string                  `jsonapi:"attr,default-execution-mode"`
	CollaboratorAuthPolicy string                  `jsonapi:"attr,collaborator-auth-policy"`
	CostEstimationEnabled  bool                    `jsonapi:"attr,cost-estimation-enabled"`
	AssessmentsEnforced    bool                    `jsonapi:"attr,assessments-enforced"`
	UserTokensEnabled      bool                    `jsonapi:"attr,user-tokens-enabled"`
	AllowForceDelete       bool                    `jsonapi:"attr,allow-force-delete-workspaces"`
	SAMLEnabled            bool                    `jsonapi:"attr,saml-enabled"`
	TwoFactorConformant    bool                    `jsonapi:"attr,two-factor-conformant"`
	Permissions            organizationPermissions `jsonapi:"attr,permissions"`
}

type organizationPermissions struct {
	CanCreateProject   bool `json:"can-create-project"`
	CanCreateTeam      bool `json:"can-create-team"`
	CanCreateWorkspace bool `json:"can-create-workspace"`
	CanDestroy         bool `json:"can-destroy"`
	CanManageRunTasks  bool `json:"can-manage-run-tasks"`
	CanTraverse        bool `json:"can-traverse"`
	CanUpdate          bool `json:"can-update"`
	CanUpdateAPIToken  bool `json:"can-update-api-token"`
	CanUpdateOAuth     bool `json:"can-update-oauth"`
	CanUpdateSentinel  bool `json:"can-update-sentinel"`
}

func (*organizationView) relations() relations { return nil }

func newOrganizationView(actor authz.Actor, o accounts.Organization) *organizationView {
	can := func(action authz.Action) bool { return authz.Can(actor, action, authz.Object{Organization: o.ID}) }
	return &organizationView{
		ID: o.Name, Name: o.Name, ExternalID: string(o.ID), Email: o.Email, CreatedAt: o.CreatedAt,
		DefaultExecutionMode: "remote", CollaboratorAuthPolicy: "password", UserTokensEnabled: true, AllowForceDelete: true,
		Permissions: organizationPermissions{
			CanCreateProject: can(authz.ProjectCreate), CanCreateWorkspace: can(authz.WorkspaceCreate),
			CanDestroy: can(authz.OrganizationDelete), CanTraverse: can(authz.OrganizationRead), CanUpdate: can(authz.OrganizationUpdate),
		},
	}
}

// listOrganizations answers with all of them unless a page is asked for: clients
// that ask without one read no second page.
func (s *server) listOrganizations(r *request) (answer, error) {
	wanted, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	whole := !r.query.Has("page[number]") && !r.query.Has("page[size]")
	part := accounts.Page{Number: wanted.number, Size: wanted.size}
	if whole {
		part = accounts.Page{}
	}
	list, total, err := s.Accounts.Organizations(r.ctx, r.actor, part)
	if err != nil {
		return answer{}, err
	}
	items := make([]*organizationView, 0, len(list))
	for _, o := range list {
		items = append(items, newOrganizationView(r.actor, o))
	}
	if whole {
		return all(items), nil
	}
	return page(items, wanted, total), nil
}

func (s *server) readOrganization(r *request) (answer, error) {
	o, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err != nil {
		return answer{}, err
	}
	return ok(newOrganizationView(r.actor, o)), nil
}

type organizationAttributes struct {
	Name  Opt[string] `json:"name"`
	Email Opt[string] `json:"email"`
}

func organizationInput(r *request) (organizationAttributes, error) {
	body, err := r.body()
	if err != nil {
		return organizationAttributes{}, err
	}
	in, err := decode[organizationAttributes](body, "organizations")
	return in.Attributes, err
}

func (s *server) createOrganization(r *request) (answer, error) {
	in, err := organizationInput(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.Workspaces.CreateOrganization(r.ctx, r.actor, accounts.NewOrganization{Name: in.Name.Or(""), Email: in.Email.Or("")})
	if err != nil {
		return answer{}, err
	}
	return created(newOrganizationView(r.actor, o)), nil
}

func (s *server) updateOrganization(r *request) (answer, error) {
	in, err := organizationInput(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.Accounts.UpdateOrganization(r.ctx, r.actor, r.vars["organization"], accounts.OrganizationChanges{
		Name: in.Name.Pointer(), Email: textOrEmpty(in.Email),
	})
	if err != nil {
		return answer{}, err
	}
	return ok(newOrganizationView(r.actor, o)), nil
}

func (s *server) deleteOrganization(r *request) (answer, error) {
	return noContent(), s.Runs.DeleteOrganization(r.ctx, r.actor, r.vars["organization"])
}

// entitlementsView says what an organization can use. The client runs every plan on
// its own machine, without a word, unless operations is true (NC-02).
type entitlementsView struct {
	ID                    string `jsonapi:"primary,entitlement-sets"`
	Agents                bool   `jsonapi:"attr,agents"`
	AuditLogging          bool   `jsonapi:"attr,audit-logging"`
	CostEstimation        bool   `jsonapi:"attr,cost-estimation"`
	GlobalRunTasks        bool   `jsonapi:"attr,global-run-tasks"`
	Operations            bool   `jsonapi:"attr,operations"`
	PrivateModuleRegistry bool   `jsonapi:"attr,private-module-registry"`
	PrivateRunTasks       bool   `jsonapi:"attr,private-run-tasks"`
	RunTasks              bool   `jsonapi:"attr,run-tasks"`
	Sentinel              bool   `jsonapi:"attr,sentinel"`
	SSO                   bool   `jsonapi:"attr,sso"`
	StateStorage          bool   `jsonapi:"attr,state-storage"`
	Teams                 bool   `jsonapi:"attr,teams"`
	VCSIntegrations       bool   `jsonapi:"attr,vcs-integrations"`
	WaypointActions       bool   `jsonapi:"attr,waypoint-actions"`
	WaypointTemplates     bool   `jsonapi:"attr,waypoint-templates-and-addons"`
}

func (*entitlementsView) relations() relations { return nil }

func (s *server) entitlements(r *request) (answer, error) {
	o, err := s.Accounts.Organization(r.ctx, r.actor, r.vars["organization"])
	if err != nil {
		return answer{}, err
	}
	return ok(&entitlementsView{ID: o.Name, Operations: true, StateStorage: true, RunTasks: true, GlobalRunTasks: true}), nil
}
