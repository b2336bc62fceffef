package cli

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// owner is a person with a token of its own in the desk's organization.
type owner struct {
	*tfe.Client
	token string
}

func (d *desk) owner(name string) owner {
	d.t.Helper()
	cmd := exec.Command(program("holdfast"), "admin", "users", "create", name+"-"+strings.ToLower(rand()), "--org", d.organization, "--role", "owner")
	cmd.Env = plainEnviron()
	for key, value := range shared.environ {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	token, err := cmd.Output()
	require.NoError(d.t, err)
	o := owner{token: strings.TrimSpace(string(token))}
	o.Client, err = tfe.NewClient(&tfe.Config{Address: shared.environ["TFE_ADDRESS"], Token: o.token, HTTPClient: shared.http})
	require.NoError(d.t, err)
	return o
}

// call sends a document of our own extensions.
func call(t *testing.T, token, method, path, body string, status int) string {
	t.Helper()
	return send(t, token, method, "/api/v2/"+path, body, status)
}

// page is what somebody with a token sees of a run in a browser.
func (d *desk) page(run string) string {
	d.t.Helper()
	return html.UnescapeString(send(d.t, shared.environ["TFE_TOKEN"], http.MethodGet, "/app/"+d.organization+"/w/runs/"+run, "", http.StatusOK))
}

func send(t *testing.T, token, method, path, body string, status int) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, shared.environ["TFE_ADDRESS"]+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/vnd.api+json")
	response, err := shared.http.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, status, response.StatusCode, "%s", text)
	return string(text)
}

// rule sets what the approvals of the workspace w need.
func (d *desk) rule(attributes string) {
	d.t.Helper()
	call(d.t, shared.environ["TFE_TOKEN"], http.MethodPatch, "workspaces/"+d.workspace("w").ID+"/approval-rule",
		fmt.Sprintf(`{"data":{"type":"approval-rules","attributes":{%s}}}`, attributes), http.StatusOK)
}

// Show 2 with a real tofu: the requester's "yes" is refused with the reason and the run stays open; two
// others approve, and it is applied.
func TestTheYesOfAnExcludedRequesterIsRefused(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)
	d.rule(`"required-approvals":2,"exclude-requester":true`)
	eve, dan := d.owner("eve"), d.owner("dan")
	const wants = "2 approvals, none of them the requester's"
	f.failsTalk([]turn{{prompt, "yes"}}, []string{
		"This plan waits for " + wants + ", for 7 days at most.",
		"Failed to approve the apply command", "separate_approver_required", "must be approved by somebody else", "it waits for " + wants, "It stays open until somebody decides.",
	}, "apply", "-var=n=1")
	run := d.newest()
	require.Equal(t, tfe.RunPlanned, run.Status)
	require.True(t, d.workspace("w").Locked, "it keeps its workspace")
	for _, shown := range []string{wants + "; 2 missing", "Until", run.ID + "/actions/approve"} {
		assert.Contains(t, d.page(run.ID), shown)
	}

	call(t, eve.token, http.MethodPost, "runs/"+run.ID+"/actions/approve", `{"comment":"I have looked"}`, http.StatusOK)
	assert.Contains(t, call(t, eve.token, http.MethodPost, "runs/"+run.ID+"/actions/approve", "", http.StatusConflict), "already_decided")
	require.Equal(t, tfe.RunPlanned, d.newest().Status)
	for _, shown := range []string{wants + "; 1 missing", "by eve-", "I have looked"} {
		assert.Contains(t, d.page(run.ID), shown)
	}
	require.NoError(t, dan.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	require.Eventually(t, func() bool { return d.newest().Status == tfe.RunApplied }, patience, 100*time.Millisecond)
	assert.Equal(t, "1", f.output("n"))
	records := call(t, shared.environ["TFE_TOKEN"], http.MethodGet, "runs/"+run.ID+"/approvals", "", http.StatusOK)
	assert.Equal(t, 2, strings.Count(records, `"decision":"approved"`), records)
	assert.Contains(t, records, "I have looked")
	assert.NotContains(t, d.page(run.ID), "missing")
}

// Who has said yes as one of two waits, and learns how it ends: applied is 0, and everything else is 1 (§3.4).
func TestAClientWaitsForTheOtherApprovals(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)
	d.rule(`"required-approvals":2`)
	eve := d.owner("eve")
	says := func(args ...string) *session {
		s := f.start(append([]string{"apply"}, args...)...)
		s.await(prompt)
		_, err := s.stdin.Write([]byte("yes\n"))
		require.NoError(t, err)
		s.await("Waiting for the apply to start")
		return s
	}
	s := says("-var=n=1")
	run := d.newest()
	require.Equal(t, tfe.RunConfirmed, run.Status)
	apply, err := shared.api.Applies.Read(ctx, run.Apply.ID)
	require.NoError(t, err)
	require.Equal(t, tfe.ApplyPending, apply.Status)
	require.NoError(t, eve.Runs.Apply(ctx, run.ID, tfe.RunApplyOptions{}))
	r := s.end()
	require.Equal(t, 0, r.code, r.said)
	assert.Contains(t, r.said, "Apply complete! Resources: 1 added, 0 changed, 0 destroyed.")
	assert.Equal(t, "1", f.output("n"))

	s = says("-var=n=2")
	require.NoError(t, eve.Runs.Discard(ctx, d.newest().ID, tfe.RunDiscardOptions{}))
	r = s.end()
	assert.Equal(t, 1, r.code, r.said)
	assert.NotContains(t, r.said, "Apply complete")
	assert.Equal(t, "1", f.output("n"))
}

// Under a rule that wants a person, -auto-approve asks for the apply and decides nothing: the client waits.
func TestAutoApproveWaitsForAPerson(t *testing.T) {
	t.Parallel()
	d, f := inCloudWorkspace(t, numbered)
	d.rule(`"mode":"manual"`)
	for n, decide := range map[string]func(run string) int{
		"1": func(run string) int {
			require.NoError(t, shared.api.Runs.Apply(ctx, run, tfe.RunApplyOptions{}))
			return 0
		},
		"2": func(run string) int {
			require.NoError(t, shared.api.Runs.Discard(ctx, run, tfe.RunDiscardOptions{}))
			return 1
		},
	} {
		s := f.start("apply", "-auto-approve", "-var=n="+n)
		s.await("Plan:")
		var run *tfe.Run
		require.Eventually(t, func() bool { run = d.newest(); return run.Status == tfe.RunPlanned && run.AutoApply }, patience, 100*time.Millisecond)
		code := decide(run.ID)
		r := s.end()
		assert.Equal(t, code, r.code, r.said)
		assert.Equal(t, code == 0, strings.Contains(r.said, "Apply complete!"), r.said)
	}
}
