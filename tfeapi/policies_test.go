package tfeapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/runs"
)

var runtimeOnce = sync.OnceValues(func() (*policies.Runtime, error) { return policies.NewRuntime("test", policies.DefaultLimits()) })

// policyRuntime starts this program; it is read once to name its release.
func policyRuntime(t *testing.T) *policies.Runtime {
	t.Helper()
	runtime, err := runtimeOnce()
	require.NoError(t, err)
	return runtime
}

const forbidsAll = "package p\n\ndeny contains {\"address\": \"a.b\", \"msg\": \"nothing is allowed\"}\n"

// policySet makes a set with one policy, for this workspace.
func (w *world) policySet(level tfe.EnforcementLevel, content string, workspace *tfe.Workspace) (*tfe.PolicySet, *tfe.Policy) {
	w.Helper()
	p, err := w.client.Policies.Create(w.Context(), "acme", tfe.PolicyCreateOptions{Name: tfe.String("policy-" + string(level)), Kind: tfe.OPA, Query: tfe.String("data.p.deny"), EnforcementLevel: &level})
	require.NoError(w, err)
	require.NoError(w, w.client.Policies.Upload(w.Context(), p.ID, []byte(content)))
	set, err := w.client.PolicySets.Create(w.Context(), "acme", tfe.PolicySetCreateOptions{
		Name: tfe.String("set-" + string(level)), Kind: tfe.OPA, Policies: []*tfe.Policy{p}, Workspaces: []*tfe.Workspace{workspace},
	})
	require.NoError(w, err)
	return set, p
}

func (w *world) evaluate() {
	w.Helper()
	require.NoError(w, runs.NewEvaluator(w.deps.Runs, w.deps.Policies).Evaluate(w.Context()))
}

func TestPolicySetsOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ws := w.workspace("one")
	set, policy := w.policySet(tfe.EnforcementMandatory, forbidsAll, ws)
	assert.Equal(t, 1, set.PolicyCount)
	assert.Equal(t, 1, set.WorkspaceCount)
	require.NotNil(t, set.CurrentVersion)
	read, err := w.client.PolicySets.Read(ctx, set.ID)
	require.NoError(t, err)
	assert.Equal(t, set, read, "the same in every answer")
	list, err := w.client.PolicySets.List(ctx, "acme", &tfe.PolicySetListOptions{Search: "MANDATORY", Kind: tfe.OPA})
	require.NoError(t, err)
	assert.Equal(t, []*tfe.PolicySet{set}, list.Items)
	with, err := w.client.PolicySets.ReadWithOptions(ctx, set.ID, &tfe.PolicySetReadOptions{Include: []tfe.PolicySetIncludeOpt{tfe.PolicySetWorkspaces, tfe.PolicySetPolicies, tfe.PolicySetCurrentVersion}})
	require.NoError(t, err)
	assert.Equal(t, "one", with.Workspaces[0].Name)
	assert.Equal(t, policy.Name, with.Policies[0].Name)
	assert.Equal(t, tfe.PolicySetVersionReady, with.CurrentVersion.Status)

	two := w.workspace("two")
	require.NoError(t, w.client.PolicySets.AddWorkspaceExclusions(ctx, set.ID, tfe.PolicySetAddWorkspaceExclusionsOptions{WorkspaceExclusions: []*tfe.Workspace{two}}))
	require.NoError(t, w.client.PolicySets.RemoveWorkspaces(ctx, set.ID, tfe.PolicySetRemoveWorkspacesOptions{Workspaces: []*tfe.Workspace{ws}}))
	projects, err := w.client.Projects.List(ctx, "acme", nil)
	require.NoError(t, err)
	require.NoError(t, w.client.PolicySets.AddProjects(ctx, set.ID, tfe.PolicySetAddProjectsOptions{Projects: projects.Items}))
	require.NoError(t, w.client.PolicySets.AddProjectExclusions(ctx, set.ID, tfe.PolicySetAddProjectExclusionsOptions{ProjectExclusions: projects.Items}))
	require.NoError(t, w.client.PolicySets.RemoveProjectExclusions(ctx, set.ID, tfe.PolicySetRemoveProjectExclusionsOptions{ProjectExclusions: projects.Items}))
	updated, err := w.client.PolicySets.Update(ctx, set.ID, tfe.PolicySetUpdateOptions{Name: tfe.String("renamed"), Global: tfe.Bool(true), Overridable: tfe.Bool(true)})
	require.NoError(t, err)
	assert.True(t, updated.Global && *updated.Overridable)
	assert.Empty(t, updated.Workspaces)
	assert.Len(t, updated.Projects, 1)
	assert.Equal(t, two.ID, updated.WorkspaceExclusions[0].ID)
	require.NoError(t, w.client.PolicySets.Delete(ctx, set.ID))
	_, err = w.client.PolicySets.Read(ctx, set.ID)
	assert.ErrorIs(t, err, tfe.ErrResourceNotFound)
	_, err = w.as(w.bob).PolicySets.Create(ctx, "acme", tfe.PolicySetCreateOptions{Name: tfe.String("bobs")})
	assert.ErrorContains(t, err, "policies:manage")
}

func TestPoliciesOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, policy := w.policySet(tfe.EnforcementAdvisory, forbidsAll, w.workspace("one"))
	read, err := w.client.Policies.Read(ctx, policy.ID)
	require.NoError(t, err)
	assert.Equal(t, "data.p.deny", *read.Query)
	assert.Equal(t, tfe.EnforcementAdvisory, read.EnforcementLevel)
	assert.Equal(t, []*tfe.Enforcement{{Path: policy.Name + ".rego", Mode: tfe.EnforcementAdvisory}}, read.Enforce)
	assert.Equal(t, 1, read.PolicySetCount)
	mandatory := tfe.EnforcementMandatory
	updated, err := w.client.Policies.Update(ctx, policy.ID, tfe.PolicyUpdateOptions{EnforcementLevel: &mandatory})
	require.NoError(t, err)
	assert.Equal(t, mandatory, updated.EnforcementLevel)
	assert.Equal(t, read.Enforce[0].Path, updated.Enforce[0].Path)
	content, err := w.client.Policies.Download(ctx, policy.ID)
	require.NoError(t, err)
	assert.Equal(t, forbidsAll, string(content))
	assert.ErrorContains(t, w.client.Policies.Upload(ctx, policy.ID, []byte("package p\n\ndeny contains \"x\" if http.send({\"url\": \"u\", \"method\": \"get\"}).status_code == 1\n")), "http.send")

	// As a client changes package and query: it says the query, then it sends the content.
	address := "/api/v2/policies/" + policy.ID
	assert.Equal(t, "data.p.deny", w.attribute(address, "query-in-force"))
	moved, err := w.client.Policies.Update(ctx, policy.ID, tfe.PolicyUpdateOptions{Query: tfe.String("data.q.deny")})
	require.NoError(t, err)
	assert.Equal(t, "data.q.deny", *moved.Query)
	assert.Equal(t, "data.p.deny", w.attribute(address, "query-in-force"))
	assert.ErrorContains(t, w.client.Policies.Upload(ctx, policy.ID, []byte(forbidsAll)), "awaits content that answers the query data.q.deny")
	require.NoError(t, w.client.Policies.Upload(ctx, policy.ID, []byte(strings.Replace(forbidsAll, "package p", "package q", 1))))
	assert.Equal(t, []any{"data.q.deny", "data.q.deny"}, []any{w.attribute(address, "query"), w.attribute(address, "query-in-force")})
	list, err := w.client.Policies.List(ctx, "acme", &tfe.PolicyListOptions{Kind: tfe.OPA})
	require.NoError(t, err)
	assert.Len(t, list.Items, 1)

	hard := tfe.EnforcementHard
	sentinel, err := w.client.Policies.Create(ctx, "acme", tfe.PolicyCreateOptions{Name: tfe.String("old"), Enforce: []*tfe.EnforcementOptions{{Path: tfe.String("old.sentinel"), Mode: &hard}}})
	require.NoError(t, err)
	assert.Equal(t, tfe.Sentinel, sentinel.Kind)
	assert.Equal(t, hard, sentinel.EnforcementLevel)
	assert.Empty(t, sentinel.Enforce, "there is no file yet")
	require.NoError(t, w.client.Policies.Upload(ctx, sentinel.ID, []byte("main = rule { true }")))
	require.NoError(t, w.client.Policies.Delete(ctx, sentinel.ID))
}

func TestParametersAndVersionsOnTheWire(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	set, err := w.client.PolicySets.Create(ctx, "acme", tfe.PolicySetCreateOptions{Name: tfe.String("uploaded"), Kind: tfe.OPA})
	require.NoError(t, err)
	category := tfe.CategoryPolicySet
	p, err := w.client.PolicySetParameters.Create(ctx, set.ID, tfe.PolicySetParameterCreateOptions{Key: tfe.String("k"), Value: tfe.String("v"), Category: &category, Sensitive: tfe.Bool(true)})
	require.NoError(t, err)
	assert.Empty(t, p.Value)
	assert.Equal(t, category, p.Category)
	_, err = w.client.PolicySetParameters.Update(ctx, set.ID, p.ID, tfe.PolicySetParameterUpdateOptions{Key: tfe.String("l")})
	require.NoError(t, err)
	list, err := w.client.PolicySetParameters.List(ctx, set.ID, nil)
	require.NoError(t, err)
	assert.Equal(t, "l", list.Items[0].Key)
	require.NoError(t, w.client.PolicySetParameters.Delete(ctx, set.ID, p.ID))

	pending, err := w.client.PolicySetVersions.Create(ctx, set.ID)
	require.NoError(t, err)
	again, err := w.client.PolicySetVersions.Read(ctx, pending.ID)
	require.NoError(t, err)
	assert.NotEmpty(t, again.Links["upload"])
	overriders, err := w.client.Teams.Create(ctx, "acme", tfe.TeamCreateOptions{Name: tfe.String("overriders"), OrganizationAccess: &tfe.OrganizationAccessOptions{ManagePolicyOverrides: tfe.Bool(true)}})
	require.NoError(t, err)
	require.NoError(t, w.client.TeamMembers.Add(ctx, overriders.ID, tfe.TeamMemberAddOptions{Usernames: []string{"bob"}}))
	seen, err := w.as(w.bob).PolicySetVersions.Read(ctx, pending.ID)
	require.NoError(t, err)
	assert.NotContains(t, seen.Links, "upload", "who may only read may not upload")

	dir := t.TempDir()
	write := func(name, content string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	write("policies.hcl", "policy \"one\" {\n  query = \"data.p.deny\"\n  enforcement_level = \"mandatory\"\n}\n")
	write("p.rego", "package p\n\ndeny := time.now_ns()\n")
	version, err := w.client.PolicySetVersions.Create(ctx, set.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.PolicySetVersionPending, version.Status)
	assert.Error(t, w.client.PolicySetVersions.Upload(ctx, *version, dir))
	version, err = w.client.PolicySetVersions.Read(ctx, version.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.PolicySetVersionErrored, version.Status)
	assert.Contains(t, version.ErrorMessage, "time.now_ns")

	write("p.rego", forbidsAll)
	version, err = w.client.PolicySetVersions.Create(ctx, set.ID)
	require.NoError(t, err)
	require.NoError(t, w.client.PolicySetVersions.Upload(ctx, *version, dir))
	set, err = w.client.PolicySets.Read(ctx, set.ID)
	require.NoError(t, err)
	assert.Equal(t, version.ID, set.CurrentVersion.ID)
	assert.Equal(t, 1, set.PolicyCount)
	release := w.attribute("/api/v2/policy-set-versions/"+version.ID, "policy-runtime-release")
	assert.Equal(t, "test@"+w.deps.Policies.Runtime().Release().Digest, release, "what the allow-list of policy runtimes knows")
}

// attribute reads one attribute that go-tfe does not know.
func (w *world) attribute(path, name string) any {
	w.Helper()
	var document struct {
		Data struct{ Attributes map[string]any }
	}
	require.NoError(w, json.Unmarshal(w.bytes(path), &document))
	return document.Data.Attributes[name]
}

func (w *world) bytes(path string) []byte {
	w.Helper()
	request, err := http.NewRequestWithContext(w.Context(), http.MethodGet, w.url+path, nil)
	require.NoError(w, err)
	request.Header.Set("Authorization", "Bearer "+w.ann)
	response, err := http.DefaultClient.Do(request)
	require.NoError(w, err)
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	require.NoError(w, err)
	require.Equal(w, http.StatusOK, response.StatusCode, string(content))
	return content
}

// TestThePolicyCheckOfARun follows one as native clients see it: known before it exists, queued
// with the plan's end, and final together with the run.
func TestThePolicyCheckOfARun(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ws := w.workspace("one")
	w.policySet(tfe.EnforcementMandatory, forbidsAll, ws)
	w.policySet(tfe.EnforcementAdvisory, forbidsAll, ws)
	group := w.runner()
	queued := w.queue(ws, tfe.RunCreateOptions{})
	e := w.accept(group)
	id := "polchk-" + strings.TrimPrefix(queued.ID, "run-")
	check := func(status tfe.PolicyStatus) *tfe.PolicyCheck {
		t.Helper()
		run, err := w.client.Runs.Read(ctx, queued.ID)
		require.NoError(t, err)
		require.Len(t, run.PolicyChecks, 1, "related in every answer")
		assert.Equal(t, id, run.PolicyChecks[0].ID)
		assert.Empty(t, run.TaskStages, "a client would wait for both")
		c, err := w.client.PolicyChecks.Read(ctx, id)
		require.NoError(t, err)
		assert.Equal(t, status, c.Status)
		assert.False(t, c.Permissions.CanOverride || c.Actions.IsOverridable)
		listed, err := w.client.PolicyChecks.List(ctx, queued.ID, nil)
		require.NoError(t, err)
		assert.Equal(t, []*tfe.PolicyCheck{c}, listed.Items)
		return c
	}
	check(tfe.PolicyPending)
	assert.Nil(t, w.attribute("/api/v2/policy-checks/"+id, "durable-status"), "there is no row yet")
	w.plan(e, "planned\n")
	check(tfe.PolicyQueued)
	assert.Equal(t, "running", w.attribute("/api/v2/policy-checks/"+id, "durable-status"))
	assert.Nil(t, w.attribute("/api/v2/policy-checks/"+id, "input-digest"))
	run, err := w.client.Runs.Read(ctx, queued.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunPolicyChecking, run.Status)
	assert.False(t, run.Actions.IsConfirmable)
	assert.True(t, run.HasChanges)
	plan, err := w.client.Plans.Read(ctx, run.Plan.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.PlanFinished, plan.Status)

	w.evaluate()
	c := check(tfe.PolicyHardFailed)
	assert.Equal(t, 1, c.Result.HardFailed)
	assert.Equal(t, 1, c.Result.AdvisoryFailed)
	assert.Len(t, w.attribute("/api/v2/policy-checks/"+id, "input-digest"), 64)
	assert.Len(t, w.attribute("/api/v2/policy-checks/"+id, "result-digest"), 64)
	logs, err := w.client.PolicyChecks.Logs(ctx, id)
	require.NoError(t, err)
	text, err := io.ReadAll(logs)
	require.NoError(t, err)
	assert.Contains(t, string(text), "a.b: rule deny: nothing is allowed")
	run, err = w.client.Runs.Read(ctx, queued.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunErrored, run.Status)
	_, err = w.client.PolicyChecks.Override(ctx, id)
	assert.ErrorContains(t, err, "policy_not_overridable")
	_, err = w.as(w.bob).PolicyChecks.Override(ctx, id)
	assert.ErrorContains(t, err, "policies:override")
	_, err = w.client.PolicyChecks.Read(ctx, "polchk-1111111111111111")
	assert.ErrorIs(t, err, tfe.ErrResourceNotFound)
	assert.NotContains(t, string(w.bytes("/api/v2/policy-checks/"+id+"/input")), "invented")
	w.outcomes(ctx, queued.ID)
}

// outcomes reads the same as clients of OPA do.
func (w *world) outcomes(ctx context.Context, run string) {
	w.Helper()
	stages, err := w.client.TaskStages.List(ctx, run, nil)
	require.NoError(w, err)
	require.Len(w, stages.Items, 1)
	stage, err := w.client.TaskStages.Read(ctx, stages.Items[0].ID, &tfe.TaskStageReadOptions{Include: []tfe.TaskStageIncludeOpt{tfe.PolicyEvaluationsTaskResults}})
	require.NoError(w, err)
	assert.Equal(w, tfe.TaskStageFailed, stage.Status)
	assert.Equal(w, tfe.PostPlan, stage.Stage)
	require.Len(w, stage.PolicyEvaluations, 1)
	assert.Equal(w, &tfe.PolicyResultCount{AdvisoryFailed: 1, MandatoryFailed: 1}, stage.PolicyEvaluations[0].ResultCount)
	evaluations, err := w.client.PolicyEvaluations.List(ctx, stage.ID, nil)
	require.NoError(w, err)
	assert.Equal(w, tfe.PolicyEvaluationFailed, evaluations.Items[0].Status)
	outcomes, err := w.client.PolicySetOutcomes.List(ctx, evaluations.Items[0].ID, nil)
	require.NoError(w, err)
	require.Len(w, outcomes.Items, 2)
	assert.Equal(w, "set-advisory", outcomes.Items[0].PolicySetName)
	one := outcomes.Items[1].Outcomes[0]
	assert.Equal(w, []string{"policy-mandatory", "failed", "mandatory"}, []string{one.PolicyName, one.Status, string(one.EnforcementLevel)})
	assert.Contains(w, one.Output[0].Print, "nothing is allowed")
	narrowed, err := w.client.PolicySetOutcomes.List(ctx, evaluations.Items[0].ID, &tfe.PolicySetOutcomeListOptions{Filter: map[string]tfe.PolicySetOutcomeListFilter{"0": {Status: "failed", EnforcementLevel: "mandatory"}}})
	require.NoError(w, err)
	require.Len(w, narrowed.Items, 1)
	read, err := w.client.PolicySetOutcomes.Read(ctx, narrowed.Items[0].ID)
	require.NoError(w, err)
	assert.Equal(w, "set-mandatory", read.PolicySetName)
}

// TestARunWithoutPolicySetsHasNoCheck: not for clients (amendment 1).
func TestARunWithoutPolicySetsHasNoCheck(t *testing.T) {
	w := newWorld(t)
	group := w.runner()
	queued := w.queue(w.workspace("one"), tfe.RunCreateOptions{})
	w.plan(w.accept(group), "planned\n")
	run, err := w.client.Runs.Read(t.Context(), queued.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.RunPlanned, run.Status)
	assert.Empty(t, run.PolicyChecks)
	checks, err := w.client.PolicyChecks.List(t.Context(), queued.ID, nil)
	require.NoError(t, err)
	assert.Empty(t, checks.Items)
	stages, err := w.client.TaskStages.List(t.Context(), queued.ID, nil)
	require.NoError(t, err)
	assert.Empty(t, stages.Items)
}

// TestStatusesOfAPolicyCheck: every status that a run can have beside its check's.
func TestStatusesOfAPolicyCheck(t *testing.T) {
	state := func(run runs.Status, check *runs.PolicyCheck) checkState {
		r := runs.Run{ID: ids.Run("run-1111111111111111"), DurableStatus: run, Round: 1}
		return checkState{id: r.PolicyCheckID(), detail: runs.Detail{Run: r}, check: check}
	}
	running := &runs.PolicyCheck{DurableStatus: runs.CheckRunning}
	for run, want := range map[runs.Status]string{
		runs.DispatchPending: "pending", runs.Queued: "pending", runs.Planning: "pending", runs.PlanFailed: "unreachable", runs.Canceled: "unreachable",
	} {
		assert.Equal(t, want, state(run, nil).wire(), run)
	}
	for run, want := range map[runs.Status]string{
		runs.PlanComplete: "queued", runs.PolicyEvaluating: "queued", runs.Canceled: "unreachable", runs.PolicyFailed: "errored",
	} {
		c := state(run, running)
		assert.Equal(t, want, c.wire(), run)
		view := newPolicyCheckView(c)
		if run.Final() { // nobody judges it any more: neither is it running, nor does it pass
			assert.Nil(t, view.DurableStatus, run)
			assert.False(t, view.Result.Result)
		} else {
			assert.Equal(t, "running", *view.DurableStatus)
		}
	}
	for check, want := range map[runs.CheckStatus]string{runs.CheckPassed: "passed", runs.CheckFailed: "hard_failed", runs.CheckErrored: "errored"} {
		assert.Equal(t, want, state(runs.AwaitingApproval, &runs.PolicyCheck{DurableStatus: check}).wire())
	}
	old := state(runs.Planning, running)
	old.detail.Round = 2
	assert.Equal(t, "unreachable", old.wire(), "of an earlier round")
	assert.Equal(t, policies.Counts{}, old.evaluation.Counts)
	assert.Equal(t, "1111111111111111", old.key())
}

// goldenCheck is a policy check that a plan has failed.
func goldenCheck(run runs.Detail, at, later time.Time) checkState {
	outcome := evaluator.Outcome{
		Policy: "p", Description: "d", Query: "data.p.deny", Level: evaluator.Mandatory, Status: evaluator.Failed, Violations: []evaluator.Violation{{Rule: "deny", Address: "a.b", Message: "m"}}, Prints: []string{"printed"},
	}
	return checkState{
		id: run.PolicyCheckID(), detail: run,
		check: &runs.PolicyCheck{ID: run.PolicyCheckID(), RunID: run.ID, DurableStatus: runs.CheckFailed, InputDigest: "ab", ResultDigest: "cd", CreatedAt: at, EvaluatingAt: &at, CompletedAt: &later},
		evaluation: policies.Evaluation{
			Status: policies.Denied, Reason: policies.ReasonDenied, Runtime: gates.Release{Version: "1.0", Digest: "ef"}, Counts: policies.Counts{MandatoryFailed: 1},
			Sets: []policies.SetOutcome{{Set: "polset-1111111111111111", Name: "s", Description: "d", Kind: policies.OPA, Outcomes: []evaluator.Outcome{outcome}}},
		},
	}
}

func goldenSet(at, later time.Time) policies.Set {
	return policies.Set{
		ID: "polset-1111111111111111", OrganizationName: "acme", Name: "s", Description: "d", Kind: policies.OPA, Global: true, Rego: evaluator.V1, UpdatePatterns: []string{"*.rego"},
		CreatedAt: at, UpdatedAt: later, Workspaces: []ids.Workspace{goldWS}, ProjectExclusions: []ids.Project{"prj-1111111111111111"},
		NewestVersion: "polsetver-1111111111111111", CurrentVersion: "polsetver-1111111111111111", CurrentPolicies: 2,
	}
}

func goldenVersion(at, later time.Time) policies.Version {
	return policies.Version{
		ID: "polsetver-1111111111111111", Set: "polset-1111111111111111", Source: "tfe-api", Status: policies.VersionReady, Digest: "ab", Policies: 2, Tests: 3,
		RuntimeVersion: "1.0", RuntimeDigest: "ef", CreatedAt: at, UpdatedAt: later,
	}
}

func TestASentinelSetWithoutAgentsHasNoToolVersionAndNoOverride(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	set, err := w.client.PolicySets.Create(ctx, "acme", tfe.PolicySetCreateOptions{
		Name: tfe.String("old"), AgentEnabled: tfe.Bool(true), PolicyToolVersion: tfe.String("0.30.0"), Overridable: tfe.Bool(true),
	})
	require.NoError(t, err)
	assert.Equal(t, "0.30.0", set.PolicyToolVersion)
	assert.True(t, *set.Overridable)
	set, err = w.client.PolicySets.Update(ctx, set.ID, tfe.PolicySetUpdateOptions{AgentEnabled: tfe.Bool(false)})
	require.NoError(t, err)
	assert.Empty(t, set.PolicyToolVersion)
	assert.Nil(t, set.Overridable)
}
