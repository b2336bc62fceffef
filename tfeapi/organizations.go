package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

// organizationView is an organization on the wire; its id is its name.
type organizationView struct {
	ID                     string                  `jsonapi:"primary,organizations"`
	Name                   string                  `jsonapi:"attr,name"`
	ExternalID             string                  `jsonapi:"attr,external-id"`
	Email                  string                  `jsonapi:"attr,email"`
	CreatedAt              time.Time               `jsonapi:"attr,created-at,iso8601"`
	DefaultExecutionMode   string                  `jsonapi:"attr,default-execution-mode"`
	SessionTimeout         *int                    `jsonapi:"attr,session-timeout"`
	SessionRemember        *int                    `jsonapi:"attr,session-remember"`
	RemainingTestableCount int                     `jsonapi:"attr,remaining-testable-count"`
	CollaboratorAuthPolicy string                  `jsonapi:"attr,collaborator-auth-policy"`
	CostEstimationEnabled  bool                    `jsonapi:"attr,cost-estimation-enabled"`
	AssessmentsEnforced    bool                    `jsonapi:"attr,assessments-enforced"`
	UserTokensEnabled      bool                    `jsonapi:"attr,user-tokens-enabled"`
	AllowForceDelete       bool                    `jsonapi:"attr,allow-force-delete-workspaces"`
	SAMLEnabled            bool                    `jsonapi:"attr,saml-enabled"`
	TwoFactorConformant    bool                    `jsonapi:"attr,two-factor-conformant"`
	AggregatedStatuses     bool                    `jsonapi:"attr,aggregated-commit-status-enabled"`
	PassingStatuses        bool                    `jsonapi:"attr,send-passing-statuses-for-untriggered-speculative-plans"`
	SpeculativeManagement  bool                    `jsonapi:"attr,speculative-plan-management-enabled"`
	PlanExpired            bool                    `jsonapi:"attr,plan-expired"`
	PlanIsTrial            bool                    `jsonapi:"attr,plan-is-trial"`
	OwnersTeamSAMLRole     *string                 `jsonapi:"attr,owners-team-saml-role-id"`
	Permissions            organizationPermissions `jsonapi:"attr,permissions"`
	related                relations
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

	CanAccessViaTeams       bool `json:"can-access-via-teams"`
	CanCreateModule         bool `json:"can-create-module"`
	CanCreateProvider       bool `json:"can-create-provider"`
	CanEnableStacks         bool `json:"can-enable-stacks"`
	CanManageAssessments    bool `json:"can-manage-assessments"`
	CanManagePublicModules  bool `json:"can-manage-public-modules"`
	CanManagePublicProvider bool `json:"can-manage-public-providers"`
	CanManageSSO            bool `json:"can-manage-sso"`
	CanManageSubscription   bool `json:"can-manage-subscription"`
	CanManageTags           bool `json:"can-manage-tags"`
	CanManageUsers          bool `json:"can-manage-users"`
	CanManageVariableSets   bool `json:"can-manage-varsets"`
	CanReadAssessments      bool `json:"can-read-assessments"`
	CanReadPolicies         bool `json:"can-read-policies"`
	CanReadRunTasks         bool `json:"can-read-run-tasks"`
	CanReadVariableSets     bool `json:"can-read-varsets"`
	CanUpdateAgentPools     bool `json:"can-update-agent-pools"`
	CanUpdateToken          bool `json:"can-update-authentication-token"`
	CanUpdateSSHKeys        bool `json:"can-update-ssh-keys"`
	CanViewUsers            bool `json:"can-view-users"`

	CanDeployNoCodeModules bool `json:"can-deploy-no-code-modules"`
	CanManageNoCodeModules bool `json:"can-manage-no-code-modules"`
}

func (v *organizationView) relations() relations { return v.related }

// testableCount is how many more modules may be tested: there is no limit, and clients want a number.
const testableCount = 1_000_000

func newOrganizationView(actor authz.Actor, o accounts.Organization) *organizationView {
	can := func(action authz.Action) bool { return authz.Can(actor, action, authz.Object{Organization: o.ID}) }
	return &organizationView{
		ID: o.Name, Name: o.Name, ExternalID: string(o.ID), Email: o.Email, CreatedAt: o.CreatedAt,
		DefaultExecutionMode: string(o.DefaultExecutionMode), SessionTimeout: o.SessionTimeout, SessionRemember: o.SessionRemember,
		RemainingTestableCount: testableCount, CollaboratorAuthPolicy: passwordPolicy, UserTokensEnabled: o.UserTokensEnabled, AllowForceDelete: o.ForceDeleteAllowed,
		AggregatedStatuses: o.AggregatedCommitStatus, PassingStatuses: o.PassingCommitStatuses, SpeculativeManagement: o.SpeculativePlanManagement, PlanExpired: o.FeatureSetEnded,
		Permissions: organizationPermissions{
			CanCreateProject: can(authz.ProjectCreate), CanCreateTeam: can(authz.TeamsManage), CanManageRunTasks: can(authz.RunTasksManage),
			CanUpdateAPIToken: can(authz.OrganizationTokens), CanUpdateOAuth: can(authz.VCSManage), CanUpdateSentinel: can(authz.PoliciesManage), CanCreateWorkspace: can(authz.WorkspaceCreate),
			CanDestroy: can(authz.OrganizationDelete), CanTraverse: can(authz.OrganizationRead), CanUpdate: can(authz.OrganizationSettings),
			CanAccessViaTeams: can(authz.OrganizationRead), CanCreateModule: can(authz.ModulesManage), CanCreateProvider: can(authz.ProvidersManage),
			CanManageTags: can(authz.OrganizationUpdate), CanManageUsers: can(authz.MembershipManage), CanManageVariableSets: can(authz.VariableSetsWrite),
			CanReadPolicies: can(authz.PoliciesRead), CanReadRunTasks: can(authz.OrganizationRead), CanReadVariableSets: can(authz.VariableSetsRead),
			CanUpdateAgentPools: can(authz.AgentPoolsManage), CanUpdateToken: can(authz.OrganizationTokens), CanUpdateSSHKeys: can(authz.VCSManage), CanViewUsers: can(authz.OrganizationRead),
			CanDeployNoCodeModules: can(authz.WorkspaceCreate), CanManageNoCodeModules: can(authz.OrganizationUpdate),
		},
		related: relations{
			"default-project": optional("projects", o.DefaultProject), "default-agent-pool": optional("agent-pools", o.DefaultAgentPool),
			"data-retention-policy": retentionRef(o.RetentionID, o.RetentionDays),
			"entitlement-set":       ref{"entitlement-sets", o.Name}, "subscription": ref{"subscriptions", subscriptionID(o)},
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
	whole := !r.pageAsked()
	part := wanted.page()
	part.Whole = whole
	search := accounts.OrganizationSearch{Any: r.query.Get("q"), Name: r.query.Get("q[name]"), Email: r.query.Get("q[email]")}
	list, total, err := s.Accounts.Organizations(r.ctx, r.actor, search, part)
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
	var included []view
	if r.includes()["default-project"] {
		p, err := s.Workspaces.Project(r.ctx, r.actor, o.DefaultProject)
		if err != nil {
			return answer{}, err
		}
		included = append(included, newProjectView(r.actor, p))
	}
	return ok(newOrganizationView(r.actor, o), included...), nil
}

// passwordPolicy is the one collaborator-auth-policy that there is.
const passwordPolicy = "password"

type organizationAttributes struct {
	Name                 Opt[string] `json:"name"`
	Email                Opt[string] `json:"email"`
	DefaultExecutionMode Opt[string] `json:"default-execution-mode"`
	SessionTimeout       Opt[int]    `json:"session-timeout"`
	SessionRemember      Opt[int]    `json:"session-remember"`
	AllowForceDelete     Opt[bool]   `json:"allow-force-delete-workspaces"`
	UserTokensEnabled    Opt[bool]   `json:"user-tokens-enabled"`
	AuthPolicy           Opt[string] `json:"collaborator-auth-policy"`
	// What is said about VCS connections, to be read back.
	AggregatedStatuses    Opt[bool] `json:"aggregated-commit-status-enabled"`
	PassingStatuses       Opt[bool] `json:"send-passing-statuses-for-untriggered-speculative-plans"`
	SpeculativeManagement Opt[bool] `json:"speculative-plan-management-enabled"`
}

// organizationInput reads what a request says about an organization.
func organizationInput(r *request) (name, email *string, settings accounts.OrganizationSettings, err error) {
	body, err := r.body()
	if err != nil {
		return nil, nil, settings, err
	}
	in, err := decode[organizationAttributes](body, "organizations")
	if err != nil {
		return nil, nil, settings, err
	}
	a := in.Attributes
	if policy := a.AuthPolicy.Pointer(); policy != nil && *policy != passwordPolicy { // taken for granted, it would be believed
		return nil, nil, settings, accounts.Invalid("collaborator-auth-policy", "Collaborator auth policy can only be %s: a second factor is not demanded of the members of an organization. Leave it out", passwordPolicy)
	}
	settings = accounts.OrganizationSettings{
		DefaultExecutionMode: (*accounts.ExecutionMode)(a.DefaultExecutionMode.Pointer()), SessionTimeout: numberOrZero(a.SessionTimeout),
		SessionRemember: numberOrZero(a.SessionRemember), ForceDeleteAllowed: a.AllowForceDelete.Pointer(), UserTokensEnabled: a.UserTokensEnabled.Pointer(),
		AggregatedCommitStatus: a.AggregatedStatuses.Pointer(), PassingCommitStatuses: a.PassingStatuses.Pointer(), SpeculativePlanManagement: a.SpeculativeManagement.Pointer(),
	}
	settings.DefaultAgentPool, err = in.relatedPool("default-agent-pool")
	return a.Name.Pointer(), textOrEmpty(a.Email), settings, err
}

// relatedPool reads a relation to an agent pool; null is none.
func (in input[A]) relatedPool(name string) (*ids.RunnerGroup, error) {
	if _, said := in.relations[name]; !said {
		return nil, nil
	}
	text, err := in.related(name, "agent-pools")
	if err != nil {
		return nil, err
	}
	return agentPool(Opt[string]{Value: text, Present: true, Null: text == ""})
}

// numberOrZero takes null for a number as the wish to clear it.
func numberOrZero(o Opt[int]) *int {
	if o.Null {
		return new(int)
	}
	return o.Pointer()
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func (s *server) createOrganization(r *request) (answer, error) {
	name, email, settings, err := organizationInput(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.Workspaces.CreateOrganization(r.ctx, r.actor, accounts.NewOrganization{Name: orEmpty(name), Email: orEmpty(email), OrganizationSettings: settings})
	if err != nil {
		return answer{}, err
	}
	return created(newOrganizationView(r.actor, o)), nil
}

func (s *server) updateOrganization(r *request) (answer, error) {
	name, email, settings, err := organizationInput(r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.Workspaces.UpdateOrganization(r.ctx, r.actor, r.vars["organization"], accounts.OrganizationChanges{Name: name, Email: email, OrganizationSettings: settings})
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
	return ok(&entitlementsView{ID: o.Name, Operations: true, StateStorage: true, RunTasks: true, GlobalRunTasks: o.GlobalRunTasks, PrivateModuleRegistry: true}), nil
}
