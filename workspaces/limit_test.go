package workspaces_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/workspaces"
)

// decide changes rows of the site or of organizations by hand.
func (w world) decide(sql string) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, nil)
		return err
	}))
}

func (w world) tryCreate(name string, s workspaces.Settings) error {
	_, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name, Settings: s})
	return err
}

// TestAnOrganizationHasSoManyWorkspaces: its own limit comes before the site's, 0 is none, and
// those that are made at once do not pass it together.
func TestAnOrganizationHasSoManyWorkspaces(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.tryCreate("one", workspaces.Settings{}))
	w.decide("update site_settings set limit_workspaces_per_organization = true, workspaces_per_organization = 1")
	err := w.tryCreate("two", workspaces.Settings{})
	assert.True(t, fault.HasCode(err, "workspace_limit_reached"), "%v", err)
	w.decide("update organizations set workspace_limit = 3 where name = 'acme'")
	var made atomic.Int32
	var makers sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		makers.Go(func() {
			if w.tryCreate(name, workspaces.Settings{}) == nil {
				made.Add(1)
			}
		})
	}
	makers.Wait()
	assert.EqualValues(t, 2, made.Load())
	w.decide("update organizations set workspace_limit = 0 where name = 'acme'")
	require.NoError(t, w.tryCreate("more", workspaces.Settings{}))
}

func TestAVersionThatTheSiteHasDisabledIsNotChosen(t *testing.T) {
	w := newWorld(t)
	catalogue := site.New(w.db)
	v, err := catalogue.CreateToolVersion(ctx, system, site.Terraform, site.ToolVersionChanges{Version: ptr("9.9.9"), URL: ptr("https://example.com"), Sha: ptr(strings.Repeat("ab", 32))})
	require.NoError(t, err)
	require.NoError(t, w.tryCreate("has", workspaces.Settings{TerraformVersion: ptr("9.9.9")}))
	has, err := w.GetByName(ctx, w.owner, "acme", "has")
	require.NoError(t, err)
	_, err = catalogue.UpdateToolVersion(ctx, system, site.Terraform, v.ID, site.ToolVersionChanges{Enabled: ptr(false)})
	require.NoError(t, err)
	err = w.tryCreate("wants", workspaces.Settings{TerraformVersion: ptr("9.9.9")})
	assert.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = w.Update(ctx, w.owner, has.ID, workspaces.Changes{Settings: workspaces.Settings{TerraformVersion: ptr("9.9.9"), Description: ptr("the same again")}})
	require.NoError(t, err, "what stays is not chosen")
	_, err = w.Update(ctx, w.owner, has.ID, workspaces.Changes{Settings: workspaces.Settings{TerraformVersion: ptr("latest")}})
	require.NoError(t, err)
	_, err = w.Update(ctx, w.owner, has.ID, workspaces.Changes{Settings: workspaces.Settings{TerraformVersion: ptr("9.9.9")}})
	assert.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

func TestNewWorkspacesShareTheirStateWhereTheSiteSaysSo(t *testing.T) {
	w := newWorld(t)
	shares := func(name string, s workspaces.Settings) bool {
		require.NoError(t, w.tryCreate(name, s))
		made, err := w.GetByName(ctx, w.owner, "acme", name)
		require.NoError(t, err)
		return made.GlobalRemoteState
	}
	assert.False(t, shares("before", workspaces.Settings{}))
	w.decide("update site_settings set default_remote_state_access = true")
	assert.True(t, shares("after", workspaces.Settings{}))
	assert.False(t, shares("said", workspaces.Settings{GlobalRemoteState: ptr(false)}))
	assert.False(t, shares("project", workspaces.Settings{ProjectRemoteState: ptr(true)}), "the narrower one was said")
}

func TestTheWorkspacesOfTheSite(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.tryCreate("alpha", workspaces.Settings{}))
	_, err := w.Create(ctx, system, "other", workspaces.NewWorkspace{Name: "beta"})
	require.NoError(t, err)
	for _, c := range []struct {
		filter workspaces.SiteFilter
		want   []string
	}{
		{workspaces.SiteFilter{}, []string{"alpha", "beta"}},
		{workspaces.SiteFilter{Sort: "-name"}, []string{"beta", "alpha"}},
		{workspaces.SiteFilter{Query: "BET"}, []string{"beta"}},
		{workspaces.SiteFilter{Query: "acme"}, []string{"alpha"}},
		{workspaces.SiteFilter{Nothing: true}, nil},
		{workspaces.SiteFilter{RunStatuses: []string{"planning"}}, nil},
	} {
		list, total, err := w.OfSite(ctx, system, c.filter)
		require.NoError(t, err)
		var names []string
		for _, one := range list {
			names = append(names, one.Name)
		}
		assert.Equal(t, c.want, names, "%+v", c.filter)
		assert.Equal(t, len(c.want), total)
	}
	_, _, err = w.OfSite(ctx, w.owner, workspaces.SiteFilter{})
	assert.True(t, fault.Is(err, fault.NotFound))
	one, err := w.GetByName(ctx, w.owner, "acme", "alpha")
	require.NoError(t, err)
	_, err = w.SiteGet(ctx, w.owner, one.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
}
