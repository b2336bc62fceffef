package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slowPolicies is how many applies meet a slow evaluator; fifty take a few minutes.
var slowPolicies = flag.Int("slow-policies", 10, "applies with a slow policy")

// policySet publishes a set with these files for some workspaces.
func (s *stack) policySet(t *testing.T, name string, files map[string]string, workspaces ...*tfe.Workspace) *tfe.PolicySet {
	t.Helper()
	set, err := s.api.PolicySets.Create(ctx, s.environ["TF_CLOUD_ORGANIZATION"], tfe.PolicySetCreateOptions{Name: &name, Kind: tfe.OPA, Workspaces: workspaces})
	require.NoError(t, err)
	version, err := s.api.PolicySetVersions.Create(ctx, set.ID)
	require.NoError(t, err)
	dir := t.TempDir()
	for file, content := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
	}
	require.NoError(t, s.api.PolicySetVersions.Upload(ctx, *version, dir))
	version, err = s.api.PolicySetVersions.Read(ctx, version.ID)
	require.NoError(t, err)
	require.Equal(t, tfe.PolicySetVersionReady, version.Status, version.ErrorMessage)
	return set
}

func policyFile(level string) string {
	return fmt.Sprintf("policy \"words\" {\n  query = \"data.words.deny\"\n  enforcement_level = %q\n}\n", level)
}

// words is a policy that forbids an input of terraform_data.
const words = `package words

deny contains {"address": change.address, "msg": sprintf("the word %q is not for here", [change.change.after.input])} if {
	some change in input.plan.resource_changes
	change.change.after.input == "forbidden"
}
`

func TestAPolicyForbidsAPlan(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `
		variable "word" {}
		resource "terraform_data" "a" { input = var.word }`)
	f.init()
	shared.policySet(t, workspaceName(t), map[string]string{"policies.hcl": policyFile("mandatory"), "words.rego": words}, f.current())

	for _, args := range [][]string{{"plan"}, {"apply", "-auto-approve"}, {"apply", "-input=false"}} {
		r := f.tofu(append(args, "-var", "word=forbidden")...)
		assert.Equal(t, 1, r.code, r.said)
		for _, text := range []string{"words", "terraform_data.a", "rule deny", `the word "forbidden" is not for here`, "hard failed"} {
			assert.Contains(t, r.said, text, args)
		}
		facts := shared.runFacts(t, runIn(t, r.said))
		assert.Equal(t, "errored", facts.Status)
		assert.Equal(t, "policy_failed", facts.DurableStatus)
		assert.Equal(t, "policy_denied", facts.DurableReason)
		page := shared.get(t, fmt.Sprintf("/app/%s/%s/runs/%s", shared.environ["TF_CLOUD_ORGANIZATION"], f.workspace, runIn(t, r.said)))
		assert.Contains(t, page.body, "FAILED   words (mandatory)")
		assert.Contains(t, page.body, "terraform_data.a: rule deny")
	}
	assert.Empty(t, f.tofu("state", "list").stdout)
	assert.False(t, f.current().Locked, "the workspace is free again")

	r := f.answering("yes", "apply", "-var", "word=fine")
	require.Equal(t, 0, r.code, r.said)
	assert.Contains(t, r.said, "1 passed")
	assert.Contains(t, r.said, "Apply complete! Resources: 1 added")
}

func TestAnAdvisoryPolicySaysSo(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `resource "terraform_data" "a" { input = "forbidden" }`)
	f.init()
	shared.policySet(t, workspaceName(t), map[string]string{"policies.hcl": policyFile("advisory"), "words.rego": words}, f.current())
	planned := f.ok("plan")
	assert.Contains(t, planned, "terraform_data.a: rule deny")
	said := f.ok("apply", "-auto-approve")
	assert.Contains(t, said, "terraform_data.a: rule deny")
	assert.Contains(t, said, "what failed is advisory")
	assert.Contains(t, said, "Apply complete! Resources: 1 added")
}

// slowWords is a policy that allows everything, after a while.
const slowWords = `package words

deny contains "never" if {
	some i in numbers.range(1, 500)
	some j in numbers.range(1, 500)
	i * j < 0
}
`

// TestASlowEvaluatorNeverEndsAnApplySilently: a client that asks too early finds that the run
// cannot be confirmed, and would end with exit code 0 and nothing applied. It never does.
func TestASlowEvaluatorNeverEndsAnApplySilently(t *testing.T) {
	t.Parallel()
	for i := range *slowPolicies {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			f := newFolder(t, shared, `resource "terraform_data" "a" { input = "fine" }`)
			f.init()
			shared.policySet(t, workspaceName(t), map[string]string{"policies.hcl": policyFile("mandatory"), "words.rego": slowWords}, f.current())
			r := f.answering("yes", "apply")
			assert.Zero(t, r.code, r.said)
			assert.Contains(t, r.said, "1 passed")
			assert.Contains(t, r.said, "Apply complete! Resources: 1 added", "a silent end")
		})
	}
}

// neverEnds would compute for longer than anybody waits.
const neverEnds = `package words

deny contains "never" if {
	some i in numbers.range(1, 1000000)
	some j in numbers.range(1, 1000000)
	i * j < 0
}
`

// greedy wants some four gigabytes at once.
const greedy = `package words

deny contains "never" if {
	kilobyte := concat("", ["xxxxxxxx" | some i in numbers.range(1, 128)])
	megabyte := concat("", [kilobyte | some i in numbers.range(1, 1024)])
	all := [concat("", [megabyte, sprintf("%d", [i])]) | some i in numbers.range(1, 4096)]
	count(all) == 0
}
`

// TestHostilePoliciesStopTheirOwnRunsOnly: one that never ends and one that wants all memory are stopped, each
// run fails with what stopped it, and another run goes on meanwhile.
func TestHostilePoliciesStopTheirOwnRunsOnly(t *testing.T) {
	t.Parallel()
	named := func(suffix string) *folder {
		f := newFolder(t, shared, `resource "terraform_data" "a" {}`)
		f.workspace += suffix
		f.write("cloud.tf", strings.ReplaceAll(fmt.Sprintf("terraform {\n  cloud {\n    workspaces {\n      name = %q\n    }\n  }\n}\n", f.workspace), "\t", ""))
		f.init()
		return f
	}
	var ended []chan result
	for i, policy := range []string{neverEnds, greedy} {
		f, end := named(fmt.Sprintf("-%d", i)), make(chan result, 1)
		shared.policySet(t, f.workspace, map[string]string{"policies.hcl": policyFile("mandatory"), "words.rego": policy}, f.current())
		ended = append(ended, end)
		go func() { end <- f.tofu("apply", "-auto-approve") }()
	}
	assert.Contains(t, named("-other").ok("apply", "-auto-approve"), "Apply complete! Resources: 1 added")
	for _, end := range ended {
		r := <-end
		assert.Equal(t, 1, r.code, r.said)
		assert.Contains(t, r.said, "was stopped", "by its time or its memory, whichever is over first")
		assert.Equal(t, "policy_errored", shared.runFacts(t, runIn(t, r.said)).DurableReason)
	}
}
