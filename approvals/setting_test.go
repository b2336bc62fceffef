package approvals_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/artifacts/storetest"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// site is an organization with two projects, and a workspace in each.
type site struct {
	*testing.T
	db       *postgres.DB
	rules    *approvals.Service
	who      *accounts.Service
	org      accounts.Organization
	net, app workspaces.Workspace
	team     accounts.Team
}

func newSite(t *testing.T) *site {
	db := testdb.New(t)
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	objects := artifacts.New(db, storetest.NewMemory(), ring)
	s := &site{T: t, db: db, who: accounts.New(db, objects)}
	s.rules = approvals.New(db)
	spaces := workspaces.New(db, s.who, objects)
	s.org, err = spaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	workspace := func(name string) workspaces.Workspace {
		p, err := spaces.CreateProject(ctx, authz.System(), "acme", workspaces.NewProject{Name: name})
		require.NoError(t, err)
		w, err := spaces.Create(ctx, authz.System(), "acme", workspaces.NewWorkspace{Name: name, Settings: workspaces.Settings{Project: &p.ID}})
		require.NoError(t, err)
		return w
	}
	s.net, s.app = workspace("net"), workspace("app")
	name := "reviewers"
	s.team, err = s.who.CreateTeam(ctx, authz.System(), "acme", accounts.TeamSettings{Name: &name})
	require.NoError(t, err)
	return s
}

func ptr[T any](v T) *T { return &v }

func (s *site) say(t approvals.Target, fn func(*approvals.Setting)) approvals.Said {
	s.Helper()
	said, err := s.rules.Change(ctx, authz.System(), t, fn)
	require.NoError(s, err)
	return said
}

func (s *site) at(t approvals.Target) approvals.Said {
	s.Helper()
	said, err := s.rules.Rule(ctx, authz.System(), t)
	require.NoError(s, err)
	return said
}

var everywhere = approvals.Target{Organization: "acme"}

func project(w workspaces.Workspace) approvals.Target { return approvals.Target{Project: w.Project} }
func only(w workspaces.Workspace) approvals.Target    { return approvals.Target{Workspace: w.ID} }

// What is said of an organization holds in its projects, and what is said of a project in its workspaces and
// in no others; a place can be stricter than what is around it, and never laxer.
func TestRulesAreInheritedAndOnlyTightened(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	settled := approvals.Rule{Mode: approvals.Requester, Required: 1}
	for _, place := range []approvals.Target{everywhere, project(s.net), only(s.net), only(s.app)} {
		assert.Equal(t, settled, s.at(place).Effective)
		assert.Equal(t, approvals.Setting{}, s.at(place).Setting)
	}

	s.say(everywhere, func(x *approvals.Setting) { x.Required = ptr(2) })
	s.say(project(s.net), func(x *approvals.Setting) { x.ExcludeRequester, x.Reviewers = ptr(true), []ids.Team{s.team.ID} })
	said := s.say(only(s.net), func(x *approvals.Setting) {
		x.Required, x.Mode, x.ExcludeRequester = ptr(1), ptr(approvals.Automatic), ptr(false)
	})
	want := approvals.Rule{Mode: approvals.Automatic, Required: 2, ExcludeRequester: true, Reviewers: [][]ids.Team{{s.team.ID}}}
	assert.Equal(t, want, said.Effective)
	assert.Equal(t, approvals.Setting{Mode: ptr(approvals.Automatic), Required: ptr(1), ExcludeRequester: ptr(false)}, said.Setting, "what is said here stays as it was said")
	assert.Equal(t, want, s.at(only(s.net)).Effective)
	assert.Equal(t, string(s.net.ID), said.ID())
	assert.Equal(t, approvals.Rule{Mode: approvals.Requester, Required: 2}, s.at(everywhere).Effective)
	assert.Equal(t, approvals.Rule{Mode: approvals.Requester, Required: 2}, s.at(only(s.app)).Effective, "another project's workspace")

	s.say(everywhere, func(x *approvals.Setting) { x.Mode = ptr(approvals.Manual) })
	assert.Equal(t, approvals.Manual, s.at(only(s.net)).Effective.Mode)
	s.say(only(s.net), func(x *approvals.Setting) { *x = approvals.Setting{} })
	s.say(project(s.net), func(x *approvals.Setting) { *x = approvals.Setting{} })
	s.say(everywhere, func(x *approvals.Setting) { *x = approvals.Setting{} })
	assert.Equal(t, settled, s.at(only(s.net)).Effective)
}

// A class is said of an organization, of a project or of the workspace itself, and production stays production.
func TestTheClassOfAnEnvironmentIsInherited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.say(project(s.net), func(x *approvals.Setting) { x.Class = ptr(workspaces.Production) })
	assert.Equal(t, approvals.Rule{Mode: approvals.Manual, Required: 1, Production: true}, s.at(only(s.net)).Effective)
	assert.False(t, s.at(only(s.app)).Effective.Production)
	s.say(project(s.net), func(x *approvals.Setting) { x.Class = nil })
	s.say(everywhere, func(x *approvals.Setting) { x.Class = ptr(workspaces.Production) })
	s.say(project(s.net), func(x *approvals.Setting) { x.Class = ptr(workspaces.Other) })
	assert.True(t, s.at(only(s.net)).Effective.Production, "a project does not take it back")
	s.say(everywhere, func(x *approvals.Setting) { x.Class = nil })
	assert.False(t, s.at(only(s.net)).Effective.Production)
	require.NoError(t, postgres.InTx(ctx, s.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update workspaces set environment_class = 'production' where id = @id", postgres.Args{"id": s.app.ID})
		return err
	}))
	assert.True(t, s.at(only(s.app)).Effective.Production)
}

func TestARuleTakesOnlyWhatMakesSense(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	abroad := ids.New[ids.Team]()
	for name, c := range map[string]struct {
		at   approvals.Target
		fn   func(*approvals.Setting)
		text string
	}{
		"a mode":              {everywhere, func(x *approvals.Setting) { x.Mode = ptr(approvals.Mode("vote")) }, "Mode must be manual, requester or policy"},
		"none":                {everywhere, func(x *approvals.Setting) { x.Required = ptr(0) }, "from 1 to 20"},
		"too many":            {everywhere, func(x *approvals.Setting) { x.Required = ptr(21) }, "from 1 to 20"},
		"no team":             {everywhere, func(x *approvals.Setting) { x.Reviewers = []ids.Team{s.team.ID, abroad} }, string(abroad)},
		"too many teams":      {everywhere, func(x *approvals.Setting) { x.Reviewers = make([]ids.Team, 21) }, "at most 20"},
		"a class":             {everywhere, func(x *approvals.Setting) { x.Class = ptr(workspaces.EnvironmentClass("test")) }, "production or other"},
		"a workspace's class": {only(s.net), func(x *approvals.Setting) { x.Class = ptr(workspaces.Production) }, "on the workspace itself"},
	} {
		_, err := s.rules.Change(ctx, authz.System(), c.at, c.fn)
		require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		assert.ErrorContains(t, err, c.text, name)
	}
	assert.Equal(t, approvals.Setting{}, s.at(everywhere).Setting)
}

// Who sees a thing sees its rule; who may update it may change it, and every change is written down.
func TestWhoChangesARule(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	member := authz.Actor{Kind: authz.UserActor, User: "user-x", Roles: map[ids.Organization]authz.Role{s.org.ID: authz.Member}}
	reader := member
	reader.Grants = map[ids.Organization]authz.Grants{s.org.ID: {Projects: map[ids.Project][]authz.Level{s.net.Project: {"project:write"}}}}
	for name, c := range map[string]struct {
		actor         authz.Actor
		at            approvals.Target
		reads, writes fault.Kind
	}{
		"organization, a member":       {member, everywhere, 0, fault.Forbidden},
		"project, who does not see it": {member, project(s.net), fault.NotFound, fault.NotFound},
		"workspace, who does not see":  {member, only(s.net), fault.NotFound, fault.NotFound},
		"project, with write":          {reader, project(s.net), 0, fault.Forbidden},
		"workspace, with write":        {reader, only(s.net), 0, fault.Forbidden},
		"workspace of another project": {reader, only(s.app), fault.NotFound, fault.NotFound},
		"organization, its own token":  {authz.Actor{Kind: authz.OrganizationActor, Organization: s.org.ID, Roles: map[ids.Organization]authz.Role{}}, everywhere, fault.NotFound, fault.NotFound},
	} {
		_, err := s.rules.Rule(ctx, c.actor, c.at)
		assert.Equal(t, c.reads != 0, err != nil, "%s reads: %v", name, err)
		_, err = s.rules.Change(ctx, c.actor, c.at, func(x *approvals.Setting) { x.Required = ptr(1) })
		assert.True(t, fault.Is(err, c.writes), "%s changes: %v", name, err)
	}
	s.say(only(s.net), func(x *approvals.Setting) { x.Required = ptr(2) })
	require.NoError(t, postgres.InTx(ctx, s.db, "test", func(tx postgres.Tx) error {
		n, err := postgres.Value[int](ctx, tx, `select count(*) from audit_entries where action = 'approval-rule.changed' and object_id = @id
			and details->'before'->>'required-approvals' = '0' and details->'after'->>'required-approvals' = '2' and details->'effective'->>'required-approvals' = '2'`, postgres.Args{"id": s.net.ID})
		assert.Equal(t, 1, n)
		return err
	}))
}

// A team that a rule names stays: else nobody could approve there. Once no rule names it, it goes.
func TestATeamThatReviewsStays(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := func(x *approvals.Setting) { x.Reviewers = []ids.Team{s.team.ID} }
	unname := func(x *approvals.Setting) { x.Reviewers = nil }
	s.say(everywhere, name)
	s.say(project(s.app), name)
	s.say(only(s.net), name)
	manager := authz.Actor{
		Kind: authz.UserActor, User: "user-x", Roles: map[ids.Organization]authz.Role{s.org.ID: authz.Member},
		Grants: map[ids.Organization]authz.Grants{s.org.ID: {Levels: []authz.Level{"organization:manage-teams"}, Teams: []ids.Team{s.team.ID}}},
	}
	refused := func(actor authz.Actor, places string) {
		t.Helper()
		err := s.who.DeleteTeam(ctx, actor, s.team.ID)
		wantConflict(t, err, "team_reviews")
		assert.ErrorContains(t, err, "approval rule of "+places+", and nobody")
	}
	refused(authz.System(), `organization "acme", project "app", workspace "net"`)
	refused(manager, `organization "acme" and 2 more`)
	s.say(everywhere, unname)
	refused(manager, "2 places that you do not see")
	s.say(project(s.app), unname)
	s.say(only(s.net), unname)
	require.NoError(t, s.who.DeleteTeam(ctx, manager, s.team.ID))

	_, err := s.rules.Change(ctx, authz.System(), only(s.net), name)
	require.True(t, fault.Is(err, fault.Invalid), err)
	assert.ErrorContains(t, err, string(s.team.ID))
	rule := approvals.Rule{Reviewers: [][]ids.Team{{s.team.ID}}}
	assert.Equal(t, 1, rule.Missing([]approvals.Vote{{Reviewer: "user-1", Requester: "user-2", Source: approvals.Native}}), "a rule that names a team that is gone is not fulfilled")
}

// A rule that comes to name a team, and the deletion of the team, wait for one another: one of them is refused.
func TestANewReviewerAndItsDeletionMeet(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	name := func(x *approvals.Setting) { x.Reviewers = []ids.Team{s.team.ID} }
	locked, leave, named := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		_ = postgres.InTx(ctx, s.db, "test", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, "delete from teams where id = @id", postgres.Args{"id": s.team.ID})
			assert.NoError(t, err)
			close(locked)
			<-leave
			return err
		})
	}()
	<-locked
	go func() { _, err := s.rules.Change(ctx, authz.System(), only(s.net), name); named <- err }()
	assert.Eventually(t, func() bool {
		waits := false
		err := postgres.InTx(ctx, s.db, "test", func(tx postgres.Tx) (err error) {
			waits, err = postgres.Value[bool](ctx, tx, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')", postgres.Args{})
			return err
		})
		return err == nil && waits
	}, 30*time.Second, 10*time.Millisecond, "the rule waits for the deletion")
	close(leave)
	require.True(t, fault.Is(<-named, fault.Invalid))
	assert.Equal(t, approvals.Setting{}, s.at(only(s.net)).Setting)
}
