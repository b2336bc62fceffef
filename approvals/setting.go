package approvals

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

const (
	maxRequired = 20
	maxTeams    = 20
)

// Setting is what is said at one place; nil is nothing.
type Setting struct {
	Mode             *Mode
	Required         *int
	ExcludeRequester *bool
	Reviewers        []ids.Team                   // of one of these; nil: of any team or none
	Class            *workspaces.EnvironmentClass // of all workspaces there; of an organization or project only
}

func (s Setting) rule() Rule {
	var r Rule
	if s.Mode != nil {
		r.Mode = *s.Mode
	}
	if s.Required != nil {
		r.Required = *s.Required
	}
	if s.ExcludeRequester != nil {
		r.ExcludeRequester = *s.ExcludeRequester
	}
	if len(s.Reviewers) > 0 {
		r.Reviewers = [][]ids.Team{s.Reviewers}
	}
	r.Production = s.Class != nil && *s.Class == workspaces.Production
	return r
}

// Place is where a rule is said: an organization, or a project or workspace of it.
type Place struct {
	Organization ids.Organization
	Project      ids.Project   // of a workspace, the one that it is in
	Workspace    ids.Workspace // empty for a project or organization
	object       authz.Object
}

// ID is the id of the very thing.
func (p Place) ID() string {
	switch {
	case p.Workspace != "":
		return string(p.Workspace)
	case p.Project != "":
		return string(p.Project)
	}
	return string(p.Organization)
}

func (p Place) args() postgres.Args {
	return postgres.Args{"organization_id": p.Organization, "project_id": p.Project, "workspace_id": p.Workspace}
}

// Target names a place as a request does: exactly one of the three is given.
type Target struct {
	Organization string // by name
	Project      ids.Project
	Workspace    ids.Workspace
}

// Said is what is said at a place, and what holds there with all that is said around it.
type Said struct {
	Place
	Setting
	Effective Rule
}

// Service reads and writes rules.
type Service struct{ db *postgres.DB }

// New makes the service.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Rule gives what is said at a place, to whoever sees it.
func (s *Service) Rule(ctx context.Context, actor authz.Actor, t Target) (said Said, err error) {
	err = postgres.InSnapshot(ctx, s.db, "approvals.rule", func(tx postgres.Tx) error {
		p, err := find(ctx, tx, actor, t, see)
		if err != nil {
			return err
		}
		said, err = saidAt(ctx, tx, p)
		return err
	})
	return said, err
}

// Change has what is said at a place changed by fn. It takes the right to update the thing. Values
// against their rules are Invalid.
func (s *Service) Change(ctx context.Context, actor authz.Actor, t Target, fn func(*Setting)) (said Said, err error) {
	err = postgres.InTx(ctx, s.db, "approvals.change-rule", func(tx postgres.Tx) error {
		p, err := find(ctx, tx, actor, t, change)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("RuleAt"), p.args()); err != nil { // one after the other
			return err
		}
		before, err := saidAt(ctx, tx, p)
		if err != nil {
			return err
		}
		after := before.Setting
		fn(&after)
		if err := after.check(ctx, tx, p); err != nil {
			return err
		}
		args := p.args()
		args["mode"], args["required"], args["exclude"], args["class"] = (*string)(after.Mode), after.Required, after.ExcludeRequester, (*string)(after.Class)
		args["reviewers"] = after.Reviewers
		if _, err := postgres.Exec(ctx, tx, Queries.Get("RuleWrite"), args); err != nil {
			return err
		}
		if said, err = saidAt(ctx, tx, p); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: p.Organization, Actor: actor, Action: "approval-rule.changed", ObjectKind: p.object.Noun, ObjectID: p.ID(),
			Details: map[string]any{"before": before.rule(), "after": said.rule(), "effective": said.Effective},
		})
	})
	return said, err
}

// What a place is looked for, with the right that it takes at each kind.
var (
	see    = rights{authz.OrganizationRead, authz.ProjectRead, authz.WorkspaceRead}
	change = rights{authz.OrganizationUpdate, authz.ProjectUpdate, authz.WorkspaceUpdate}
)

type rights struct{ organization, project, workspace authz.Action }

func find(ctx context.Context, tx postgres.Tx, actor authz.Actor, t Target, r rights) (Place, error) {
	switch {
	case t.Workspace != "":
		w, err := workspaces.Allowed(ctx, tx, actor, r.workspace, t.Workspace)
		return Place{Organization: w.Organization, Project: w.Project, Workspace: w.ID, object: workspaces.Object(w)}, err
	case t.Project != "":
		p, err := workspaces.AllowedProject(ctx, tx, actor, r.project, t.Project)
		return Place{Organization: p.Organization, Project: p.ID, object: authz.Object{Noun: "project"}}, err
	default:
		o, err := accounts.AllowedOrganization(ctx, tx, actor, r.organization, t.Organization)
		return Place{Organization: o.ID, object: authz.Object{Noun: "organization"}}, err
	}
}

func (s Setting) check(ctx context.Context, tx postgres.Tx, p Place) error {
	switch {
	case s.Mode != nil && !slices.Contains(strictest, *s.Mode):
		return accounts.Invalid("mode", "Mode must be %s, %s or %s", Manual, Requester, Automatic)
	case s.Required != nil && (*s.Required < 1 || *s.Required > maxRequired):
		return accounts.Invalid("required-approvals", "Required approvals must be a number from 1 to %d", maxRequired)
	case len(s.Reviewers) > maxTeams:
		return accounts.Invalid("reviewer-teams", "Reviewer teams can be at most %d", maxTeams)
	case s.Class != nil && p.Workspace != "":
		return accounts.Invalid("environment-class", "Environment class of a workspace is set on the workspace itself")
	case s.Class != nil && *s.Class != workspaces.Production && *s.Class != workspaces.Other:
		return accounts.Invalid("environment-class", "Environment class must be %s or %s", workspaces.Production, workspaces.Other)
	}
	if len(s.Reviewers) == 0 {
		return nil
	}
	unknown, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("UnknownTeams"), postgres.Args{"organization_id": p.Organization, "teams": s.Reviewers})
	if err == nil && len(unknown) > 0 {
		err = accounts.Invalid("reviewer-teams", "Reviewer teams must be teams of the organization; %s is none", unknown[0])
	}
	return err
}

// ruleRow is what is said at one place.
type ruleRow struct {
	ProjectID        ids.Project
	WorkspaceID      ids.Workspace
	Mode             *Mode
	Required         *int
	ExcludeRequester *bool
	Reviewers        []ids.Team
	Class            *workspaces.EnvironmentClass
}

func (r ruleRow) setting() Setting {
	return Setting{Mode: r.Mode, Required: r.Required, ExcludeRequester: r.ExcludeRequester, Reviewers: r.Reviewers, Class: r.Class}
}

func saidAt(ctx context.Context, tx postgres.Tx, p Place) (Said, error) {
	said := Said{Place: p}
	rows, err := postgres.All[ruleRow](ctx, tx, Queries.Get("Rules"), p.args())
	if err != nil {
		return said, err
	}
	rule := Rule{}
	for _, r := range rows {
		s := r.setting()
		rule = rule.And(s.rule())
		if r.WorkspaceID == p.Workspace && (p.Workspace != "" || r.ProjectID == p.Project) {
			said.Setting = s
		}
	}
	if p.Workspace != "" {
		if rule.Production, err = postgres.Value[bool](ctx, tx, Queries.Get("IsProduction"), p.args()); err != nil {
			return said, err
		}
	}
	said.Effective = rule.Settled()
	return said, nil
}

// RuleOf gives the rule that holds for a workspace now: what its organization, its project and it
// itself say together.
func RuleOf(ctx context.Context, tx postgres.Tx, organization ids.Organization, project ids.Project, workspace ids.Workspace) (Rule, error) {
	said, err := saidAt(ctx, tx, Place{Organization: organization, Project: project, Workspace: workspace})
	if errors.Is(err, postgres.ErrNoRow) {
		err = fault.Missing("workspace", string(workspace))
	}
	return said.Effective, err
}
