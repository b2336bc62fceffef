package evaluator

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	ctx    = context.Background()
	limits = Limits{Time: time.Minute, Budget: 30 * time.Second, Message: 2000}
)

// one is a bundle of one policy, named p, in one module.
func one(module string) Bundle {
	return Bundle{Rego: V1, Modules: []Module{{Path: "p.rego", Content: module}}, Policies: []Policy{{Name: "p", Query: "data.p.deny", Level: Mandatory}}}
}

func wantRefused(t *testing.T, b Bundle, says ...string) {
	t.Helper()
	v := publish(ctx, b, limits)
	require.NotEmpty(t, v.Errors)
	all := strings.Join(v.Errors, "\n")
	for _, text := range says {
		assert.Contains(t, all, text)
	}
}

// TestOutOfReach: nothing that would make a result depend on anything but the input compiles.
func TestOutOfReach(t *testing.T) {
	for name, body := range map[string]string{
		"http.send":          `http.send({"method": "get", "url": "http://localhost/"}).status_code == 200`,
		"net.lookup_ip_addr": `net.lookup_ip_addr("localhost") != set()`,
		"opa.runtime":        `opa.runtime().env.PATH != ""`,
		"rand.intn":          `rand.intn("a", 5) == 1`,
		"time.now_ns":        `time.now_ns() > 0`,
		"uuid.rfc4122":       `uuid.rfc4122("a") != ""`,
		"rego.parse_module":  `rego.parse_module("a", "package a") != {}`,
		"trace":              `trace("a")`,
		"crypto.x509.parse_and_verify_certificates":              `crypto.x509.parse_and_verify_certificates("a")[0]`,
		"crypto.x509.parse_and_verify_certificates_with_options": `crypto.x509.parse_and_verify_certificates_with_options("a", {})[0]`,
		"io.jwt.decode_verify": `[ok, _, _] := io.jwt.decode_verify("a", {})
			ok`,
	} {
		wantRefused(t, one("package p\n\ndeny contains \"x\" if {\n\t"+body+"\n}\n"), name)
	}
	for _, b := range capabilities().Builtins {
		assert.False(t, b.IsNondeterministic(), b.Name)
	}
	assert.NotNil(t, capabilities().AllowNet, "nil would allow every host")
	assert.Empty(t, capabilities().AllowNet)
}

func TestPublicationRefusesWhatCannotBeJudgedBy(t *testing.T) {
	wantRefused(t, one("package p\n\ndeny contains if {"), "p.rego")
	wantRefused(t, one("package p\n\ndeny contains x if x := undefined_function(1)\n"), "undefined_function")
	wantRefused(t, one("package p\n\nother := 1\n"), `policy "p"`, "names no rule")
	wantRefused(t, Bundle{Rego: V1}, "no policy")
	b := one("package p\n\ndeny := []\n")
	for _, query := range []string{"", "1 == 1", "data", "data.p.deny; data.p.deny", "not data.p.deny", "data.p[x]"} {
		b.Policies[0].Query = query
		wantRefused(t, b, "must name one rule")
		assert.False(t, publish(ctx, b, limits).Unanswered, "no module could answer %q", query)
	}
	for _, query := range []string{"data.p", "input.x", "p.deny"} {
		b.Policies[0].Query = query
		wantRefused(t, b, "names no rule")
		assert.True(t, publish(ctx, b, limits).Unanswered, "that is all that is wrong with %q", query)
	}
	b.Modules[0].Content += "\ntest_it if count(deny) == 1\n"
	assert.False(t, publish(ctx, b, limits).Unanswered, "a test fails besides")
}

// TestPublicationRunsTheBundlesOwnTests: what fails is named with its place.
func TestPublicationRunsTheBundlesOwnTests(t *testing.T) {
	b := one("package p\n\ndeny contains \"big\" if input.plan.size > 3\n")
	b.Modules = append(b.Modules, Module{Path: "p_test.rego", Content: "package p\n\ntest_big if \"big\" in deny with input as {\"plan\": {\"size\": 4}}\n\ntest_small if count(deny) == 0 with input as {\"plan\": {\"size\": 3}}\n"})
	v := publish(ctx, b, limits)
	assert.Empty(t, v.Errors)
	assert.Equal(t, 2, v.Tests)

	b.Modules[0].Content = "package p\n\ndeny contains \"big\" if input.plan.size > 2\n"
	wantRefused(t, b, "p_test.rego:5", "test_small", "fails")
}

// TestBothSyntaxes: a bundle is read in the syntax that its set says.
func TestBothSyntaxes(t *testing.T) {
	old := one("package p\n\ndeny[msg] {\n\tinput.plan.x == 1\n\tmsg := \"one\"\n}\n")
	wantRefused(t, old, "p.rego")
	old.Rego = V0
	assert.Empty(t, publish(ctx, old, limits).Errors)
	outcomes, err := evaluate(ctx, old, nil, strings.NewReader(`{"plan":{"x":1}}`), limits)
	require.NoError(t, err)
	assert.Equal(t, []Violation{{Rule: "deny", Message: "one"}}, outcomes[0].Violations)
}

// TestPoliciesByThemselvesDoNotMeet: modules of two policies may even have the same package.
func TestPoliciesByThemselvesDoNotMeet(t *testing.T) {
	b := Bundle{
		Rego:    V1,
		Modules: []Module{{Path: "a/x.rego", Content: "package p\n\ndeny := [\"a\"]\n"}, {Path: "b/x.rego", Content: "package p\n\ndeny := []\n"}},
		Policies: []Policy{
			{Name: "a", Query: "data.p.deny", Level: Mandatory, Only: "a/x.rego"}, {Name: "b", Query: "data.p.deny", Level: Mandatory, Only: "b/x.rego"},
		},
	}
	assert.Empty(t, publish(ctx, b, limits).Errors)
	outcomes, err := evaluate(ctx, b, nil, strings.NewReader(`{}`), limits)
	require.NoError(t, err)
	assert.Equal(t, []Status{Failed, Passed}, []Status{outcomes[0].Status, outcomes[1].Status})
}

// TestTheExamplesArePublishable: they compile here, and every one of their tests passes.
func TestTheExamplesArePublishable(t *testing.T) {
	v := publish(ctx, examples(t), limits)
	assert.Empty(t, v.Errors)
	assert.Greater(t, v.Tests, 30)
}

func examples(t testing.TB) Bundle {
	t.Helper()
	files, err := filepath.Glob("../../examples/policies/guardrails/*.rego")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	b := Bundle{Rego: V1}
	for _, name := range []string{"public_buckets", "open_ports", "protected_resources", "required_tags", "deletion_limit", "pinned_modules"} {
		b.Policies = append(b.Policies, Policy{Name: name, Query: "data.terraform.policies." + name + ".deny", Level: Mandatory})
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		b.Modules = append(b.Modules, Module{Path: filepath.Base(file), Content: string(content)})
	}
	return b
}
