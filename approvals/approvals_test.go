package approvals_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

var ctx = context.Background()

// world is a database with one run and two people.
type world struct {
	*testing.T
	db       *postgres.DB
	run      ids.Run
	ada, bob ids.User
}

func newWorld(t *testing.T) world {
	w := world{T: t, db: testdb.New(t), run: ids.New[ids.Run](), ada: ids.New[ids.User](), bob: ids.New[ids.User]()}
	args := postgres.Args{
		"run": w.run, "plan": ids.New[ids.Plan](), "apply": ids.New[ids.Apply](), "cv": ids.New[ids.ConfigurationVersion](), "object": ids.New[ids.Object](),
		"org": ids.New[ids.Organization](), "project": ids.New[ids.Project](), "ws": ids.New[ids.Workspace](), "ada": w.ada, "bob": w.bob,
	}
	for _, sql := range []string{
		"insert into users (id, username) values (@ada, 'ada'), (@bob, 'bob')",
		"insert into organizations (id, name) values (@org, 'acme')",
		"insert into organization_keys (organization_id, version, root_version, wrapped) values (@org, 1, 1, '')",
		"insert into objects (id, organization_id, workspace_id, kind, key_version, wrapped_dek) values (@object, @org, @ws, 'configuration', 1, '')",
		"insert into projects (id, organization_id, name) values (@project, @org, 'p')",
		"insert into workspaces (id, organization_id, project_id, name) values (@ws, @org, @project, 'w')",
		"insert into configuration_versions (id, organization_id, workspace_id, status, object_id) values (@cv, @org, @ws, 'uploaded', @object)",
		`insert into runs (id, plan_id, apply_id, organization_id, workspace_id, queue_seq, created_by, configuration_version_id, configuration_object_id, run_variables_sealed, variables_sealed)
			values (@run, @plan, @apply, @org, @ws, 1, @ada, @cv, @object, '', '')`,
	} {
		require.NoError(t, w.exec(sql, args), sql)
	}
	return w
}

func (w world) tx(fn func(tx postgres.Tx) error) error {
	return postgres.InTx(ctx, w.db, "test", fn)
}

func (w world) exec(sql string, args postgres.Args) error {
	return w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, args)
		return err
	})
}

var bound = approvals.Binding{Plan: "p", Configuration: "c", LockFile: "l", Predecessor: "sv-1", PredecessorSHA256: "s", PolicyResult: "r"}

func (w world) decide(who ids.User, d approvals.Decision) error {
	return w.tx(func(tx postgres.Tx) error {
		return approvals.Decide(ctx, tx, approvals.Record{Run: w.run, Reviewer: who, Requester: w.ada, Decision: d, Source: approvals.Native, Comment: "because", Binding: bound})
	})
}

func (w world) check(now approvals.Binding) error {
	return w.tx(func(tx postgres.Tx) error { return approvals.Check(ctx, tx, w.run, now) })
}

func (w world) redeem(now approvals.Binding) error {
	return w.tx(func(tx postgres.Tx) error { return approvals.Redeem(ctx, tx, w.run, now) })
}

func wantConflict(t *testing.T, err error, code string) {
	t.Helper()
	require.Error(t, err)
	assert.Truef(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, code), "want %s: %v", code, err)
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	db := testdb.New(t)
	assert.NotEmpty(t, approvals.Queries)
	for name, sql := range approvals.Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}

func TestAnApprovalStartsOneApply(t *testing.T) {
	w := newWorld(t)
	wantConflict(t, w.check(bound), "not_approved")
	wantConflict(t, w.redeem(bound), "not_approved")
	require.NoError(t, w.decide(w.bob, approvals.Approved))
	require.NoError(t, w.check(bound))
	require.NoError(t, w.check(bound), "to check spends nothing")
	require.NoError(t, w.redeem(bound))
	wantConflict(t, w.redeem(bound), "approval_spent")
	wantConflict(t, w.check(bound), "approval_spent")
}

func TestARejectionApprovesNothing(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.decide(w.bob, approvals.Rejected))
	wantConflict(t, w.redeem(bound), "not_approved")
}

func TestAReviewerDecidesOnce(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.decide(w.bob, approvals.Rejected))
	wantConflict(t, w.decide(w.bob, approvals.Approved), "already_decided")
	require.NoError(t, w.decide(w.ada, approvals.Approved))
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		list, err := approvals.List(ctx, tx, w.run)
		require.Len(t, list, 2)
		for i, want := range []approvals.Entry{
			{ReviewerID: w.bob, Reviewer: "bob", RequesterID: w.ada, Decision: approvals.Rejected, Source: approvals.Native, Comment: "because"},
			{ReviewerID: w.ada, Reviewer: "ada", RequesterID: w.ada, Decision: approvals.Approved, Source: approvals.Native, Comment: "because"},
		} {
			assert.False(t, list[i].DecidedAt.IsZero())
			want.DecidedAt, want.ID, want.RunID, want.PlanID, want.Round = list[i].DecidedAt, list[i].ID, w.run, list[i].PlanID, 1
			want.ReviewerTeams = []ids.Team{}
			want.Bound = approvals.Bound{PlanDigest: "p", ConfigurationDigest: "c", LockFileDigest: "l", PredecessorVersionID: "sv-1", PredecessorSHA256: "s", PolicyResultDigest: "r", BindingDigest: bound.Digest()}
			assert.Equal(t, want, list[i])
		}
		return err
	}))
}

// Each fact that an approval covers makes it worthless when it moves (AP-16, G-39).
func TestABindingThatMovedAppliesNothing(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.decide(w.bob, approvals.Approved))
	for what, move := range map[string]func(b *approvals.Binding){
		"the plan":                          func(b *approvals.Binding) { b.Plan = "x" },
		"the configuration":                 func(b *approvals.Binding) { b.Configuration = "x" },
		"the dependency lock file":          func(b *approvals.Binding) { b.LockFile = "" },
		"the current state":                 func(b *approvals.Binding) { b.Predecessor = "" },
		"the policy result":                 func(b *approvals.Binding) { b.PolicyResult = "x" },
		"the checksum of the current state": func(b *approvals.Binding) { b.PredecessorSHA256 = "x" },
	} {
		now := bound
		move(&now)
		assert.NotEqual(t, bound.Digest(), now.Digest(), what)
		for _, err := range []error{w.check(now), w.redeem(now)} {
			wantConflict(t, err, "APPROVAL_BINDING_STALE")
			assert.Contains(t, err.Error(), what+" has changed")
		}
	}
	require.NoError(t, w.redeem(bound), "nothing was spent by that")
}

func TestConcurrentRedeemsSpendOnce(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.decide(w.bob, approvals.Approved))
	const many = 8
	answers := make(chan error, many)
	for range many {
		go func() { answers <- w.redeem(bound) }()
	}
	started := 0
	for range many {
		if err := <-answers; err == nil {
			started++
		} else {
			wantConflict(t, err, "approval_spent")
		}
	}
	assert.Equal(t, 1, started)
}

func TestTheDatabaseRefuses(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.decide(w.bob, approvals.Approved))
	again := `insert into approvals (run_id, reviewer_id, requester_id, decision, source, plan_digest, configuration_digest, lock_file_digest, policy_result_digest, binding_digest)
		select run_id, nullif(@reviewer::text, ''), requester_id, @decision, @source, '', '', '', '', @binding from approvals`
	args := func(reviewer ids.User, decision, source string) postgres.Args {
		return postgres.Args{"reviewer": reviewer, "decision": decision, "source": source, "binding": "d"}
	}
	testdb.WantViolation(t, w.exec(again, args(w.bob, "approved", "native")), "23505", "approvals_one_each")
	testdb.WantViolation(t, w.exec(again, args(w.ada, "maybe", "native")), "23514", "approvals_decision")
	testdb.WantViolation(t, w.exec(again, args(w.ada, "approved", "guess")), "23514", "approvals_source")
	testdb.WantViolation(t, w.exec(again, args("", "approved", "native")), "23514", "approvals_reviewer")
	testdb.WantViolation(t, w.exec(again, args(w.ada, "approved", "policy")), "23514", "approvals_reviewer")
	unbound := args(w.ada, "approved", "native")
	unbound["binding"] = ""
	testdb.WantViolation(t, w.exec(again, unbound), "23514", "approvals_bound")
	testdb.WantViolation(t, w.exec("update approvals set comment = 'after all'", nil), "23514", "approvals_are_kept")
	testdb.WantViolation(t, w.exec("delete from approvals", nil), "23514", "approvals_are_kept")
	testdb.WantViolation(t, w.exec("truncate approvals", nil), "23514", "approvals_are_kept")
	require.NoError(t, w.exec("update approvals set spent_at = clock_timestamp()", nil))
	testdb.WantViolation(t, w.exec("update approvals set spent_at = null", nil), "23514", "approvals_are_kept")
}
