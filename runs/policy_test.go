package runs

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// TestMain lets the test's own program be the policy-runner.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == evaluator.Command {
		os.Exit(evaluator.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// runtimeOnce reads the test's program, which is large, once.
var runtimeOnce = sync.OnceValues(func() (*policies.Runtime, error) {
	return policies.NewRuntime("test", policies.DefaultLimits())
})

func (w *world) policies() *policies.Service {
	w.Helper()
	runtime, err := runtimeOnce()
	require.NoError(w, err)
	return policies.New(w.db, w.runs.objects, runtime)
}

// forbids is a module whose rule denies plans that have this word in a resource's name.
func forbids(word string) string {
	return "package p\n\ndeny contains {\"address\": change.address, \"msg\": \"no " + word + " here\"} if {\n\tsome change in input.plan.resource_changes\n\tcontains(change.address, \"" + word + "\")\n}\n"
}

// policySet makes a set with one policy that is in force everywhere.
func (w *world) policySet(level evaluator.Level, module string) (policies.Set, policies.Policy) {
	w.Helper()
	p := w.policies()
	policy, err := p.CreatePolicy(ctx, w.owner, "acme", policies.NewPolicy{Name: w.unique("policy"), Kind: policies.OPA, Query: "data.p.deny", Level: string(level)})
	require.NoError(w, err)
	require.NoError(w, p.UploadPolicy(ctx, w.owner, policy.ID, []byte(module)))
	set, err := p.CreateSet(ctx, w.owner, "acme", policies.NewSet{
		Name: w.unique("set"), Kind: policies.OPA, Global: true, Members: map[policies.Relation][]string{policies.Policies: {string(policy.ID)}},
	})
	require.NoError(w, err)
	return set, policy
}

// evaluate judges everything that waits for it.
func (w *world) evaluate() {
	w.Helper()
	require.NoError(w, NewEvaluator(w.runs, w.policies()).Evaluate(ctx))
}

// planOf works a plan phase through that ends with this plan of changes.
func (e *executor) planOf(addresses ...string) {
	e.Helper()
	changes := make([]string, len(addresses))
	for i, a := range addresses {
		changes[i] = fmt.Sprintf(`{"address":%q,"change":{"actions":["create"],"after":{"open":"visible","closed":"S3CRET-value","env":"token=S3CRET-env","key":"PRIVATE S3CRET-key"},"after_sensitive":{"closed":true}}}`, a)
	}
	e.handOver(artifacts.KindPlanJSON, `{"resource_changes":[`+strings.Join(changes, ",")+`],"variables":{"marked":{"value":"S3CRET-marked"},"size":{"value":"3"}},"invented":"S3CRET"}`)
	e.handOver(artifacts.KindLockFile, "locked providers")
	if !e.get(e.RunID).PlanOnly {
		e.handOver(artifacts.KindPlan, "the plan of "+string(e.ID))
	}
	e.done(planned(true))
}

// checking brings a run to the policy check that its plan reserves.
func (w *world) checking(ws ids.Workspace, addresses ...string) Detail {
	w.Helper()
	run := w.run(ws).ID
	w.take(run).planOf(addresses...)
	return w.wantStatus(run, PlanComplete)
}

func (w *world) check(run ids.Run) *PolicyCheck {
	w.Helper()
	_, check, err := w.runs.PolicyCheckOf(ctx, w.member, run, "")
	require.NoError(w, err)
	return check
}

// TestAPlanReservesItsPolicyCheck: with the plan, running, without an input, and under an id that
// was known before.
func TestAPlanReservesItsPolicyCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	run := w.run(w.workspace())
	id := "polchk-" + strings.TrimPrefix(string(run.ID), "run-")
	assert.Equal(t, id, run.PolicyCheckID())
	assert.Equal(t, 1, run.PolicySets)
	e := w.take(run.ID)
	assert.Nil(t, w.check(run.ID), "no row before the plan is finished")
	e.planOf("a.good")
	d, check := w.wantStatus(run.ID, PlanComplete), w.check(run.ID)
	require.NotNil(t, check)
	assert.Equal(t, PolicyCheck{ID: id, RunID: run.ID, DurableStatus: CheckRunning, CreatedAt: check.CreatedAt}, *check)
	assert.Equal(t, 1, count(w, "select count(*) from runs r join policy_checks c on c.run_id = r.id where r.id = @r and r.xmin = c.xmin", postgres.Args{"r": run.ID}), "both by one transaction")
	assert.NotNil(t, d.PlanFinishedAt)
	assert.Nil(t, d.ApprovalExpiresAt)
	log, err := w.runs.PlanLog(ctx, d.PlanID, "", 0, 1000)
	require.NoError(t, err)
	assert.True(t, log.Final)
}

// TestAllowedPlansWaitForADecision: RL-06's path, with evidence that is whole.
func TestAllowedPlansWaitForADecision(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	set, _ := w.policySet(evaluator.Mandatory, forbids("bad"))
	d := w.checking(w.workspace(), "a.good")
	w.evaluate()
	d = w.wantStatus(d.ID, AwaitingApproval)
	var path []Status
	for _, h := range d.History {
		path = append(path, h.ToStatus)
	}
	assert.Equal(t, []Status{Queued, Planning, PlanComplete, PolicyEvaluating, PolicyPassed, AwaitingApproval}, path)
	check := w.check(d.ID)
	assert.Equal(t, CheckPassed, check.DurableStatus)
	assert.Equal(t, sha(check.InputDigest+check.Evaluation), check.ResultDigest)
	e, err := check.Result()
	require.NoError(t, err)
	assert.Equal(t, policies.Counts{Passed: 1}, e.Counts)
	assert.Equal(t, d.PolicyScope, e.Scope)
	version, err := w.policies().Version(ctx, w.owner, set.CurrentVersion)
	require.NoError(t, err)
	assert.Equal(t, version.Release(), e.Runtime, "what published is what judged (PO-07)")
	assert.Equal(t, gates.Release{Version: d.PolicyVersion, Digest: d.PolicyDigest}, e.Runtime)
	assert.Len(t, e.Runtime.Digest, 64)

	require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
	assert.Equal(t, 1, count(w, "select count(*) from approvals where run_id = @r and policy_result_digest = @d", postgres.Args{"r": d.ID, "d": check.ResultDigest}))
	w.take(d.ID).apply(1)
	w.wantStatus(d.ID, Succeeded)
}

// TestPoliciesSeeADerivativeOnly: its digest is the one that is bound.
func TestPoliciesSeeADerivativeOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	ws := w.workspace()
	_, err := w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "marked", Value: "S3CRET-marked", Category: workspaces.Terraform, Sensitive: true})
	require.NoError(t, err)
	_, err = w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "TOKEN", Value: "S3CRET-env", Category: workspaces.Env, Sensitive: true})
	require.NoError(t, err)
	key, err := w.spaces.CreateSSHKey(ctx, w.owner, "acme", "modules", "PRIVATE S3CRET-key\n")
	require.NoError(t, err)
	_, err = w.spaces.AssignSSHKey(ctx, w.owner, ws, key.ID)
	require.NoError(t, err)
	d := w.checking(ws, "a.good")
	w.evaluate()
	_, _, err = w.runs.PolicyInput(ctx, w.owner, d.ID, "polchk-0000000000000000")
	assert.True(t, fault.Is(err, fault.NotFound))
	body, object, err := w.runs.PolicyInput(ctx, w.owner, d.ID, d.PolicyCheckID())
	require.NoError(t, err)
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, object.SHA256, sha(string(content)))
	assert.Equal(t, object.SHA256, w.check(d.ID).InputDigest)
	assert.NotContains(t, string(content), "S3CRET")
	for _, kept := range []string{"a.good", "visible", string(d.ID), d.WorkspaceName, `"variables":{"size":{"value":"3"}}`, `"after_sensitive":{"closed":true}`} {
		assert.Contains(t, string(content), kept)
	}
}

// TestAForbiddenPlanEnds: the run says which policy, address and message, and the workspace is
// the next run's at once.
func TestAForbiddenPlanEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	ws := w.workspace()
	d, next := w.checking(ws, "a.good", "a.bad"), w.run(ws).ID
	w.evaluate()
	d = w.wantStatus(d.ID, PolicyFailed)
	assert.Equal(t, policies.ReasonDenied, d.DurableReason)
	for _, text := range []string{"policy-", "a.bad", "no bad here", "rule deny"} {
		assert.Contains(t, d.StatusMessage, text)
	}
	assert.Equal(t, CheckFailed, w.check(d.ID).DurableStatus)
	w.wantAdmitted(next)
	wantCode(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}), fault.Conflict, "invalid_transition")
	wantCode(t, w.runs.OverridePolicy(ctx, w.owner, d.ID), fault.Conflict, "policy_not_overridable")
	wantCode(t, w.runs.OverridePolicy(ctx, w.member, d.ID), fault.Forbidden, "forbidden")
	require.NoError(t, w.runs.Cancel(ctx, w.owner, next, ""))
}

func TestAnAdvisoryPolicyDoesNotEndTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Advisory, forbids("bad"))
	d := w.checking(w.workspace(), "a.bad")
	w.evaluate()
	w.wantStatus(d.ID, AwaitingApproval)
	e, err := w.check(d.ID).Result()
	require.NoError(t, err)
	assert.Equal(t, policies.Counts{AdvisoryFailed: 1}, e.Counts)
	assert.Contains(t, e.Text(), "a.bad: rule deny: no bad here")
	assert.Contains(t, e.Text(), "advisory")
}

// TestASpeculativePlanIsJudgedToo: and ends with it.
func TestASpeculativePlanIsJudgedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	ws := w.workspace()
	for address, want := range map[string]Status{"a.good": Succeeded, "a.bad": PolicyFailed} {
		run := w.run(ws, planOnly).ID
		w.take(run).planOf(address)
		w.wantStatus(run, PlanComplete)
		w.evaluate()
		w.wantStatus(run, want)
	}
}

// TestARequeuedRunIsJudgedByTheSetsOfThen: under a check of its own (G-04).
func TestARequeuedRunIsJudgedByTheSetsOfThen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, policy := w.policySet(evaluator.Mandatory, forbids("bad"))
	d := w.checking(w.workspace(), "a.bad")
	require.NoError(t, w.policies().UploadPolicy(ctx, w.owner, policy.ID, []byte(forbids("other"))))
	w.evaluate()
	d = w.wantStatus(d.ID, PolicyFailed) // bound when it was made, whatever came afterwards
	first := d.PolicyCheckID()
	_, err := w.runs.Requeue(ctx, w.owner, d.ID)
	require.NoError(t, err)
	w.take(d.ID).planOf("a.bad")
	w.evaluate()
	d = w.wantStatus(d.ID, AwaitingApproval)
	assert.Equal(t, first+"-2", d.PolicyCheckID())
	_, old, err := w.runs.PolicyCheckOf(ctx, w.member, d.ID, first)
	require.NoError(t, err)
	assert.Equal(t, CheckFailed, old.DurableStatus, "what was recorded stays")
}

// TestASentinelSetFailsClosed: nobody here can ask it.
func TestASentinelSetFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.policies()
	policy, err := p.CreatePolicy(ctx, w.owner, "acme", policies.NewPolicy{Name: "old", Kind: policies.Sentinel, Level: "advisory"})
	require.NoError(t, err)
	_, err = p.CreateSet(ctx, w.owner, "acme", policies.NewSet{Name: "sentinel", Global: true, Members: map[policies.Relation][]string{policies.Policies: {string(policy.ID)}}})
	require.NoError(t, err)
	d := w.checking(w.workspace(), "a.good")
	w.evaluate()
	d = w.wantStatus(d.ID, PolicyFailed)
	assert.Equal(t, "unsupported_policy_kind", d.DurableReason)
	assert.Contains(t, d.StatusMessage, "sentinel")
	assert.Equal(t, CheckErrored, w.check(d.ID).DurableStatus)
}

// TestOnlyAReservedCheckIsBoundAndOnce: PO-13 and PO-14.
func TestOnlyAReservedCheckIsBoundAndOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	run := w.run(w.workspace()).ID
	e := w.take(run)
	_, err := w.runs.BindPolicyInput(ctx, run, sha("input"), "")
	wantCode(t, err, fault.Conflict, "policy_not_reserved")
	w.wantStatus(run, Planning)
	e.planOf("a.good")
	for range 2 {
		_, err = w.runs.BindPolicyInput(ctx, run, sha("input"), "")
		require.NoError(t, err)
	}
	d := w.wantStatus(run, PolicyEvaluating)
	assert.Len(t, d.History, 4, "the repeat is no step")
	_, err = w.runs.BindPolicyInput(ctx, run, sha("another"), "")
	wantCode(t, err, fault.Conflict, "policy_input_rebind")
	assert.Equal(t, sha("input"), w.check(run).InputDigest)
	_, constraint := postgres.Violation(w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update policy_checks set input_digest = 'x' where run_id = @r", postgres.Args{"r": run})
		return err
	}))
	assert.Equal(t, "policy_input_is_bound_once", constraint, "nor by the database")
}

// TestAResultNeedsItsInput: PO-15 and PO-16.
func TestAResultNeedsItsInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	d := w.checking(w.workspace(), "a.good")
	good := policies.Evaluation{Scope: d.PolicyScope, Status: policies.Allowed}
	wantCode(t, w.runs.RecordPolicy(ctx, d.ID, sha("input"), good), fault.Conflict, "policy_input_unbound")
	_, err := w.runs.BindPolicyInput(ctx, d.ID, sha("input"), "")
	require.NoError(t, err)
	wantCode(t, w.runs.RecordPolicy(ctx, d.ID, "", good), fault.Conflict, "policy_input_unbound")
	wantCode(t, w.runs.RecordPolicy(ctx, d.ID, sha("another"), good), fault.Conflict, "policy_input_rebind")
	wantCode(t, w.runs.RecordPolicy(ctx, d.ID, sha("input"), policies.Evaluation{Status: policies.Allowed}), fault.Conflict, "policy_scope_differs")
	w.wantStatus(d.ID, PolicyEvaluating)
	require.NoError(t, w.runs.RecordPolicy(ctx, d.ID, sha("input"), good))
	w.wantStatus(d.ID, AwaitingApproval)
	wantCode(t, w.runs.RecordPolicy(ctx, d.ID, sha("input"), good), fault.Conflict, "policy_not_reserved")
}

// TestATamperedResultIsNoApproval: PO-12, before the decision and after it.
func TestATamperedResultIsNoApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Advisory, forbids("bad"))
	d := w.checking(w.workspace(), "a.bad")
	w.evaluate()
	w.exec("update policy_checks set evaluation = replace(evaluation, 'failed', 'passed') where run_id = @s", postgres.Args{"s": d.ID})
	wantCode(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}), fault.Conflict, "policy_result_damaged")
	w.wantStatus(d.ID, AwaitingApproval)

	d = w.checking(w.workspace(), "a.bad")
	w.evaluate()
	require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
	e := w.take(d.ID)
	w.exec("update policy_checks set evaluation = replace(evaluation, 'failed', 'passed') where run_id = @s", postgres.Args{"s": d.ID})
	wantCode(t, e.tryStart(), fault.Conflict, "APPROVAL_BINDING_STALE")
}

// TestPoliciesThatChangedAfterTheApproval: what was approved is not applied any more.
func TestPoliciesThatChangedAfterTheApproval(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *world, set policies.Set, policy policies.Policy) error{
		"a policy": func(w *world, _ policies.Set, policy policies.Policy) error {
			return w.policies().UploadPolicy(ctx, w.owner, policy.ID, []byte(forbids("other")))
		},
		"a parameter": func(w *world, set policies.Set, _ policies.Policy) error {
			_, err := w.policies().CreateParameter(ctx, w.owner, set.ID, policies.Parameter{Key: "k", Value: "v"})
			return err
		},
		"another set": func(w *world, _ policies.Set, _ policies.Policy) error {
			w.policySet(evaluator.Advisory, forbids("other"))
			return nil
		},
		"none any more": func(w *world, set policies.Set, _ policies.Policy) error {
			return w.policies().DeleteSet(ctx, w.owner, set.ID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			set, policy := w.policySet(evaluator.Mandatory, forbids("bad"))
			d := w.checking(w.workspace(), "a.good")
			w.evaluate()
			require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
			e := w.take(d.ID)
			require.NoError(t, change(w, set, policy))
			err := e.tryStart()
			wantCode(t, err, fault.Conflict, "APPROVAL_BINDING_STALE")
			assert.ErrorContains(t, err, "policy")
		})
	}
}

// TestTheReleaseThatJudgedIsAskedBeforeAnApply: PO-17. That the plan was allowed does not stand
// for the program that allowed it; AU-07 and AU-08 for its list.
func TestTheReleaseThatJudgedIsAskedBeforeAnApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	mine := w.policies().Runtime().Release()
	d := w.checking(w.workspace(), "a.good")
	w.evaluate()
	w.allow(gates.PolicyRuntime, allowed)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, d.ID, Decision{}))
	w.sweep()
	d = w.wantStatus(d.ID, AwaitingApproval)
	assert.Empty(t, d.ApplyAttempt)
	assert.Contains(t, d.GateReason, "policy-runtime")
	w.allow(gates.PolicyRuntime, allowed, mine)
	w.sweep()

	e := w.offerTo(d.ID, allowed)
	w.allow(gates.PolicyRuntime, allowed)
	_, err := e.acceptAs(allowed)
	wantCode(t, err, fault.Conflict, "release_not_allowed")
	w.allow(gates.PolicyRuntime, mine)
	w.sweep()
	last := w.takeAs(d.ID, allowed)
	w.allow(gates.PolicyRuntime, allowed)
	wantCode(t, last.tryStart(), fault.Conflict, "release_not_allowed")
	last.done(Done{Outcome: OutcomeErrored, Message: "apply-start was refused"})
	w.wantStatus(d.ID, AwaitingApproval)

	w.allow(gates.PolicyRuntime, allowed)
	waits := w.checking(w.workspace(), "a.good")
	w.evaluate()
	waits = w.wantStatus(waits.ID, PlanComplete)
	assert.Contains(t, waits.WaitsFor(), "policy-runner", "what may not judge does not judge")
	w.allow(gates.PolicyRuntime)
	w.exec("update policy_checks set claimed_until = null where run_id = @s", postgres.Args{"s": waits.ID})
	w.evaluate()
	assert.Empty(t, w.wantStatus(waits.ID, AwaitingApproval).GateReason)
}

// TestWhatCannotBeJudgedFailsClosed: a policy-runner that crashes is tried again, but not
// for ever, and nothing is applied.
func TestWhatCannotBeJudgedFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Advisory, forbids("bad"))
	d := w.checking(w.workspace(), "a.good")
	runtime, err := policies.RuntimeAt("/bin/false", "test", policies.DefaultLimits())
	require.NoError(t, err)
	broken := NewEvaluator(w.runs, policies.New(w.db, w.runs.objects, runtime))
	_, err = w.runs.BindPolicyInput(ctx, d.ID, sha("{}"), w.objectOf("{}"))
	require.NoError(t, err)
	for try := 1; try < policyTries; try++ {
		require.NoError(t, broken.Evaluate(ctx))
		w.wantStatus(d.ID, PolicyEvaluating)
		assert.Equal(t, try, count(w, "select tries from policy_checks where run_id = @r and claimed_until > clock_timestamp() - interval '1 minute'", postgres.Args{"r": d.ID}))
		w.exec("update policy_checks set claimed_until = null where run_id = @s", postgres.Args{"s": d.ID})
	}
	require.NoError(t, broken.Evaluate(ctx))
	d = w.wantStatus(d.ID, PolicyFailed)
	assert.Equal(t, policies.ReasonErrored, d.DurableReason)
	assert.Contains(t, d.StatusMessage, "could not be evaluated")
	assert.Equal(t, CheckErrored, w.check(d.ID).DurableStatus)
}

// TestAPlanThatIsNoPlanFailsClosed: no repeat would change it.
func TestAPlanThatIsNoPlanFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	run := w.run(w.workspace()).ID
	e := w.take(run)
	e.handOver(artifacts.KindPlanJSON, `[1,2]`)
	e.handOver(artifacts.KindLockFile, "locked providers")
	e.handOver(artifacts.KindPlan, "the plan")
	e.done(planned(true))
	w.evaluate()
	d := w.wantStatus(run, PolicyFailed)
	assert.Contains(t, d.StatusMessage, "no JSON object")
	assert.Equal(t, CheckRunning, w.check(run).DurableStatus, "a result without an input is not recorded (PO-06)")
}

// TestARestartGoesOnFromWhatIsBound: the input that a lost evaluator bound is the one that is judged.
func TestARestartGoesOnFromWhatIsBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	d := w.checking(w.workspace(), "a.good")
	const bound = `{"plan":{"resource_changes":[{"address":"a.bad"}]}}`
	_, err := w.runs.BindPolicyInput(ctx, d.ID, sha(bound), w.objectOf(bound))
	require.NoError(t, err)
	w.evaluate()
	w.wantStatus(d.ID, PolicyFailed)
	assert.Equal(t, sha(bound), w.check(d.ID).InputDigest)

	other := w.checking(w.workspace(), "a.good")
	_, err = w.runs.BindPolicyInput(ctx, other.ID, sha("something else"), w.objectOf("{}"))
	require.NoError(t, err)
	w.evaluate()
	other = w.wantStatus(other.ID, PolicyFailed)
	assert.Contains(t, other.StatusMessage, "not the one that is bound")
}

// TestACanceledCheckIsOver: what its evaluator still says changes nothing.
func TestACanceledCheckIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	for _, bound := range []bool{false, true} {
		d := w.checking(w.workspace(), "a.good")
		if bound {
			_, err := w.runs.BindPolicyInput(ctx, d.ID, sha("input"), "")
			require.NoError(t, err)
		}
		require.NoError(t, w.runs.Cancel(ctx, w.owner, d.ID, ""))
		d = w.wantStatus(d.ID, Canceled)
		w.wantFree(d.WorkspaceID)
		wantCode(t, w.runs.RecordPolicy(ctx, d.ID, sha("input"), policies.Evaluation{Scope: d.PolicyScope, Status: policies.Allowed}), fault.Conflict, "policy_not_reserved")
		w.evaluate()
		w.wantStatus(d.ID, Canceled)
	}
}

// TestAutoApplyComesAfterThePolicies: and is the requester's own decision over their result.
func TestAutoApplyComesAfterThePolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.policySet(evaluator.Mandatory, forbids("bad"))
	run := w.run(w.workspace(), autoApply).ID
	w.take(run).planOf("a.good")
	assert.Zero(t, w.decisions(run, string(approvals.Approved), string(approvals.AutoApply)))
	w.evaluate()
	assert.Equal(t, 1, w.decisions(run, string(approvals.Approved), string(approvals.AutoApply)))
	w.take(run).apply(1)
	w.wantStatus(run, Succeeded)
}

// objectOf is a stored derivative with this content.
func (w *world) objectOf(content string) ids.Object {
	w.Helper()
	object, err := w.runs.objects.Put(ctx, artifacts.Spec{Organization: w.acme.ID, Workspace: w.workspace(), Kind: artifacts.KindPolicyInput}, strings.NewReader(content), 0)
	require.NoError(w, err)
	return object.ID
}
