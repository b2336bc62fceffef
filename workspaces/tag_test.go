package workspaces_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func named(names ...string) (refs []workspaces.TagRef) {
	for _, name := range names {
		refs = append(refs, workspaces.TagRef{Name: name})
	}
	return refs
}

// tagged makes a workspace of acme with these tags.
func (w world) tagged(name string, tags ...string) workspaces.Workspace {
	w.Helper()
	ws, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name, Tags: named(tags...)})
	require.NoError(w, err)
	return ws
}

func (w world) tagNames(id ids.Workspace) []string {
	w.Helper()
	ws, err := w.Get(ctx, w.member, id)
	require.NoError(w, err)
	return ws.TagNames
}

func TestTagsComeAndGo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.tagged("w", "b", "a", "b")
	assert.Equal(t, []string{"a", "b"}, ws.TagNames, "in order and once")
	require.NoError(t, w.AddTags(ctx, w.owner, ws.ID, named("a", "B", "c:1_-")))
	assert.Equal(t, []string{"B", "a", "b", "c:1_-"}, w.tagNames(ws.ID), "case is kept")

	tags, total, err := w.WorkspaceTags(ctx, w.member, ws.ID, "", workspaces.Page{Number: 2, Size: 3})
	require.NoError(t, err)
	assert.Equal(t, 4, total)
	require.Len(t, tags, 1)
	assert.Equal(t, workspaces.Tag{ID: tags[0].ID, Organization: w.acme.ID, Name: "c:1_-", Instances: 1}, tags[0])

	other := w.workspace("acme", "other")
	require.NoError(t, w.AddTags(ctx, w.owner, other.ID, []workspaces.TagRef{{ID: tags[0].ID, Name: "ignored"}}))
	assert.Equal(t, []string{"c:1_-"}, w.tagNames(other.ID))
	err = w.AddTags(ctx, w.owner, other.ID, []workspaces.TagRef{{ID: ids.New[ids.Tag]()}, {Name: "new"}})
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.Equal(t, []string{"c:1_-"}, w.tagNames(other.ID), "all or none")

	require.NoError(t, w.RemoveTags(ctx, w.owner, ws.ID, append(named("a", "never there", "B"), workspaces.TagRef{ID: tags[0].ID})))
	assert.Equal(t, []string{"b"}, w.tagNames(ws.ID))
	assert.Equal(t, []string{"c:1_-"}, w.tagNames(other.ID))
	assert.Equal(t, 3, w.audited("workspace.tagged"))
	assert.Equal(t, 1, w.audited("workspace.untagged"))
}

func TestTagsHoldTheirRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	for _, name := range []string{"", "a b", "a,b", "ä", "a/b", "a\x00", strings.Repeat("a", 256)} {
		err := w.AddTags(ctx, w.owner, ws.ID, named(name))
		assert.Truef(t, fault.Is(err, fault.Invalid), "%q: %v", name, err)
		_, err = w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: "x", Tags: named(name)})
		assert.Truef(t, fault.Is(err, fault.Invalid), "%q: %v", name, err)
	}
	require.NoError(t, w.AddTags(ctx, w.owner, ws.ID, named(strings.Repeat("a", 255))))
	assert.True(t, fault.Is(w.RemoveTags(ctx, w.owner, ws.ID, named("a\x00")), fault.Invalid))
	assert.True(t, fault.Is(w.AddTags(ctx, w.member, ws.ID, named("a")), fault.Forbidden))
	assert.True(t, fault.Is(w.RemoveTags(ctx, w.member, ws.ID, named("a")), fault.Forbidden))
	assert.True(t, fault.Is(w.AddTags(ctx, w.nobody, ws.ID, named("a")), fault.NotFound))
	_, _, err := w.WorkspaceTags(ctx, w.nobody, ws.ID, "", workspaces.Page{})
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestTheTagsOfAnOrganization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.tagged("a", "one", "two")
	b := w.tagged("b", "two", "three")
	foreign, err := w.Create(ctx, system, "other", workspaces.NewWorkspace{Name: "a", Tags: named("one")})
	require.NoError(t, err)
	list := func(filter workspaces.TagFilter) map[string]int {
		t.Helper()
		tags, total, err := w.Tags(ctx, w.member, "acme", filter)
		require.NoError(t, err)
		found := map[string]int{}
		for _, tag := range tags {
			found[tag.Name] = tag.Instances
		}
		assert.Len(t, found, total)
		return found
	}
	assert.Equal(t, map[string]int{"one": 1, "two": 2, "three": 1}, list(workspaces.TagFilter{}))
	assert.Equal(t, map[string]int{"two": 2}, list(workspaces.TagFilter{Query: "TW"}))
	assert.Equal(t, map[string]int{"three": 1}, list(workspaces.TagFilter{Excluded: string(a.ID)}))
	assert.Empty(t, list(workspaces.TagFilter{Query: "%"}))
	assert.Empty(t, list(workspaces.TagFilter{Query: "\x00"}))
	_, _, err = w.Tags(ctx, w.nobody, "acme", workspaces.TagFilter{})
	assert.True(t, fault.Is(err, fault.NotFound))

	tags, _, err := w.Tags(ctx, w.owner, "acme", workspaces.TagFilter{Query: "one"})
	require.NoError(t, err)
	one := tags[0].ID
	require.NoError(t, w.TagWorkspaces(ctx, w.owner, one, []ids.Workspace{b.ID, a.ID}))
	assert.Equal(t, []string{"one", "three", "two"}, w.tagNames(b.ID))
	assert.True(t, fault.Is(w.TagWorkspaces(ctx, system, one, []ids.Workspace{foreign.ID}), fault.NotFound), "of another organization")
	assert.True(t, fault.Is(w.TagWorkspaces(ctx, w.member, one, []ids.Workspace{a.ID}), fault.Forbidden))
	assert.True(t, fault.Is(w.TagWorkspaces(ctx, w.nobody, one, []ids.Workspace{a.ID}), fault.NotFound))
	assert.True(t, fault.Is(w.TagWorkspaces(ctx, w.owner, ids.New[ids.Tag](), nil), fault.NotFound))

	assert.True(t, fault.Is(w.DeleteTags(ctx, w.member, "acme", []ids.Tag{one}), fault.Forbidden))
	require.NoError(t, w.DeleteTags(ctx, w.owner, "acme", []ids.Tag{one, ids.New[ids.Tag]()}))
	assert.Equal(t, []string{"two"}, w.tagNames(a.ID))
	got, err := w.Get(ctx, system, foreign.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{"one"}, got.TagNames, "another organization keeps its own")

	require.NoError(t, w.tx(func(tx postgres.Tx) error { return workspaces.Tombstone(ctx, tx, w.owner, b.ID) }))
	assert.Equal(t, map[string]int{"two": 1, "three": 0}, list(workspaces.TagFilter{}), "only living workspaces count")
}

// Case 82: what selects, selects: never everything.
func TestListSelectsByTagsNamesAndBindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tagged("app-prod", "app", "prod")
	w.tagged("app-dev", "app", "dev")
	w.tagged("db_prod", "prod")
	w.workspace("acme", "bare")
	for name, pairs := range map[string][]workspaces.TagBinding{
		"pair-1": {{Key: "env", Value: "prod"}, {Key: "team", Value: "x"}}, "pair-2": {{Key: "env", Value: "dev"}},
	} {
		_, err := w.Create(ctx, w.owner, "acme", workspaces.NewWorkspace{Name: name, Bindings: pairs})
		require.NoError(t, err)
	}
	for _, c := range []struct {
		filter workspaces.Filter
		names  []string
	}{
		{workspaces.Filter{Tags: []string{"app"}}, []string{"app-dev", "app-prod"}},
		{workspaces.Filter{Tags: []string{"app", "prod", "app"}}, []string{"app-prod"}},
		{workspaces.Filter{Tags: []string{"app", "unknown"}}, []string{}},
		{workspaces.Filter{Tags: []string{"APP"}}, []string{}},
		{workspaces.Filter{Tags: []string{""}}, []string{}},
		{workspaces.Filter{Tags: []string{"a\x00"}}, []string{}},
		{workspaces.Filter{ExcludeTags: []string{"app", "prod"}}, []string{"bare", "pair-1", "pair-2"}},
		{workspaces.Filter{Tags: []string{"prod"}, ExcludeTags: []string{"app"}}, []string{"db_prod"}},
		{workspaces.Filter{WildcardName: "*-PROD"}, []string{"app-prod"}},
		{workspaces.Filter{WildcardName: "app*"}, []string{"app-dev", "app-prod"}},
		{workspaces.Filter{WildcardName: "*p*"}, []string{"app-dev", "app-prod", "db_prod", "pair-1", "pair-2"}},
		{workspaces.Filter{WildcardName: "app"}, []string{}},
		{workspaces.Filter{WildcardName: "app_prod"}, []string{}},
		{workspaces.Filter{WildcardName: "db_prod"}, []string{"db_prod"}},
		{workspaces.Filter{WildcardName: "%"}, []string{}},
		{workspaces.Filter{SearchName: "%"}, []string{}},
		{workspaces.Filter{SearchName: "B_P"}, []string{"db_prod"}},
		{workspaces.Filter{SearchName: "P_P"}, []string{}},
		{workspaces.Filter{SearchName: `\`}, []string{}},
		{workspaces.Filter{WildcardName: `a\`}, []string{}},
		{workspaces.Filter{Bindings: []workspaces.TagBinding{{Key: "env"}}}, []string{"pair-1", "pair-2"}},
		{workspaces.Filter{Bindings: []workspaces.TagBinding{{Key: "env", Value: "prod"}, {Key: "team"}}}, []string{"pair-1"}},
		{workspaces.Filter{Bindings: []workspaces.TagBinding{{Key: "env", Value: "dev"}, {Key: "team"}}}, []string{}},
		{workspaces.Filter{SearchName: "app", Sort: "-name"}, []string{"app-prod", "app-dev"}},
	} {
		got, total, err := w.List(ctx, w.member, "acme", c.filter)
		require.NoErrorf(t, err, "%+v", c.filter)
		names := []string{}
		for _, ws := range got {
			names = append(names, ws.Name)
		}
		assert.Equalf(t, c.names, names, "%+v", c.filter)
		assert.Equalf(t, len(c.names), total, "%+v", c.filter)
	}
}

func TestTagBindings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	set, err := w.SetBindings(ctx, w.owner, ws.ID, []workspaces.TagBinding{{Key: "foo", Value: "bar"}, {Key: "baz"}})
	require.NoError(t, err)
	require.Len(t, set, 2)
	assert.Equal(t, []string{"foo", "bar", "baz", ""}, []string{set[0].Key, set[0].Value, set[1].Key, set[1].Value}, "in the order asked")
	changed, err := w.SetBindings(ctx, w.owner, ws.ID, []workspaces.TagBinding{{Key: "foo", Value: "new"}})
	require.NoError(t, err)
	assert.Equal(t, set[0].ID, changed[0].ID)
	list, err := w.Bindings(ctx, w.member, ws.ID)
	require.NoError(t, err)
	assert.Equal(t, []workspaces.TagBinding{set[1], {ID: set[0].ID, Key: "foo", Value: "new"}}, list)

	many := make([]workspaces.TagBinding, 11)
	for i := range many {
		many[i].Key = strings.Repeat("k", i+1)
	}
	_, err = w.SetBindings(ctx, w.owner, ws.ID, many)
	assert.True(t, fault.HasCode(err, "too_many_tag_bindings"), "%v", err)
	for _, wrong := range []workspaces.TagBinding{{}, {Key: strings.Repeat("k", 129)}, {Key: "k", Value: strings.Repeat("v", 257)}, {Key: "\x00"}} {
		_, err = w.SetBindings(ctx, w.owner, ws.ID, []workspaces.TagBinding{wrong})
		assert.Truef(t, fault.Is(err, fault.Invalid), "%+v", wrong)
	}
	_, err = w.SetBindings(ctx, w.member, ws.ID, set)
	assert.True(t, fault.Is(err, fault.Forbidden))

	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Bindings: &[]workspaces.TagBinding{{Key: "only"}}})
	require.NoError(t, err)
	list, err = w.Bindings(ctx, w.member, ws.ID)
	require.NoError(t, err)
	require.Len(t, list, 1)
	assert.Equal(t, "only", list[0].Key)
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Bindings: &[]workspaces.TagBinding{}})
	require.NoError(t, err)
	list, err = w.Bindings(ctx, w.member, ws.ID)
	require.NoError(t, err)
	assert.Empty(t, list)
}
