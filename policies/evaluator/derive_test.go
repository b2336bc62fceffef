package evaluator

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// derived is the derivative of a plan, and the same as text.
func derived(t *testing.T, plan string, sensitive ...string) (map[string]any, string) {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, derive(strings.NewReader(plan+plan), &out, json.RawMessage(`{"id":"run-1"}`), Secrets{Variables: sensitive}))
	var document map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &document))
	return document, out.String()
}

// TestDeriveOfARealPlan: testdata/plan.json is what `tofu show -json` says of a configuration
// with secrets at every place: variables, nested values, lists, triggers, a module, outputs,
// literals, a provisioner.
func TestDeriveOfARealPlan(t *testing.T) {
	plan, err := os.ReadFile("testdata/plan.json")
	require.NoError(t, err)
	require.GreaterOrEqual(t, strings.Count(string(plan), "S3CRET"), 10, "the plan itself is full of them")
	document, text := derived(t, string(plan), "token") // token is marked in the workspace alone
	assert.NotContains(t, text, "S3CRET")
	for _, kept := range []string{"visible-name", "visible-first", "visible-open", "visible-output", "visible-child", "module.child.terraform_data.inner", "run-1"} {
		assert.Contains(t, text, kept)
	}
	inner := document["plan"].(map[string]any)
	assert.Equal(t, map[string]any{"size": map[string]any{"value": "5"}}, inner["variables"])
	assert.NotContains(t, inner["configuration"], "provider_config")
	assert.Contains(t, text, `"references"`, "what refers to what stays")
}

// TestDeriveIsTheSameEachTime: a digest of it can be bound.
func TestDeriveIsTheSameEachTime(t *testing.T) {
	plan, err := os.ReadFile("testdata/plan.json")
	require.NoError(t, err)
	_, first := derived(t, string(plan))
	_, second := derived(t, string(plan))
	assert.Equal(t, first, second)
}

// TestDeriveLeavesOutWhatNobodyLookedAt: providers, and what a newer OpenTofu may write.
func TestDeriveLeavesOutWhatNobodyLookedAt(t *testing.T) {
	_, text := derived(t, `{
		"format_version": "1.2", "invented": {"x": "S3CRET"},
		"configuration": {"provider_config": {"aws": {"expressions": {"secret_key": {"constant_value": "S3CRET"}}}}, "root_module": {
			"variables": {"a": {"default": "S3CRET"}}, "resources": [{"address": "a.b", "expressions": {"password": {"constant_value": "S3CRET"}, "x": {"references": ["var.a"]}}, "provisioners": [{"x": "S3CRET"}]}]}},
		"resource_changes": [{"address": "a.b", "invented": "S3CRET", "change": {"actions": ["create"], "after": {"x": 1}, "generated_config": "S3CRET", "before_identity": {"id": "S3CRET"}}}],
		"prior_state": {"values": {"outputs": {"o": {"sensitive": true, "value": "S3CRET"}}, "root_module": {"resources": [{"address": "a.b", "values": {"p": "S3CRET", "q": 12345678901234567890}, "sensitive_values": {"p": true}}]}}}
	}`)
	assert.NotContains(t, text, "S3CRET")
	assert.Contains(t, text, "var.a")
	assert.Contains(t, text, "12345678901234567890", "numbers are not rounded")
}

// TestDeriveLeavesOutWhatIsKnownToBeSecret: nobody marks it in the plan.
func TestDeriveLeavesOutWhatIsKnownToBeSecret(t *testing.T) {
	const key = "-----BEGIN KEY-----\nS3CRET\n-----END KEY-----"
	plan, err := json.Marshal(map[string]any{"resource_changes": []any{map[string]any{"address": "a.b", "change": map[string]any{
		"actions": []string{"create"}, "after": map[string]any{"file": key, "script": "echo '" + key + "' > x", "env": "S3CRET-env", "open": "visible"},
	}}}})
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, derive(strings.NewReader(string(plan)+string(plan)), &out, nil, Secrets{Values: []string{key + "\n", "S3CRET-env"}}))
	assert.NotContains(t, out.String(), "S3CRET")
	assert.Contains(t, out.String(), "visible")
}

func TestMask(t *testing.T) {
	for _, test := range []struct{ name, value, mask, want string }{
		{"nothing marked", `{"a":1,"b":[1]}`, `{"b":[false]}`, `{"a":1,"b":[1]}`},
		{"no mask", `{"a":1}`, `null`, `{"a":1}`},
		{"a member", `{"a":1,"b":2}`, `{"a":true}`, `{"b":2}`},
		{"a member that is not there", `{"b":2}`, `{"a":true}`, `{"b":2}`},
		{"inside", `{"a":{"x":1,"y":2}}`, `{"a":{"x":true}}`, `{"a":{"y":2}}`},
		{"in a list: the others keep their places", `[1,2,3]`, `[false,true]`, `[1,null,3]`},
		{"in a list of objects", `[{"a":1},{"a":2}]`, `[{},{"a":true}]`, `[{"a":1},{}]`},
		{"an object for a null", `null`, `{"a":true}`, `null`},
		{"an object for a text", `"secret"`, `{"a":true}`, ``},
		{"a list for an object", `{"a":"secret"}`, `[true]`, ``},
		{"more marks than items", `["secret"]`, `[true,true]`, ``},
		{"marks that mark nothing do not matter", `"text"`, `{"a":false}`, `"text"`},
		{"everything", `{"a":1}`, `true`, ``},
		{"a strange mask", `{"a":1}`, `"yes"`, ``},
	} {
		var value, marks any
		require.NoError(t, json.Unmarshal([]byte(test.value), &value))
		require.NoError(t, json.Unmarshal([]byte(test.mask), &marks))
		c := &cleaner{secrets: map[string]bool{}}
		masked, keep := c.mask(value, marks)
		if test.want == "" {
			assert.False(t, keep, test.name)
			continue
		}
		require.True(t, keep, test.name)
		got, err := json.Marshal(masked)
		require.NoError(t, err)
		assert.JSONEq(t, test.want, string(got), test.name)
	}
}

func TestDeriveRefusesWhatIsNoPlan(t *testing.T) {
	for _, plan := range []string{"", "[]", "{", `{"resource_changes": [}`, `{"invented": `, `"plan"`} {
		err := derive(strings.NewReader(plan+plan), &bytes.Buffer{}, nil, Secrets{})
		assert.ErrorIs(t, err, errNotAPlan, plan)
	}
}
