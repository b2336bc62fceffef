package runs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// stages is a run's stages in short.
func (w *world) stages(run ids.Run) string {
	w.Helper()
	list, _, err := w.runs.Stages(ctx, w.member, run, Page{Limit: 10})
	require.NoError(w, err)
	var texts []string
	for _, s := range list {
		texts = append(texts, string(s.Kind)+":"+string(s.Status))
	}
	return strings.Join(texts, " ")
}

func TestEveryStatusHasAStageRule(t *testing.T) {
	t.Parallel()
	assert.Len(t, stageRules, len(Statuses))
	for _, s := range Statuses {
		rule, ok := stageRules[s]
		assert.True(t, ok, s)
		if s.Final() {
			assert.NotEmpty(t, rule.ends, "%s ends the run, and with it the stage at hand", s)
			assert.Empty(t, string(rule.opens)+string(rule.begins), s)
		}
	}
}

// TestARunOfAnOlderServerGetsItsStages: while servers are replaced one by one, a run may
// have been accepted by one that keeps no stages.
func TestARunOfAnOlderServerGetsItsStages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace()).ID
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		for _, sql := range []string{"set local session_replication_role = replica", "delete from run_stages"} {
			if _, err := postgres.Exec(ctx, tx, sql, postgres.Args{}); err != nil {
				return err
			}
		}
		return nil
	}))
	e := w.take(run)
	assert.Equal(t, "plan:running", w.stages(run))
	e.plan(true)
	assert.Equal(t, "plan:succeeded policy:succeeded approval:pending", w.stages(run))
	receipts, total, err := w.runs.Receipts(ctx, w.member, run, Page{Limit: 10})
	require.NoError(t, err)
	require.Equal(t, 1, total)
	assert.Equal(t, e.ID, receipts[0].AttemptID)
}

// TestWhatBecomesOfAStageThatNeverBegan: a run that ends well without it has skipped it,
// a person confirms an approval that nothing works on, and nobody rejects an apply.
func TestWhatBecomesOfAStageThatNeverBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		kind            StageKind
		status, unbegun StageStatus
		want            string
	}{
		{ApprovalStage, StageSucceeded, StageSkipped, "approval:skipped"},
		{ApprovalStage, StageSucceeded, StageSucceeded, "approval:succeeded"},
		{ApprovalStage, StageRejected, StageRejected, "approval:rejected"},
		{ApplyStage, StageRejected, StageRejected, "apply:canceled"},
		{ApplyStage, StageExpired, StageExpired, "apply:canceled"},
	} {
		run := w.run(w.workspace(), planOnly)
		w.take(run.ID).plan(false)
		require.NoError(t, w.tx(func(tx postgres.Tx) error {
			if err := insertStage(ctx, tx, run.Run, c.kind, StagePending); err != nil {
				return err
			}
			return endStage(ctx, tx, run.Run, c.status, c.unbegun, "")
		}))
		assert.Equal(t, "plan:succeeded policy:succeeded "+c.want, w.stages(run.ID))
	}
}

// TestAStepThatFailsLeavesTheStagesAlone: stages move in the step's own transaction.
func TestAStepThatFailsLeavesTheStagesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run(w.workspace()).ID
	e := w.take(run)
	err := w.tx(func(tx postgres.Tx) error {
		a, r, err := lockAttempt(ctx, tx, e.ID)
		require.NoError(t, err)
		require.NoError(t, dispatch.Finish(ctx, tx, a, dispatch.End{Status: dispatch.Finished}))
		require.NoError(t, step(ctx, tx, &r, move{To: PlanFailed, Actor: system}))
		n, err := postgres.Value[int](ctx, tx, Queries.Get("ReceiptCount"), postgres.Args{"run_id": run})
		require.NoError(t, err)
		assert.Equal(t, 1, n)
		return errUndo
	})
	require.ErrorIs(t, err, errUndo)
	assert.Equal(t, "plan:running", w.stages(run))
	_, total, err := w.runs.Receipts(ctx, w.member, run, Page{Limit: 10})
	require.NoError(t, err)
	assert.Zero(t, total)
}

// TestTheDefinitionNamesTheTable: another table of transitions has another name.
func TestTheDefinitionNamesTheTable(t *testing.T) {
	t.Parallel()
	name := digestOf(Transitions)
	assert.Equal(t, name, WorkflowDefinition())
	changed := append([]Transition{}, Transitions...)
	changed[0].To = Planning
	assert.NotEqual(t, name, digestOf(changed))
	assert.NotEqual(t, name, digestOf(Transitions[1:]))
}
