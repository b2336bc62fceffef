package workspaces_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/workspaces"
)

func TestANewOrganizationHasItsDefaultProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	projects, total, err := w.Projects(ctx, w.member, "acme", workspaces.ProjectFilter{}, workspaces.Page{})
	require.NoError(t, err)
	require.Len(t, projects, 1)
	assert.Equal(t, 1, total)
	assert.Equal(t, "Default Project", projects[0].Name)
	assert.True(t, projects[0].IsDefault)
	def, err := w.DefaultProject(ctx, w.member, "acme")
	require.NoError(t, err)
	assert.Equal(t, projects[0], def)
	got, err := w.Project(ctx, w.member, def.ID)
	require.NoError(t, err)
	assert.Equal(t, def, got)

	_, err = w.CreateOrganization(ctx, w.owner, accounts.NewOrganization{Name: "mine"})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.CreateOrganization(ctx, system, accounts.NewOrganization{Name: "acme"})
	assert.True(t, fault.Is(err, fault.Invalid))
}

func TestProjectsAreFoundByExactNamesAndNeverMissing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	net, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "Net work_1-a", Description: "cables"})
	require.NoError(t, err)
	for _, names := range [][]string{{"nothing"}, {"net work_1-a"}, {"a\x00"}, {"\xff"}} {
		got, total, err := w.Projects(ctx, w.member, "acme", workspaces.ProjectFilter{Names: names}, workspaces.Page{})
		require.NoErrorf(t, err, "%q", names)
		assert.Empty(t, got)
		assert.Zero(t, total)
	}
	got, total, err := w.Projects(ctx, w.member, "acme", workspaces.ProjectFilter{Names: []string{"nothing", "Net work_1-a"}}, workspaces.Page{})
	require.NoError(t, err)
	assert.Equal(t, []workspaces.Project{net}, got)
	assert.Equal(t, 1, total)
	got, total, err = w.Projects(ctx, w.member, "acme", workspaces.ProjectFilter{}, workspaces.Page{Number: 2, Size: 1})
	require.NoError(t, err)
	assert.Equal(t, []workspaces.Project{net}, got, "by name")
	assert.Equal(t, 2, total)
}

func TestCreateProjectHoldsTheRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"", "ab", " ab", "abc ", strings.Repeat("a", 41), "a/b", "a.b.c", "äää", "abc\x00", "abc\n"} {
		_, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: name})
		assert.Truef(t, fault.Is(err, fault.Invalid), "%q", name)
		assert.ErrorContains(t, err, "Name may only contain")
	}
	_, err := w.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: "Default Project"})
	assert.ErrorContains(t, err, "Name has already been taken")
	_, err = w.CreateProject(ctx, w.member, "acme", workspaces.NewProject{Name: "mine"})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.CreateProject(ctx, w.owner, "other", workspaces.NewProject{Name: "mine"})
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestForeignProjectsReadLikeUnknownOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	foreign, err := w.DefaultProject(ctx, system, "other")
	require.NoError(t, err)
	_, hidden := w.Project(ctx, w.owner, foreign.ID)
	_, unknown := w.Project(ctx, w.owner, "prj-1111111111111111")
	assert.True(t, fault.Is(hidden, fault.NotFound))
	require.Error(t, unknown)
	assert.Equal(t, strings.ReplaceAll(unknown.Error(), "prj-1111111111111111", string(foreign.ID)), hidden.Error())
	_, _, err = w.Projects(ctx, w.nobody, "acme", workspaces.ProjectFilter{}, workspaces.Page{})
	assert.True(t, fault.Is(err, fault.NotFound))
}
