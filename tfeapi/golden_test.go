package tfeapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

var update = flag.Bool("update", false, "write the golden documents anew")

var linkToken = regexp.MustCompile(`/(log|upload|upload-json)/[A-Za-z0-9_-]{54}"`)

// TestGoldenDocuments compares every kind of resource, to the byte, with a file in
// testdata. Tokens in addresses are random and written as TOKEN.
func TestGoldenDocuments(t *testing.T) {
	for name, d := range goldenDocuments(t) {
		payload, err := d.payload()
		require.NoError(t, err, name)
		got, err := json.MarshalIndent(payload, "", "  ")
		require.NoError(t, err, name)
		got = append(linkToken.ReplaceAll(got, []byte(`/$1/TOKEN"`)), '\n')
		file := filepath.Join("testdata", name+".json")
		if *update {
			require.NoError(t, os.WriteFile(file, got, 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err, "write it with: go test ./tfeapi -run Golden -update")
		assert.True(t, bytes.Equal(want, got), "%s differs:\n%s", file, got)
	}
}

const (
	goldOrg = ids.Organization("org-1111111111111111")
	goldWS  = ids.Workspace("ws-1111111111111111")
	goldRun = ids.Run("run-1111111111111111")
	goldAnn = ids.User("user-1111111111111111")
)

func goldenDocuments(t *testing.T) map[string]document {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	later := at.Add(time.Minute)
	ann := authz.Actor{Kind: authz.UserActor, User: goldAnn, Roles: map[ids.Organization]authz.Role{goldOrg: authz.Owner}}
	s := &server{Deps: Deps{Links: testLinks(t), Address: "https://h"}}

	workspace := workspaces.Workspace{
		CurrentRun: goldRun,
		ID:         goldWS, Organization: goldOrg, OrganizationName: "acme", Project: "prj-1111111111111111", Name: "app", Description: "d",
		ExecutionMode: workspaces.Remote, TerraformVersion: "latest", AllowDestroyPlan: true, EnvironmentClass: workspaces.Other, FailedApply: workspaces.Hold, CreatedAt: at, UpdatedAt: later,
		Fence: fence.Status{Workspace: goldWS, Epoch: 7, Holder: fence.Holder{Kind: fence.Run, ID: string(goldRun)}, Reason: "the run", AcquiredAt: &at},
	}
	version := state.Version{
		ID: "sv-1111111111111111", Organization: goldOrg, Workspace: goldWS, Status: state.Finalized, Serial: 3, Lineage: "l-1", Size: 42, SHA256: "ab",
		TerraformVersion: "1.12.6", Run: goldRun, CreatedBy: goldAnn, JSONObject: "obj-1111111111111111", CreatedAt: at, FinalizedAt: &later,
		Resources: []state.Resource{{Mode: "managed", Type: "terraform_data", Name: "x", Provider: "p", Instances: 2}},
	}
	pending := state.Version{ID: "sv-2222222222222222", Workspace: goldWS, Status: state.Pending, Serial: 4, Lineage: "l-1", CreatedBy: goldAnn, CreatedAt: at}
	changes, epoch := true, int64(7)
	run := runs.Detail{
		Run: runs.Run{
			ID: goldRun, PlanID: "plan-1111111111111111", ApplyID: "apply-1111111111111111", OrganizationID: goldOrg, OrganizationName: "acme",
			WorkspaceID: goldWS, WorkspaceName: "app", Operation: runs.OperationApply, DurableStatus: runs.AwaitingApproval, Message: "m", Source: "terraform+cloud", CreatedBy: goldAnn,
			Refresh: true, TargetAddrs: []string{"a.b"}, ConfigurationVersionID: "cv-1111111111111111", TerraformVersion: "1.12.6", AdmittedAt: &at,
			FenceEpoch: &epoch, HasChanges: &changes, ResourceAdditions: 2, PlanFinishedAt: &later, ApprovalExpiresAt: &later, CreatedAt: at, PlanAttempt: dispatch.Finished,
		},
		History: []runs.HistoryEntry{
			{RunID: goldRun, FromStatus: runs.DispatchPending, ToStatus: runs.Queued, ActorKind: authz.UserActor, ActorID: string(goldAnn), At: at},
			{RunID: goldRun, FromStatus: runs.Queued, ToStatus: runs.Planning, ActorKind: authz.AttemptActor, ActorID: "att-1", At: at},
			{RunID: goldRun, FromStatus: runs.PolicyPassed, ToStatus: runs.AwaitingApproval, ActorKind: authz.SystemActor, ActorID: "holdfast", At: later},
		},
	}
	variable := workspaces.Variable{ID: "var-1111111111111111", Workspace: goldWS, Key: "k", Value: "v", Category: workspaces.Terraform}
	secret := variable
	secret.ID, secret.Sensitive, secret.Value = "var-2222222222222222", true, ""
	outputs, _ := newOutputViews([]state.Output{
		{ID: "wsout-1111111111111111", FileOutput: state.FileOutput{Name: "a", Value: json.RawMessage(`"x"`), Type: json.RawMessage(`"string"`)}},
		{ID: "wsout-2222222222222222", FileOutput: state.FileOutput{Name: "b", Value: json.RawMessage(`[1]`), Type: json.RawMessage(`["list","number"]`), Sensitive: true}},
	}, true)
	given := []runs.Variable{{Key: "v", Value: `"1"`, HCL: true}}

	stage := runs.Stage{ID: "stg-1111111111111111", RunID: goldRun, Kind: runs.PlanStage, Status: runs.StageSucceeded, AttemptID: "att-1111111111111111", CreatedAt: at, StartedAt: &at, FinishedAt: &later}
	waiting := runs.Stage{ID: "stg-2222222222222222", RunID: goldRun, Position: 1, Kind: runs.ApprovalStage, Status: runs.StagePending, CreatedAt: later}
	two, none := 2, 0
	attempt := dispatch.Attempt{
		ID: "att-1111111111111111", RunID: goldRun, Phase: authz.Plan, Status: dispatch.Finished, Outcome: "finished", ExitCode: &two, FenceEpoch: &epoch, RunnerID: "agent-1111111111111111",
		GroupID: "apool-1111111111111111", SandboxID: "sandbox", TofuVersion: "1.12.6", Manifest: []byte("m"), ManifestDigest: "cd", CreatedAt: at, AcceptedAt: &at, FinishedAt: &later,
	}
	receipt := runs.Receipt{
		ID: "rcpt-1111111111111111", RunID: goldRun, StageID: stage.ID, AttemptID: attempt.ID, Kind: runs.PlanStage, Result: runs.StageSucceeded, ExitCode: &two, HasChanges: &changes,
		ResourceAdditions: &two, ResourceChanges: &none, ResourceDestructions: &none, ResourceImports: &none, Digests: map[string]string{"plan": "ab"}, TofuVersion: "1.12.6", TofuDigest: "ef", StartedAt: at, FinishedAt: later,
	}
	review := runs.Review{
		Detail: run, Policy: &runs.PolicyCheck{ID: "polchk-1111111111111111", DurableStatus: "passed", InputDigest: "ab", ResultDigest: "cd", CompletedAt: &later},
		Approvals: []approvals.Entry{goldenApproval(later)},
		Requirement: &runs.Requirement{
			Rule: approvals.Rule{Mode: approvals.Manual, Required: 2, Reviewers: [][]ids.Team{{"team-1111111111111111"}}}, Given: 1, Missing: 1,
			Binding: approvals.Binding{Plan: "ab", Configuration: "cd", LockFile: "ef", Predecessor: "sv-1111111111111111", PredecessorSHA256: "ab", PolicyResult: "cd"},
		},
		Waits:     []runs.Arbitration{{WaitError: "e", RequestedAt: at, Outcome: runs.WaitPending, ArbitratedAt: &later}, {WaitError: "f", RequestedAt: later}},
		Resulting: runs.ResultingState{Status: runs.Recorded, Version: &version}, Stages: []runs.Stage{stage, waiting}, Attempts: []dispatch.Attempt{attempt}, Receipts: []runs.Receipt{receipt},
	}
	review.WorkflowDefinition, review.ApplicationBuildSHA = "run-lifecycle@abc", "def"
	byPolicy := goldenApproval(later)
	byPolicy.ReviewerID, byPolicy.Source, byPolicy.SpentAt = "", approvals.ByPolicy, &later
	held := heldSummary(recovery.Report{HeldSince: later, Before: &version, Publication: 1})

	checked := goldenCheck(run, at, later)
	return map[string]document{
		"policy-check":           {one: newPolicyCheckView(checked)},
		"policy-set-outcome":     {one: newSetOutcomeView(checked, 0), included: []view{newPolicyStageView(checked), newEvaluationView(checked)}},
		"policy-set":             {one: newPolicySetView(goldenSet(at, later)), included: []view{s.newSetVersionView(goldenVersion(at, later)), newParameterView(policies.Parameter{ID: "var-1111111111111111", Set: "polset-1111111111111111", Key: "k", Sensitive: true})}},
		"policy":                 {one: newPolicyView(policies.Policy{ID: "pol-1111111111111111", OrganizationName: "acme", Name: "p", Description: "d", Kind: policies.OPA, Query: "data.p.deny", Level: "mandatory", Path: "p.rego", ContentSealed: []byte{1}, UpdatedAt: later, Sets: 1})},
		"organization":           {one: newOrganizationView(ann, accounts.Organization{ID: goldOrg, Name: "acme", Email: "e@x.test", CreatedAt: at, UserTokensEnabled: true})},
		"user":                   {one: newUserView(ann, accounts.User{ID: goldAnn, Username: "ann", Email: "ann@x.test", CreatedAt: at})},
		"project":                {one: newProjectView(ann, workspaces.Project{ID: "prj-1111111111111111", Organization: goldOrg, Name: "P", CreatedAt: at})},
		"workspace":              {one: s.newWorkspaceView(ann, workspace)},
		"variables":              {many: []view{newVariableView(variable), newVariableView(secret)}, page: paging{1, 20}.of(2)},
		"state-version":          {one: s.newStateVersionView(version, false)},
		"state-version-pending":  {one: s.newStateVersionView(pending, true)},
		"outputs":                {many: views(outputs), page: paging{1, 2}.of(2)},
		"configuration-version":  {one: newConfigurationView(runs.Configuration{ID: "cv-1111111111111111", WorkspaceID: goldWS, Status: "errored", Error: "e", CreatedAt: at})},
		"run":                    {one: newRunView(ann, run, given), included: []view{s.newPlanView(ann, run), s.newApplyView(ann, run)}},
		"run-review":             {one: newReviewView(ann, review, held)},
		"run-approvals":          {many: []view{newApprovalView(goldenApproval(later)), newApprovalView(byPolicy)}, page: paging{1, 20}.of(2)},
		"approval-rule":          {one: newApprovalRuleView(approvals.Said{Place: approvals.Place{Organization: goldOrg, Workspace: goldWS}, Setting: approvals.Setting{Required: &two, Reviewers: []ids.Team{"team-1111111111111111"}}, Effective: review.Requirement.Rule})},
		"run-recovery":           {one: newRecoveryView(goldenEvidence(at))},
		"recovery-operation":     {one: newRecoveryOperationView(*goldenEvidence(at).Operation)},
		"run-stages":             {many: []view{newStageView(stage), newStageView(waiting)}, page: paging{1, 20}.of(2)},
		"run-attempts":           {many: []view{newAttemptView(attempt)}, page: paging{1, 20}.of(1)},
		"run-receipts":           {many: []view{newReceiptView(receipt, nil)}, page: paging{1, 20}.of(1)},
		"run-events":             {many: views(newRunEventViews(run, nil)), page: paging{1, 20}.of(4)},
		"organization-capacity":  {one: &capacityView{Organization: "acme", Pending: 1, Running: 2}},
		"entitlement-set":        {one: &entitlementsView{ID: "acme", Operations: true, StateStorage: true}},
		"empty-page-beyond-last": {page: paging{999, 20}.of(41)},
	}
}

func goldenApproval(at time.Time) approvals.Entry {
	return approvals.Entry{
		ID: "apv-1111111111111111", RunID: goldRun, PlanID: "plan-1111111111111111", Round: 1, ReviewerID: goldAnn, RequesterID: goldAnn, ReviewerTeams: []ids.Team{"team-1111111111111111"},
		Decision: approvals.Approved, Source: approvals.Native, Comment: "c", DecidedAt: at,
		Bound: approvals.Bound{PlanDigest: "ab", ConfigurationDigest: "cd", LockFileDigest: "ef", PredecessorVersionID: "sv-1111111111111111", PredecessorSHA256: "ab", PolicyResultDigest: "cd", BindingDigest: "01"},
	}
}

func goldenEvidence(at time.Time) recovery.Evidence {
	serial, next, later := int64(6), int64(5), at.Add(time.Minute)
	before := state.Version{ID: "sv-1111111111111111", Serial: 4, Lineage: "l-1", SHA256: "ab", Size: 3, ResourceCount: 2, HolderKind: "run", HolderID: "run-2222222222222222", Epoch: 6, CreatedAt: at, FinalizedAt: &at}
	return recovery.Evidence{
		Run:  runs.Run{ID: goldRun, WorkspaceID: goldWS, DurableStatus: runs.NeedsRecovery, DurableReason: "outcome_unknown", StatusMessage: "m", FinishedAt: &at, PredecessorVersionID: before.ID},
		Held: true, Epoch: 7, Before: &before, Current: &before,
		Uploads: []state.PendingUpload{{Version: state.Version{ID: "sv-2222222222222222", DeclaredSerial: 5}, ClaimedAt: &at, ExpiresAt: later}},
		Emergency: []recovery.Emergency{{
			ID: "es-1111111111111111", AttemptID: "att-1111111111111111", Size: 9, SHA256: "cd", Serial: &serial, Lineage: "l-1", ResourceCount: 3,
			NormalizedSerial: &next, NormalizedSize: 9, NormalizedSHA256: "ef", ReceivedAt: at,
		}},
		Writer: recovery.Writer{How: "not-proven", SessionEndsAt: &later, EmergencyEndsAt: &later}, LogTail: "Error\n",
		ImportRefused: fault.New(fault.Conflict, "authority_not_active", "d"),
		Operation: &recovery.Operation{
			ID: "rcv-1111111111111111", RunID: goldRun, WorkspaceID: goldWS, Status: recovery.Committed, Resolution: recovery.CurrentStateVerified, PrincipalID: goldAnn, Reason: "r",
			FromStatus: runs.ApplyFailed, CurrentVersionID: before.ID, CurrentSHA256: "ab", Overrides: []recovery.Override{{Upload: "sv-2222222222222222", ClaimedAt: at}},
			TargetVersionID: before.ID, TargetSHA256: "ab", LeaseExpiresAt: later, Takeovers: []recovery.TakeOver{{From: "user-2222222222222222", To: goldAnn, At: at}},
			PreparedAt: at, CommittedAt: &later, ReservationEpoch: 8,
		},
	}
}
