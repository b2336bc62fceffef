package evaluator

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func judge(t *testing.T, b Bundle, input string) []Outcome {
	t.Helper()
	outcomes, err := evaluate(ctx, b, map[string]string{"size": "large"}, strings.NewReader(input), limits)
	require.NoError(t, err)
	return outcomes
}

const changes = `{"plan":{"resource_changes":[{"address":"a.b"},{"address":"a.b[\"x\"]"}]},"run":{"id":"run-1"}}`

func TestViolationsNameRuleAddressAndMessage(t *testing.T) {
	for body, want := range map[string]Violation{
		`deny contains "the bucket a.b is public"`:                                  {"deny", "a.b", "the bucket a.b is public"},
		`deny contains "it is a.b[\"x\"] here"`:                                     {"deny", `a.b["x"]`, `it is a.b["x"] here`},
		`deny contains "too many"`:                                                  {"deny", "", "too many"},
		`deny contains {"msg": "m", "address": "c.d"}`:                              {"deny", "c.d", "m"},
		`deny contains {"message": "m", "resource": "c.d", "rule": "tags"}`:         {"tags", "c.d", "m"},
		`deny contains {"strange": 1}`:                                              {"deny", "", `{"strange":1}`},
		`deny contains sprintf("%s %s", [input.run.id, input.params.size])`:         {"deny", "", "run-1 large"},
		"deny := [\"a list\"]":                                                      {"deny", "", "a list"},
		`deny contains concat("", ["x" | some i in numbers.range(1, 3000); i > 0])`: {"deny", "", strings.Repeat("x", 2000) + "…"},
	} {
		outcomes := judge(t, one("package p\n\n"+body+"\n"), changes)
		require.Len(t, outcomes[0].Violations, 1, body)
		assert.Equal(t, want, outcomes[0].Violations[0], body)
		assert.Equal(t, Failed, outcomes[0].Status)
	}
}

// TestOnlyAnEmptyListAllows: what has no value, or another one, is an error and never an approval.
func TestOnlyAnEmptyListAllows(t *testing.T) {
	for body, want := range map[string]Status{
		`deny contains "x" if input.nothing`:                Passed,
		`deny := []`:                                        Passed,
		`deny := ["x"] if input.nothing`:                    Errored,
		`deny := true`:                                      Errored,
		`deny := false`:                                     Errored,
		`deny := {"a": 1}`:                                  Errored,
		`deny contains "x" if to_number("x") == 1`:          Passed,  // as in OPA, an error of a built-in function is undefined
		"deny := 1 if input.run\n\ndeny := 2 if input.plan": Errored, // two values conflict
	} {
		outcomes := judge(t, one("package p\n\n"+body+"\n"), changes)
		assert.Equal(t, want, outcomes[0].Status, body)
		assert.Equal(t, want == Errored, outcomes[0].Error != "", body)
	}
}

// forever computes for longer than anybody waits.
const forever = "deny contains \"x\" if {\n\tsome i in numbers.range(1, 100000)\n\tsome j in numbers.range(1, 100000)\n\ti * j == -1\n}\n"

// TestABudgetEndsOnePolicy: its neighbours are judged all the same.
func TestABudgetEndsOnePolicy(t *testing.T) {
	b := Bundle{Rego: V1, Modules: []Module{{Path: "p.rego", Content: "package p\n\n" + forever}, {Path: "q.rego", Content: "package q\n\ndeny contains \"no\"\n"}}}
	b.Policies = []Policy{{Name: "p", Query: "data.p.deny", Level: Mandatory}, {Name: "q", Query: "data.q.deny", Level: Mandatory}}
	short := limits
	short.Budget = 2 * time.Second
	outcomes, err := evaluate(ctx, b, nil, strings.NewReader(changes), short)
	require.NoError(t, err)
	assert.Equal(t, Errored, outcomes[0].Status)
	assert.Contains(t, outcomes[0].Error, "2s")
	assert.Equal(t, Failed, outcomes[1].Status)
}

func TestWhatIsKeptIsBounded(t *testing.T) {
	outcomes := judge(t, one("package p\n\ndeny contains sprintf(\"%d\", [i]) if {\n\tsome i in numbers.range(1, 250)\n\tprint(\"at\", i)\n}\n"), changes)
	assert.Len(t, outcomes[0].Violations, mostViolations)
	assert.Equal(t, 150, outcomes[0].More)
	assert.Len(t, outcomes[0].Prints, mostPrints)
	assert.Equal(t, "at 1", outcomes[0].Prints[0])
}

func TestADerivativeThatIsNone(t *testing.T) {
	for _, body := range []string{"", "[]", "{"} {
		_, err := evaluate(ctx, one("package p\n\ndeny := []\n"), nil, strings.NewReader(body), limits)
		assert.Error(t, err, body)
	}
}
