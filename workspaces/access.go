package workspaces

import (
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
)

// Access is what a team may do in a workspace, or in each workspace of a project, in the
// words of the API: a fixed level, or "custom" with the parts that follow.
type Access struct {
	Level         string // "read", "plan", "write", "maintain" (of a project), "admin" or "custom"
	Runs          string // "read", "plan" or "apply"
	Variables     string // "none", "read" or "write"
	StateVersions string // "none", "read-outputs", "read" or "write"
	SentinelMocks string // "none" or "read"
	Locking, RunTasks, PolicyOverrides,
	RunRecover, StateRecover, ProductionAct bool // those that Terraform Cloud does not know

	// Of a project only.
	Settings             string // "read", "update" or "delete"
	Teams                string // "none", "read" or "manage"
	VariableSets         string // "none", "read" or "write"
	Create, Move, Delete bool
}

// AccessChanges are what a request says about an access; nil stays as it is or, of a new
// custom access, is the least.
type AccessChanges struct {
	Level, Runs, Variables, StateVersions, SentinelMocks, Settings, Teams, VariableSets               *string
	Locking, RunTasks, PolicyOverrides, RunRecover, StateRecover, ProductionAct, Create, Move, Delete *bool
}

const custom = "custom"

// place is where a team has an access: it says which fixed levels there are.
type place struct {
	prefix string // of the levels
	fixed  []string
}

var (
	inWorkspace = place{"workspace:", []string{"read", "plan", "write", "admin"}}
	inProject   = place{"project:", []string{"read", "write", "maintain", "admin"}}
)

// part is one thing that a custom access says: the words it can be, the least first, and
// the action each word beyond that stands for.
type part struct {
	name, attribute string // as the API writes it: for people, and in the document
	of              func(*Access) *string
	said            func(AccessChanges) *string
	words           []string
	levels          []authz.Level // of each word; empty gives nothing
	actions         []authz.Action
	onlyProject     bool
}

var parts = []part{
	{"Runs", "runs", func(a *Access) *string { return &a.Runs }, func(c AccessChanges) *string { return c.Runs },
		[]string{"read", "plan", "apply"}, []authz.Level{"workspace:runs=read", "workspace:runs=plan", "workspace:runs=apply"},
		[]authz.Action{"", authz.RunQueue, authz.RunApply}, false},
	{"Variables", "variables", func(a *Access) *string { return &a.Variables }, func(c AccessChanges) *string { return c.Variables },
		[]string{"none", "read", "write"}, []authz.Level{"", "workspace:variables=read", "workspace:variables=write"},
		[]authz.Action{"", authz.VariablesRead, authz.VariablesWrite}, false},
	{"State versions", "state-versions", func(a *Access) *string { return &a.StateVersions }, func(c AccessChanges) *string { return c.StateVersions },
		[]string{"none", "read-outputs", "read", "write"}, []authz.Level{"", "workspace:state=read-outputs", "workspace:state=read", "workspace:state=write"},
		[]authz.Action{"", authz.StateReadOutputs, authz.StateRead, authz.StateWrite}, false},
	{"Sentinel mocks", "sentinel-mocks", func(a *Access) *string { return &a.SentinelMocks }, func(c AccessChanges) *string { return c.SentinelMocks },
		[]string{"none", "read"}, []authz.Level{"", "workspace:sentinel-mocks"}, []authz.Action{"", authz.SentinelMocksRead}, false},
	{"Settings", "settings", func(a *Access) *string { return &a.Settings }, func(c AccessChanges) *string { return c.Settings },
		[]string{"read", "update", "delete"}, []authz.Level{"project:settings=read", "project:settings=update", "project:settings=delete"},
		[]authz.Action{"", authz.ProjectUpdate, authz.ProjectDelete}, true},
	{"Teams", "teams", func(a *Access) *string { return &a.Teams }, func(c AccessChanges) *string { return c.Teams },
		[]string{"none", "read", "manage"}, []authz.Level{"", "project:teams=read", "project:teams=manage"},
		[]authz.Action{"", authz.ProjectTeamsRead, authz.ProjectTeamsManage}, true},
	{"Variable sets", "variable-sets", func(a *Access) *string { return &a.VariableSets }, func(c AccessChanges) *string { return c.VariableSets },
		[]string{"none", "read", "write"}, []authz.Level{"", "project:variable-sets=read", "project:variable-sets=write"},
		[]authz.Action{"", authz.VariableSetsRead, authz.VariableSetsWrite}, true},
}

// flag is a part that is there or not.
type flag struct {
	name, attribute string
	of              func(*Access) *bool
	said            func(AccessChanges) *bool
	level           authz.Level
	action          authz.Action
	onlyProject     bool
}

var flags = []flag{
	{"Workspace locking", "workspace-locking", func(a *Access) *bool { return &a.Locking }, func(c AccessChanges) *bool { return c.Locking }, "workspace:locking", authz.WorkspaceLock, false},
	{"Run tasks", "run-tasks", func(a *Access) *bool { return &a.RunTasks }, func(c AccessChanges) *bool { return c.RunTasks }, "workspace:run-tasks", authz.WorkspaceRunTasks, false},
	{"Policy overrides", "policy-overrides", func(a *Access) *bool { return &a.PolicyOverrides }, func(c AccessChanges) *bool { return c.PolicyOverrides }, "workspace:policy-overrides", authz.PoliciesOverride, false},
	{"Run recover", "run-recover", func(a *Access) *bool { return &a.RunRecover }, func(c AccessChanges) *bool { return c.RunRecover }, "workspace:run-recover", authz.RunRecover, false},
	{"State recover", "state-recover", func(a *Access) *bool { return &a.StateRecover }, func(c AccessChanges) *bool { return c.StateRecover }, "workspace:state-recover", authz.StateRecover, false},
	{"Production act", "production-act", func(a *Access) *bool { return &a.ProductionAct }, func(c AccessChanges) *bool { return c.ProductionAct }, "workspace:production-act", authz.ProductionAct, false},
	{"Create", "create", func(a *Access) *bool { return &a.Create }, func(c AccessChanges) *bool { return c.Create }, "project:create", authz.WorkspaceCreate, true},
	{"Move", "move", func(a *Access) *bool { return &a.Move }, func(c AccessChanges) *bool { return c.Move }, "workspace:move", authz.WorkspaceMove, true},
	{"Delete", "delete", func(a *Access) *bool { return &a.Delete }, func(c AccessChanges) *bool { return c.Delete }, "workspace:delete", authz.WorkspaceDelete, true},
}

func (p place) has(onlyProject bool) bool { return !onlyProject || p.prefix == inProject.prefix }

// access reads levels back: the table of authz says what each part of a fixed one is.
func (p place) access(levels []authz.Level) Access {
	a := Access{Level: custom}
	if fixed := strings.TrimPrefix(string(levels[0]), p.prefix); len(levels) == 1 && slices.Contains(p.fixed, fixed) {
		a.Level = fixed
	}
	gives := func(action authz.Action) bool {
		return slices.ContainsFunc(levels, func(l authz.Level) bool { return l.Gives(action) })
	}
	for _, part := range parts {
		value := part.words[0]
		for i, action := range part.actions {
			if action != "" && gives(action) {
				value = part.words[i]
			}
		}
		*part.of(&a) = value
	}
	for _, f := range flags {
		*f.of(&a) = gives(f.action)
	}
	return a
}

// levels gives what is stored for an access after the changes. Parts can be said only of
// a custom access, or as what the fixed level means anyway.
func (p place) levels(before Access, c AccessChanges) ([]authz.Level, error) {
	level := before.Level
	if c.Level != nil {
		level = *c.Level
	}
	if level == "" {
		return nil, accounts.Invalid("access", "Access can't be blank")
	}
	if level != custom {
		if !slices.Contains(p.fixed, level) {
			return nil, accounts.Invalid("access", "Access must be one of %s and custom", strings.Join(p.fixed, ", "))
		}
		levels := []authz.Level{authz.Level(p.prefix + level)}
		return levels, c.agrees(p.access(levels), level)
	}
	var levels []authz.Level
	after := before
	if before.Level != custom { // who leaves a fixed level does not keep what it may not know of
		after.RunRecover, after.StateRecover, after.ProductionAct = false, false, false
	}
	for _, part := range parts {
		if !p.has(part.onlyProject) {
			continue
		}
		if said := part.said(c); said != nil {
			*part.of(&after) = *said
		}
		value := *part.of(&after)
		if value == "" {
			value = part.words[0]
		}
		i := slices.Index(part.words, value)
		if i < 0 {
			return nil, accounts.Invalid(part.attribute, "%s must be one of %s", part.name, strings.Join(part.words, ", "))
		}
		if part.levels[i] != "" {
			levels = append(levels, part.levels[i])
		}
	}
	for _, f := range flags {
		if !p.has(f.onlyProject) {
			continue
		}
		if said := f.said(c); said != nil {
			*f.of(&after) = *said
		}
		if *f.of(&after) {
			levels = append(levels, f.level)
		}
	}
	return levels, nil
}

// agrees refuses parts that say something else than the fixed level does.
func (c AccessChanges) agrees(fixed Access, level string) error {
	refuse := func(attribute, name string) error {
		return accounts.Invalid(attribute, "%s is read-only when access level is '%s'; use the 'custom' access level to set this attribute.", name, level)
	}
	for _, part := range parts {
		if said := part.said(c); said != nil && *said != *part.of(&fixed) {
			return refuse(part.attribute, part.name)
		}
	}
	for _, f := range flags {
		if said := f.said(c); said != nil && *said != *f.of(&fixed) {
			return refuse(f.attribute, f.name)
		}
	}
	return nil
}
