package workspaces_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestPagesOfAnySizeMakeUpTheList: also those reached from the end, and those of what one tag, pair
// or status finds, be it much or little of the list.
func TestPagesOfAnySizeMakeUpTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type placed struct {
		name string
		day  int // of the last run; 0 is never
		kept bool
	}
	all := []placed{{"a", 3, true}, {"b", 0, false}, {"c", 5, true}, {"d", 3, true}, {"e", 0, true}, {"f", 1, false}, {"g", 3, false}, {"B", 2, true}, {"h", 0, true}}
	var project ids.Project
	for _, p := range append(all, placed{"deleted", 4, true}) {
		ws := w.workspace("acme", p.name)
		project = ws.Project
		if p.kept {
			w.mark(ws.ID)
		}
		if p.day > 0 {
			w.decide(fmt.Sprintf("update workspaces set last_run_at = timestamptz '2026-01-01Z' + interval '%d days' where id = '%s'", p.day, ws.ID))
		}
		if p.name == "deleted" {
			w.decide(fmt.Sprintf("update workspaces set deleted_at = clock_timestamp() where id = '%s'", ws.ID))
		}
	}
	byName := func(a, b placed) int { return cmp.Compare(a.name, b.name) }
	never := func(p placed) int { return cmp.Compare(p.day, 0) } // 0 for never
	orders := map[string]func(a, b placed) int{
		"name":  byName,
		"-name": func(a, b placed) int { return byName(b, a) },
		"": func(a, b placed) int {
			return cmp.Or(cmp.Compare(b.day, a.day), byName(a, b)) // never is last
		},
		"current-run.created-at": func(a, b placed) int {
			return cmp.Or(cmp.Compare(never(b), never(a)), cmp.Compare(a.day, b.day), byName(a, b)) // here too
		},
	}
	orders["-current-run.created-at"] = orders[""]
	filters := map[string]workspaces.Filter{
		"nothing": {}, "the project": {Project: project}, "any name": {WildcardName: "*"},
		"a tag": {Tags: []string{"kept"}}, "a pair": {Bindings: []workspaces.TagBinding{{Key: "kept", Value: "yes"}}},
		"a status": {RunStatuses: []string{"plan_failed"}}, "a tag and a status": {Tags: []string{"kept"}, RunStatuses: []string{"plan_failed"}},
	}
	for by, filter := range filters { // where there is nothing at all
		list, total, err := w.List(ctx, system, "other", filter)
		require.NoError(t, err, by)
		assert.Empty(t, list)
		assert.Zero(t, total)
	}
	visitor := w.nobody
	visitor.Name, visitor.Roles = "a reader of the project", map[ids.Organization]authz.Role{w.acme.ID: authz.Member}
	visitor.Grants = map[ids.Organization]authz.Grants{w.acme.ID: {Projects: map[ids.Project][]authz.Level{project: {"workspace:read"}}}}
	for _, others := range []int{0, 1_000_000} { // workspaces of which the counts tell, besides
		w.decide(fmt.Sprintf("insert into workspace_counts (organization_id, project_id, living) values ('%s', '%s', %d)", w.acme.ID, project, others))
		for sort, order := range orders {
			for by, filter := range filters {
				if counted := by == "nothing" || by == "the project"; counted && others > 0 {
					continue
				}
				var want []string
				for _, p := range slices.SortedFunc(slices.Values(all), order) {
					if p.kept || by == "nothing" || by == "the project" || by == "any name" {
						want = append(want, p.name)
					}
				}
				filter.Sort = sort
				for size := 1; size <= len(all)+1; size++ {
					for _, reader := range []authz.Actor{w.member, visitor} {
						got := w.names(reader, filter, size, len(want))
						assert.Equalf(t, want, got, "%s, sorted by %q, found by %s, pages of %d, others %d", reader.Name, sort, by, size, others)
					}
				}
			}
		}
		w.decide(fmt.Sprintf("delete from workspace_counts where living = %d", others))
	}
}

// mark gives a workspace the tag, the pair and the current run that a filter looks for.
func (w world) mark(id ids.Workspace) {
	w.Helper()
	require.NoError(w, w.AddTags(ctx, w.owner, id, []workspaces.TagRef{{Name: "kept"}}))
	_, err := w.SetBindings(ctx, w.owner, id, []workspaces.TagBinding{{Key: "kept", Value: "yes"}})
	require.NoError(w, err)
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil { // a run would need all that a run needs
			return err
		}
		_, err := tx.Exec(ctx, `insert into current_runs (workspace_id, organization_id, run_id, status)
			select id, organization_id, 'run-of-' || id, 'plan_failed' from workspaces where id = $1`, id)
		return err
	}))
}

// names are those on all pages of a list, and on two beyond its end.
func (w world) names(reader authz.Actor, filter workspaces.Filter, size, total int) (names []string) {
	w.Helper()
	for number := 1; number <= total/size+3; number++ {
		filter.Page = workspaces.Page{Number: number, Size: size}
		list, counted, err := w.List(ctx, reader, "acme", filter)
		require.NoErrorf(w, err, "sorted by %q, page %d of %d", filter.Sort, number, size)
		assert.Equal(w, total, counted)
		assert.LessOrEqual(w, len(list), size)
		for _, ws := range list {
			names = append(names, ws.Name)
		}
	}
	return names
}

// What changes all the time leaves the rows alone that lists are counted in; each of these
// rows is written anew only for what a workspace is found or put in order by.
func TestOnlyWhatIsListedByChangesTheListedRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "a")
	row := func() (where string) {
		require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
			where, err = postgres.Value[string](ctx, tx, "select ctid::text from listed_workspaces where id = @id", postgres.Args{"id": ws.ID})
			return err
		}))
		return where
	}
	before := row()
	_, err := w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Name: ptr("a"), Settings: workspaces.Settings{Description: ptr("read by nobody")}})
	require.NoError(t, err)
	assert.Equal(t, before, row())
	_, err = w.Update(ctx, w.owner, ws.ID, workspaces.Changes{Name: ptr("b")})
	require.NoError(t, err)
	assert.NotEqual(t, before, row())
}

// Whoever makes a workspace waits for nobody who makes another one in the same project, and no
// matter in which order they end, all are counted.
func TestWorkspacesAreCountedWithoutWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	copied := w.workspace("acme", "first")
	add := func(ctx context.Context, tx postgres.Tx, name string) error {
		_, err := tx.Exec(ctx, `insert into workspaces (id, organization_id, project_id, name)
			select 'ws-' || $1, organization_id, project_id, $1 from workspaces where id = $2`, name, copied.ID)
		return err
	}
	counts := func() (rows, living int) {
		require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
			if rows, err = postgres.Value[int](ctx, tx, "select count(*) from workspace_counts", nil); err == nil {
				living, err = postgres.Value[int](ctx, tx, "select sum(living) from workspace_counts", nil)
			}
			return err
		}))
		return rows, living
	}
	require.NoError(t, w.tx(func(slow postgres.Tx) error {
		require.NoError(t, add(ctx, slow, "slow"))
		bounded, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		require.NoError(t, postgres.InTx(bounded, w.db, "test", func(quick postgres.Tx) error { return add(bounded, quick, "quick") }), "it waits")
		_, living := counts()
		assert.Equal(t, 2, living, "what is not committed does not count")
		return nil
	}))
	_, living := counts()
	assert.Equal(t, 3, living)
	broken := errors.New("never mind")
	require.ErrorIs(t, w.tx(func(tx postgres.Tx) error { return errors.Join(add(ctx, tx, "undone"), broken) }), broken)
	w.workspace("acme", "last")
	rows, living := counts()
	assert.Equal(t, []int{1, 4}, []int{rows, living}, "the next one puts all rows into one")
}
