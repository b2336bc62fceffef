package runs

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestTheThreeCopiesOfTheTableAreEqual(t *testing.T) {
	t.Parallel()
	var here, fromTo []string
	for _, tr := range Transitions {
		here = append(here, fmt.Sprintf("%s | %s | %s | %s", tr.From, tr.To, tr.Event, tr.Effect))
		fromTo = append(fromTo, string(tr.From)+" "+string(tr.To))
	}

	page, err := os.ReadFile("../docs/run-states.md")
	require.NoError(t, err)
	var documented, drawn []string
	for line := range strings.Lines(string(page)) {
		line = strings.TrimSpace(line)
		if cells := strings.Split(strings.Trim(line, "| "), " | "); len(cells) == 4 && strings.HasPrefix(line, "| `") {
			for i := range cells {
				cells[i] = strings.Trim(cells[i], "` ")
			}
			documented = append(documented, strings.Join(cells, " | "))
		}
		if from, to, ok := strings.Cut(line, " --> "); ok && from != "[*]" && to != "[*]" {
			drawn = append(drawn, from+" "+strings.Fields(to)[0])
		}
	}
	assert.Equal(t, here, documented, "docs/run-states.md, the table")
	assert.ElementsMatch(t, fromTo, drawn, "docs/run-states.md, the picture")

	w := newWorld(t)
	var stored []string
	require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
		stored, err = postgres.Values[string](ctx, tx, "select from_status || ' ' || to_status from run_transitions", postgres.Args{})
		return err
	}))
	assert.ElementsMatch(t, fromTo, stored, "table run_transitions")
}

func TestEveryStatusIsReachedAndFinalsGoNowhereButToRecoveryOrTheQueue(t *testing.T) {
	t.Parallel()
	for _, s := range Statuses {
		assert.NotNil(t, pathTo(s), s)
		for _, tr := range Transitions {
			if tr.From == s && s.Final() {
				if slices.Contains(requeueable, s) {
					assert.Equal(t, Queued, tr.To, s)
				} else {
					assert.Equal(t, NeedsRecovery, tr.To, s)
				}
			}
			if tr.To == s && s.Final() {
				assert.NotEqual(t, Keeps, tr.Effect, "%s → %s ends the run", tr.From, s)
			}
			if tr.To == s && !s.Final() {
				assert.Equal(t, Keeps, tr.Effect, "%s → %s goes on", tr.From, s)
			}
		}
	}
}

// pathTo gives the shortest way from dispatch_pending to a status, both included.
func pathTo(goal Status) []Status {
	ways := [][]Status{{DispatchPending}}
	seen := map[Status]bool{DispatchPending: true}
	for len(ways) > 0 {
		way := ways[0]
		ways = ways[1:]
		last := way[len(way)-1]
		if last == goal {
			return way
		}
		for _, tr := range Transitions {
			if tr.From == last && !seen[tr.To] {
				seen[tr.To] = true
				ways = append(ways, append(append([]Status{}, way...), tr.To))
			}
		}
	}
	return nil
}

// bare inserts a run that occupies nothing, copied from another, and leads it to a
// status by statements of its own.
func (w *world) bare(template ids.Run, status Status) ids.Run {
	w.Helper()
	id := ids.New[ids.Run]()
	w.exec(`insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id,
	            run_variables_sealed, variables_sealed, approval_expires_at)
	        select @id, @plan, @apply, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id,
	            run_variables_sealed, variables_sealed, clock_timestamp() + interval '1 hour' from runs where id = @template`,
		postgres.Args{"id": id, "plan": ids.New[ids.Plan](), "apply": ids.New[ids.Apply](), "template": template})
	for _, s := range pathTo(status)[1:] {
		w.exec("update runs set durable_status = @s where id = @id", postgres.Args{"s": string(s), "id": id})
	}
	return id
}

var errUndo = errors.New("undo")

func TestStepsAreThoseOfTheTableAndNoOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	template := w.run(w.workspace())
	legal := 0
	for _, from := range Statuses {
		id := w.bare(template.ID, from)
		for _, to := range Statuses {
			_, allowed := Find(from, to)
			err := w.tx(func(tx postgres.Tx) error {
				r, err := load(ctx, tx, id)
				require.NoError(t, err)
				err = step(ctx, tx, &r, move{To: to, Actor: w.owner, Reason: "why", Message: "in words"})
				if !allowed {
					wantCode(t, err, fault.Conflict, "invalid_transition")
					assert.ErrorContains(t, err, string(from))
					wantUntouched(t, tx, id, from)
					return errUndo
				}
				legal++
				require.NoError(t, err, "%s → %s", from, to)
				assert.Equal(t, to, r.DurableStatus)
				assert.Equal(t, "why", r.DurableReason)
				assert.Equal(t, "in words", r.StatusMessage)
				stored, err := load(ctx, tx, id)
				require.NoError(t, err)
				assert.Equal(t, []any{to, "why", "in words"}, []any{stored.DurableStatus, stored.DurableReason, stored.StatusMessage})
				assert.Equal(t, to.Final(), stored.FinishedAt != nil, "%s → %s", from, to)
				wantWritten(t, tx, id, string(w.owner.User), from, to)
				return errUndo
			})
			require.ErrorIs(t, err, errUndo)
			if from == to {
				continue
			}
			err = w.tryExec("update runs set durable_status = @s where id = @id", postgres.Args{"s": string(to), "id": w.bareIf(allowed, template.ID, from, id)})
			if allowed {
				assert.NoError(t, err, "%s → %s", from, to)
			} else {
				testdb.WantViolation(t, err, "23514", "run_steps_by_the_table")
			}
		}
	}
	assert.Equal(t, len(Transitions), legal)
}

// bareIf gives a run that may be changed for good: a new one where the change is allowed.
func (w *world) bareIf(allowed bool, template ids.Run, from Status, id ids.Run) ids.Run {
	if allowed {
		return w.bare(template, from)
	}
	return id
}

func wantUntouched(t *testing.T, tx postgres.Tx, id ids.Run, status Status) {
	t.Helper()
	r, err := load(ctx, tx, id)
	require.NoError(t, err)
	assert.Equal(t, status, r.DurableStatus)
	assert.Empty(t, r.DurableReason)
	n, err := postgres.Value[int](ctx, tx, "select (select count(*) from run_history where run_id = @id) + (select count(*) from audit_entries where object_id = @id)", postgres.Args{"id": id})
	require.NoError(t, err)
	assert.Zero(t, n)
}

func wantWritten(t *testing.T, tx postgres.Tx, id ids.Run, who string, from, to Status) {
	t.Helper()
	entries, err := postgres.All[HistoryEntry](ctx, tx, Queries.Get("History"), postgres.Args{"run_ids": []string{string(id)}})
	require.NoError(t, err)
	require.Len(t, entries, 1)
	h := entries[0]
	assert.Equal(t, []any{from, to, "why", who}, []any{h.FromStatus, h.ToStatus, h.Reason, h.ActorID})
	n, err := postgres.Value[int](ctx, tx, "select count(*) from audit_entries where object_id = @id and action = @action and actor_id = @who", postgres.Args{"id": id, "action": "run." + string(to), "who": who})
	require.NoError(t, err)
	assert.Equal(t, 1, n)
}

func TestARunIsBornAsDispatchPendingOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	template := w.run(w.workspace())
	for _, s := range Statuses[1:] {
		err := w.tryExec(`insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id,
		            run_variables_sealed, variables_sealed, approval_expires_at, durable_status)
		        select id || 'x', plan_id || 'x', apply_id || 'x', organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id,
		            run_variables_sealed, variables_sealed, clock_timestamp(), @s from runs where id = @id`, postgres.Args{"s": string(s), "id": template.ID})
		testdb.WantViolation(t, err, "23514", "run_steps_by_the_table")
	}
}

func TestAStaleCopyOfARunCannotStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace(), planOnly).ID
	old := w.get(run).Run
	w.take(run)
	err := w.tx(func(tx postgres.Tx) error { return step(ctx, tx, &old, move{To: Canceled, Actor: system}) })
	wantCode(t, err, fault.Conflict, "invalid_transition")
	assert.Equal(t, []Status{Queued, Planning}, w.wantStatus(run, Planning).steps())
}
