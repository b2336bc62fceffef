package workspaces_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func TestCreateGivesDefaultsAndAFreeFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "Prod-1_a"})
	require.NoError(t, err)
	def, err := w.DefaultProject(ctx, w.owner, "acme")
	require.NoError(t, err)
	assert.Equal(t, workspaces.Workspace{
		ID: ws.ID, Organization: w.acme.ID, OrganizationName: "acme", Project: def.ID, ProjectName: "Default Project", Name: "Prod-1_a",
		ExecutionMode: workspaces.Remote, InheritsMode: true, TerraformVersion: "latest", AllowDestroyPlan: true, StructuredRunOutputEnabled: true, TagNames: []string{}, RunnerSelector: []string{},
		EnvironmentClass: workspaces.Other, FailedApply: workspaces.Hold,
		TriggerPrefixes: []string{}, TriggerPatterns: []string{}, ForceDeleteAllowed: true, Shown: workspaces.Shown{Variables: []ids.Variable{}},
		CreatedAt: ws.CreatedAt, UpdatedAt: ws.UpdatedAt, Fence: fence.Status{Workspace: ws.ID},
	}, ws)
	assert.False(t, ws.CreatedAt.IsZero())
	assert.Equal(t, 1, w.audited("workspace.created"))

	byID, err := w.Get(ctx, w.member, ws.ID)
	require.NoError(t, err)
	byName, err := w.GetByName(ctx, w.member, "acme", "Prod-1_a")
	require.NoError(t, err)
	list, _, err := w.List(ctx, w.member, "acme", workspaces.Filter{})
	require.NoError(t, err)
	assert.Equal(t, []workspaces.Workspace{ws, ws, ws}, []workspaces.Workspace{byID, byName, list[0]}, "the same from every read")
}

func TestCreateTakesEverySetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	never := time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: workspaces.Settings{
		Project: &project.ID, Description: ptr("about"), ExecutionMode: ptr(workspaces.Local), TerraformVersion: ptr("1.12.6-dev"),
		WorkingDirectory: ptr("live/eu"), AutoApply: ptr(true), AllowDestroyPlan: ptr(false), StructuredRunOutputEnabled: ptr(true), ClientEncrypted: ptr(true),
		EnvironmentClass: ptr(workspaces.Production), FailedApply: ptr(workspaces.Hold),
		RunnerSelector: ptr([]string{"gpu"}), AutoApplyRunTrigger: ptr(true), QueueAllRuns: ptr(true), AssessmentsEnabled: ptr(true), AutoDestroyAt: &never,
		FileTriggersEnabled: ptr(true), TriggerPrefixes: ptr([]string{"/a"}), SourceName: ptr("program"), SourceURL: ptr("https://program.test"),
	}})
	require.NoError(t, err)
	assert.True(t, never.Equal(*ws.AutoDestroyAt))
	ws.AutoDestroyAt = &never // in another zone
	assert.Equal(t, workspaces.Workspace{
		ID: ws.ID, Organization: w.acme.ID, OrganizationName: "acme", Project: project.ID, ProjectName: "net", Name: "w", Description: "about",
		ExecutionMode: workspaces.Local, TerraformVersion: "1.12.6-dev", WorkingDirectory: "live/eu", AutoApply: true, StructuredRunOutputEnabled: true,
		ClientEncrypted: true, EnvironmentClass: workspaces.Production, FailedApply: workspaces.Hold, TagNames: []string{}, RunnerSelector: []string{"gpu"},
		AutoApplyRunTrigger: true, QueueAllRuns: true, AssessmentsEnabled: true, AutoDestroyAt: &never, FileTriggersEnabled: true, TriggerPrefixes: []string{"/a"}, TriggerPatterns: []string{},
		SourceName: "program", SourceURL: "https://program.test", ForceDeleteAllowed: true, Shown: workspaces.Shown{Variables: []ids.Variable{}},
		CreatedAt: ws.CreatedAt, UpdatedAt: ws.UpdatedAt, Fence: fence.Status{Workspace: ws.ID},
	}, ws)
}

func TestWorkspaceNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "taken")
	w.workspace("acme", "Taken")
	w.workspace("other", "taken")
	w.workspace("acme", strings.Repeat("a", 90))
	for _, name := range []string{"", "team a/prod", "eu.prod", "a b", "ä", "a\x00", "a\n", strings.Repeat("a", 91)} {
		_, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name})
		assert.Truef(t, fault.Is(err, fault.Invalid), "create %q: %v", name, err)
		assert.ErrorContains(t, err, "letters, numbers, - and _", "it names the rule")
		_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Name: &name})
		assert.Truef(t, fault.Is(err, fault.Invalid), "rename to %q", name)
		_, err = w.GetByName(ctx, w.owner, "acme", name)
		assert.Truef(t, fault.Is(err, fault.NotFound), "read %q: %v", name, err)
	}
	_, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "taken"})
	assert.True(t, fault.Is(err, fault.Invalid))
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Name: ptr("Taken")})
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.GetByName(ctx, w.owner, "acme", "TAKEN")
	assert.True(t, fault.Is(err, fault.NotFound), "case counts")
}

func TestSettingsHoldTheirRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")

	good := map[string]workspaces.Settings{}
	for _, v := range []string{"latest", "1.12.6", "1.12.6-dev", "1.13.0-rc1", "0.11.0", "0.15.4"} {
		good["version "+v] = workspaces.Settings{TerraformVersion: &v}
	}
	for _, d := range []string{"", "a", "a/b", "a/b/", "..a/b..", "./a"} {
		good["directory "+d] = workspaces.Settings{WorkingDirectory: &d}
	}
	for name, s := range good {
		_, err := w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: s})
		assert.NoError(t, err, name)
	}

	bad := map[string]workspaces.Settings{
		"no pool":       {ExecutionMode: ptr(workspaces.ExecutionMode("agent"))},
		"unknown mode":  {ExecutionMode: ptr(workspaces.ExecutionMode("cloud"))},
		"no mode":       {ExecutionMode: ptr(workspaces.ExecutionMode(""))},
		"a label":       {RunnerSelector: ptr([]string{"a b"})},
		"many labels":   {RunnerSelector: ptr(strings.Split(strings.Repeat("a,", 20)+"a", ","))},
		"NUL":           {Description: ptr("a\x00")},
		"a long text":   {Description: ptr(strings.Repeat("a", 5000))},
		"bad UTF-8":     {Description: ptr("\xff")},
		"absent string": {TerraformVersion: ptr("")},
	}
	for _, v := range []string{"nonexisting", "~> 1.2.0", "1.2", "v1.2.3", "1.2.3 ", "1.2.3+meta", "1.2.3-", "latest\n", "LATEST", "1.2.3-\x00"} {
		bad["version "+v] = workspaces.Settings{TerraformVersion: &v}
	}
	for _, d := range []string{"/", "/a", "..", "../a", "a/../b", "a/..", `a\b`, `C:\a`, "a\x00"} {
		bad["directory "+d] = workspaces.Settings{WorkingDirectory: &d}
	}
	for name, s := range bad {
		_, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "new", Settings: s})
		assert.Truef(t, fault.Is(err, fault.Invalid), "create %s: %v", name, err)
		_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: s})
		assert.Truef(t, fault.Is(err, fault.Invalid), "update %s: %v", name, err)
	}
}

func TestForeignProjectsCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	foreign, err := w.DefaultProject(ctx, system, "other")
	require.NoError(t, err)
	_, err = w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "new", Settings: workspaces.Settings{Project: &foreign.ID}})
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Settings: workspaces.Settings{Project: &foreign.ID}})
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestUpdateChangesWhatIsSaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	before := w.workspace("acme", "w")
	after, err := w.Update(ctx, w.owner, before.ID, workspaces.Changes{})
	require.NoError(t, err)
	assert.True(t, after.UpdatedAt.After(before.UpdatedAt))
	want := before
	want.UpdatedAt = after.UpdatedAt
	assert.Equal(t, want, after, "nothing said, nothing changed")

	after, err = w.Update(ctx, w.owner, before.ID, workspaces.Changes{Name: ptr("renamed"), Settings: workspaces.Settings{
		Project: &project.ID, Description: ptr("d"), ExecutionMode: ptr(workspaces.Local), TerraformVersion: ptr("1.12.6"), WorkingDirectory: ptr("a"),
		AutoApply: ptr(true), AllowDestroyPlan: ptr(false), StructuredRunOutputEnabled: ptr(true), ClientEncrypted: ptr(true),
	}})
	require.NoError(t, err)
	want.UpdatedAt, want.Name, want.Description, want.ExecutionMode, want.TerraformVersion = after.UpdatedAt, "renamed", "d", workspaces.Local, "1.12.6"
	want.Project, want.ProjectName, want.WorkingDirectory, want.AutoApply = project.ID, "net", "a", true
	want.AllowDestroyPlan, want.StructuredRunOutputEnabled, want.ClientEncrypted, want.InheritsMode = false, true, true, false
	assert.Equal(t, want, after)
	cleared, err := w.Update(ctx, w.owner, before.ID, workspaces.Changes{Settings: workspaces.Settings{Description: ptr(""), WorkingDirectory: ptr(""), AutoApply: ptr(false)}})
	require.NoError(t, err)
	want.UpdatedAt, want.Description, want.WorkingDirectory, want.AutoApply = cleared.UpdatedAt, "", "", false
	assert.Equal(t, want, cleared, "empty is said, too")
	assert.Equal(t, 3, w.audited("workspace.updated"))
}

func TestMembersReadAndStrangersSeeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	_, err := w.Create(ctx, w.member, "acme", workspaces.NewWorkspace{Name: "new"})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.Update(ctx, w.member, ws.ID, workspaces.Changes{})
	assert.True(t, fault.Is(err, fault.Forbidden))

	_, err = w.Create(ctx, w.nobody, "acme", workspaces.NewWorkspace{Name: "a b"})
	assert.True(t, fault.Is(err, fault.NotFound), "also when the name is against the rule")
	_, hidden := w.Get(ctx, w.nobody, ws.ID)
	_, unknown := w.Get(ctx, w.nobody, "ws-1111111111111111")
	require.Error(t, unknown)
	require.Error(t, hidden)
	assert.Equal(t, strings.ReplaceAll(unknown.Error(), "ws-1111111111111111", string(ws.ID)), hidden.Error())
	for _, name := range []string{"w", "gone", "a b"} {
		_, hidden = w.GetByName(ctx, w.nobody, "acme", name)
		assert.ErrorContains(t, hidden, fault.Missing("organization", "acme").Message, name)
	}
	for organization, missing := range map[string]error{
		"acme": fault.Missing("workspace", "gone"), "void": fault.Missing("organization", "void"), "a\x00": fault.Missing("organization", "a\x00"),
	} {
		_, err := w.GetByName(ctx, w.member, organization, "gone")
		assert.ErrorContains(t, err, missing.Error(), "it says which of the two is not there")
	}
	_, err = w.Update(ctx, w.nobody, ws.ID, workspaces.Changes{Name: ptr("a b")})
	assert.True(t, fault.Is(err, fault.NotFound))
	_, _, err = w.List(ctx, w.nobody, "acme", workspaces.Filter{})
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestAnAttemptSeesOnlyItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, neighbour := w.workspace("acme", "mine"), w.workspace("acme", "neighbour")
	attempt := authz.Actor{Kind: authz.AttemptActor, Attempt: "att-1", Organization: w.acme.ID, Workspace: mine.ID, Phase: authz.Plan}
	list, total, err := w.List(ctx, attempt, "acme", workspaces.Filter{})
	require.NoError(t, err)
	assert.Equal(t, []workspaces.Workspace{mine}, list)
	assert.Equal(t, 1, total)
	_, hidden := w.GetByName(ctx, attempt, "acme", "neighbour")
	_, unknown := w.GetByName(ctx, attempt, "acme", "neighbors")
	require.Error(t, hidden)
	require.Error(t, unknown)
	assert.Equal(t, strings.ReplaceAll(unknown.Error(), "neighbors", "neighbour"), hidden.Error())
	_, err = w.Get(ctx, attempt, neighbour.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.Get(ctx, attempt, mine.ID)
	assert.NoError(t, err)
}

func TestListPagesInAStableOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "net"})
	require.NoError(t, err)
	var want []string
	for i := range 105 { // made in another order than they are listed
		name := fmt.Sprintf("ws-%03d", (i*31)%105)
		_, err := w.Create(ctx, system, "acme", workspaces.NewWorkspace{Name: name, Settings: workspaces.Settings{Project: projectOfSome(i, project)}})
		require.NoError(t, err)
		want = append(want, fmt.Sprintf("ws-%03d", i))
	}
	w.workspace("other", "ws-999")

	for _, c := range []struct {
		filter workspaces.Filter
		want   []string
		total  int
	}{
		{workspaces.Filter{}, want[:20], 105},
		{workspaces.Filter{Page: workspaces.Page{Number: 6}}, want[100:], 105},
		{workspaces.Filter{Page: workspaces.Page{Size: 1500}}, want[:100], 105},
		{workspaces.Filter{Page: workspaces.Page{Number: 2, Size: 100}}, want[100:], 105},
		{workspaces.Filter{Page: workspaces.Page{Number: 999}}, []string{}, 105},
		{workspaces.Filter{Page: workspaces.Page{Number: math.MaxInt, Size: 100}}, []string{}, 105},
		{workspaces.Filter{SearchName: "WS-01"}, want[10:20], 10},
		{workspaces.Filter{SearchName: "%"}, []string{}, 0},
		{workspaces.Filter{SearchName: "\x00"}, []string{}, 0},
		{workspaces.Filter{Project: project.ID}, []string{"ws-000", "ws-010", "ws-020"}, 3},
		{workspaces.Filter{Project: "prj-1111111111111111"}, []string{}, 0},
	} {
		list, total, err := w.List(ctx, w.member, "acme", c.filter)
		require.NoErrorf(t, err, "%+v", c.filter)
		names := make([]string, 0, len(list))
		for _, ws := range list {
			names = append(names, ws.Name)
		}
		assert.Equalf(t, c.want, names, "%+v", c.filter)
		assert.Equalf(t, c.total, total, "%+v", c.filter)
	}
}

func TestATombstoneFreesTheName(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	require.NoError(t, w.tx(func(tx postgres.Tx) error { return workspaces.Tombstone(ctx, tx, w.owner, ws.ID) }))
	assert.Equal(t, 1, w.audited("workspace.deleted"))

	_, err := w.Get(ctx, w.owner, ws.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Name: ptr("back")})
	assert.True(t, fault.Is(err, fault.NotFound))
	_, err = w.ListVariables(ctx, w.owner, ws.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
	_, total, err := w.List(ctx, w.owner, "acme", workspaces.Filter{})
	require.NoError(t, err)
	assert.Zero(t, total)
	err = w.tx(func(tx postgres.Tx) error { return workspaces.Tombstone(ctx, tx, w.owner, ws.ID) })
	assert.True(t, fault.Is(err, fault.NotFound), "a second time")
	assert.NotEqual(t, ws.ID, w.workspace("acme", "w").ID)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		_, err := fence.Read(ctx, tx, ws.ID)
		return err
	}), "its rows stay")
}

// A tombstone may outlive its project.
func TestAnUndeletedWorkspaceHasAProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	admin := w.owner
	admin.SiteAdmin = true
	project, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "short-lived"})
	require.NoError(t, err)
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "w", Settings: workspaces.Settings{Project: &project.ID}})
	require.NoError(t, err)
	require.NoError(t, w.tx(func(tx postgres.Tx) error { return workspaces.Tombstone(ctx, tx, w.owner, ws.ID) }))
	require.NoError(t, w.DeleteProject(ctx, w.owner, project.ID))
	require.True(t, fault.Is(w.Undelete(ctx, w.owner, ws.ID), fault.NotFound))
	require.NoError(t, w.Undelete(ctx, admin, ws.ID))
	assert.Equal(t, 1, w.audited("workspace.undeleted"))
	back, err := w.Get(ctx, w.owner, ws.ID)
	require.NoError(t, err)
	assert.NotEqual(t, project.ID, back.Project)
	require.True(t, fault.Is(w.Undelete(ctx, admin, ws.ID), fault.NotFound), "a second time")
}

func TestTheFenceIsReadWithTheWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	holder := fence.Holder{Kind: fence.User, ID: string(w.owner.User), Name: "ada"}
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		_, err := fence.Acquire(ctx, tx, ws.ID, holder, "maintenance")
		return err
	}))
	got, err := w.Get(ctx, w.member, ws.ID)
	require.NoError(t, err)
	var status fence.Status
	require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
		status, err = fence.Read(ctx, tx, ws.ID)
		return err
	}))
	assert.Equal(t, status, got.Fence)
	assert.Equal(t, holder, got.Fence.Holder)
	assert.Equal(t, "maintenance", got.Fence.Reason)
}

func TestTheDatabaseRefusesAWorkspaceInAForeignProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	foreign, err := w.DefaultProject(ctx, system, "other")
	require.NoError(t, err)
	err = w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update workspaces set project_id = @p where id = @id", postgres.Args{"p": foreign.ID, "id": ws.ID})
		return err
	})
	testdb.WantViolation(t, err, "23503", "workspaces_organization_id_project_id_fkey")
}

func projectOfSome(i int, p workspaces.Project) *ids.Project {
	if (i*31)%105%10 == 0 && (i*31)%105 < 30 {
		return &p.ID
	}
	return nil
}
