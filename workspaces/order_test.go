package workspaces_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestPagesOfAnySizeMakeUpTheList: also those reached from the end, and those of the lists whose
// finds are kept.
func TestPagesOfAnySizeMakeUpTheList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	type placed struct {
		name   string
		day    int // of the last run; 0 is never
		tagged bool
	}
	all := []placed{{"a", 3, true}, {"b", 0, false}, {"c", 5, true}, {"d", 3, true}, {"e", 0, true}, {"f", 1, false}, {"g", 3, false}, {"B", 2, true}, {"h", 0, true}}
	for _, p := range all {
		ws := w.workspace("acme", p.name)
		if p.tagged {
			require.NoError(t, w.AddTags(ctx, w.owner, ws.ID, []workspaces.TagRef{{Name: "kept"}}))
		}
		if p.day > 0 {
			w.decide(fmt.Sprintf("update workspaces set last_run_at = timestamptz '2026-01-01Z' + interval '%d days' where id = '%s'", p.day, ws.ID))
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
	for sort, order := range orders {
		for _, tags := range [][]string{nil, {"kept"}} {
			var want []string
			for _, p := range slices.SortedFunc(slices.Values(all), order) {
				if tags == nil || p.tagged {
					want = append(want, p.name)
				}
			}
			for size := 1; size <= len(all)+1; size++ {
				var got []string
				for number := 1; number <= len(want)/size+3; number++ {
					list, total, err := w.List(ctx, w.member, "acme", workspaces.Filter{Sort: sort, Tags: tags, Page: workspaces.Page{Number: number, Size: size}})
					require.NoErrorf(t, err, "sorted by %q, page %d of %d", sort, number, size)
					assert.Equal(t, len(want), total)
					assert.LessOrEqual(t, len(list), size)
					for _, ws := range list {
						got = append(got, ws.Name)
					}
				}
				assert.Equalf(t, want, got, "sorted by %q, tags %q, pages of %d", sort, tags, size)
			}
		}
	}
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
