package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// redacted gives before, after and after_unknown of a change once it was redacted.
func redacted(t *testing.T, text string) string {
	t.Helper()
	var c change
	require.NoError(t, json.Unmarshal([]byte(text), &c))
	require.NoError(t, c.redact())
	return fmt.Sprintf("%s %s %s", c["before"], c["after"], c["after_unknown"])
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ change, want string }{
		"nothing sensitive": {
			`{"before":{"b":1.0,"a":"x"},"after":null,"after_unknown":false,"before_sensitive":{"a":false},"after_sensitive":false}`,
			`{"b":1.0,"a":"x"} null false`,
		},
		"created": {
			`{"before":null,"after":{"a":"hunter2","b":"open"},"after_unknown":{"id":true},"before_sensitive":false,"after_sensitive":{"a":true}}`,
			`null {"a":"(sensitive value 1)","b":"open"} {"id":true}`,
		},
		"changed, and the same": {
			`{"before":{"a":"hunter2","b":"hunter3","n":5,"t":true,"z":null},"after":{"a":"hunter2","b":"hunter4","n":7,"t":false,"z":"hunter5"},
			  "after_unknown":{},"before_sensitive":{"a":true,"b":true,"n":true,"t":true,"z":true},"after_sensitive":{"a":true,"b":true,"n":true,"t":true,"z":true}}`,
			`{"a":"(sensitive value 1)","b":"(sensitive value 1)","n":1,"t":false,"z":null} ` +
				`{"a":"(sensitive value 1)","b":"(sensitive value 2)","n":2,"t":true,"z":"(sensitive value 1)"} {}`,
		},
		"a value that becomes sensitive is hidden where it was not": {
			`{"before":{"a":"hunter2"},"after":{"a":"hunter2"},"after_unknown":{},"before_sensitive":{},"after_sensitive":{"a":true}}`,
			`{"a":"(sensitive value 1)"} {"a":"(sensitive value 1)"} {}`,
		},
		"a sensitive map tells neither names nor counts": {
			`{"before":{"m":{"hunter2":"x"}},"after":{"m":{"hunter3":"x","y":"z"}},"after_unknown":{"m":{"hunter3":true}},"before_sensitive":{"m":true},"after_sensitive":{"m":true}}`,
			`{"m":{}} {"m":{}} {"m":true}`,
		},
		"a sensitive map that stays": {
			`{"before":{"m":{"hunter2":"x"}},"after":{"m":{"hunter2":"x"}},"after_unknown":{"m":{}},"before_sensitive":{"m":true},"after_sensitive":{"m":true}}`,
			`{"m":{}} {"m":{}} {"m":false}`,
		},
		"a sensitive list": {
			`{"before":{"l":["hunter2","hunter3"]},"after":{"l":["hunter2"]},"after_unknown":{},"before_sensitive":{"l":true},"after_sensitive":{"l":true}}`,
			`{"l":["(sensitive value 1)"]} {"l":["(sensitive value 1)"]} {"l":true}`,
		},
		"elements of a list go by their own side": {
			`{"before":{"l":["a","b"]},"after":{"l":["hunter2","a","b"]},"after_unknown":{},"before_sensitive":{"l":[false,false]},"after_sensitive":{"l":[true,false,false]}}`,
			`{"l":["a","b"]} {"l":["(sensitive value 1)","a","b"]} {}`,
		},
		"blocks": {
			`{"before":{"b":[{"k":"hunter2","o":"x"}]},"after":{"b":[{"k":"hunter3","o":"x"}]},"after_unknown":{},"before_sensitive":{"b":[{"k":true}]},"after_sensitive":{"b":[{"k":true}]}}`,
			`{"b":[{"k":"(sensitive value 1)","o":"x"}]} {"b":[{"k":"(sensitive value 2)","o":"x"}]} {}`,
		},
		"an output": {
			`{"before":"hunter2","after":{"a":"hunter3"},"after_unknown":false,"before_sensitive":true,"after_sensitive":true}`,
			`"(sensitive value 1)" {} true`,
		},
		"an empty text counts as none": {
			`{"before":{"a":""},"after":{"a":"hunter2"},"after_unknown":{},"before_sensitive":{"a":true},"after_sensitive":{"a":true}}`,
			`{"a":""} {"a":"(sensitive value 1)"} {}`,
		},
		"not yet known": {
			`{"before":{"a":"hunter2"},"after":{},"after_unknown":{"a":true},"before_sensitive":{"a":true},"after_sensitive":{"a":true}}`,
			`{"a":"(sensitive value 1)"} {} {"a":true}`,
		},
	} {
		got := redacted(t, row.change)
		assert.Equal(t, row.want, got, name)
		assert.NotContains(t, got, "hunter", name)
	}
}

// resources is the JSON of a plan with n resources, each with a secret.
func resources(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"format_version":"1.2","planned_values":{"a":[1,{"b":"}"}]},"resource_drift":[`)
	change := func(i int, mode, action string) {
		fmt.Fprintf(&b, `{"address":"%s.r[%d]","mode":%q,"type":"thing","provider_name":"p","change":{"actions":[%q],"before":null,"after":{"s":"hunter2"},"after_sensitive":{"s":true}}}`, mode, i, mode, action)
	}
	change(0, "managed", "update")
	b.WriteString(`],"resource_changes":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		change(i, []string{"managed", "data"}[i%2], []string{"create", "read", "delete", "read", "update", "read", "no-op", "read"}[i%8])
	}
	b.WriteString(`],"prior_state":{},"relevant_attributes":[{"resource":"r","attribute":["x"]}]}`)
	return b.Bytes()
}

func TestRedactChanges(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	digest, err := redactChanges(bytes.NewReader(resources(16)), w)
	require.NoError(t, err)
	require.NoError(t, w.Flush())
	assert.Equal(t, wire.PlanSummary{Additions: 2, Changes: 2, Destructions: 2}, digest.summary, "neither data sources nor drift")
	assert.ElementsMatch(t, []schemaKey{{"p", "resource_schemas", "thing"}, {"p", "data_source_schemas", "thing"}}, slices.Collect(maps.Keys(digest.types)))
	var doc struct {
		PlanFormatVersion  string                       `json:"plan_format_version"`
		ResourceChanges    []map[string]json.RawMessage `json:"resource_changes"`
		ResourceDrift      []map[string]json.RawMessage `json:"resource_drift"`
		RelevantAttributes []any                        `json:"relevant_attributes"`
		OutputChanges      map[string]any               `json:"output_changes"`
		PlannedValues      any                          `json:"planned_values"`
	}
	require.NoError(t, json.Unmarshal([]byte(out.String()+`"end":1}`), &doc))
	assert.Equal(t, "1.2", doc.PlanFormatVersion)
	assert.Len(t, doc.ResourceChanges, 16)
	assert.Len(t, doc.ResourceDrift, 1)
	assert.Len(t, doc.RelevantAttributes, 1)
	assert.NotNil(t, doc.OutputChanges)
	assert.Nil(t, doc.PlannedValues)
	assert.NotContains(t, out.String(), "hunter2")

	for _, broken := range []string{``, `[]`, `{"resource_changes":{}}`, `{"resource_changes":[{}]}`, `{"resource_changes":[{"mode":"managed","type":"t","provider_name":"p","change":{"actions":["create"]}}`} {
		_, err := redactChanges(strings.NewReader(broken), bufio.NewWriter(&bytes.Buffer{}))
		assert.Error(t, err, broken)
	}
	_, err = redactChanges(strings.NewReader(`{"resource_changes":[{"mode":"list","type":"t","provider_name":"p","change":{"actions":["open"]}}]}`), bufio.NewWriter(&bytes.Buffer{}))
	assert.ErrorContains(t, err, "unknown mode")
}

// A plan has ephemeral resources among the changes, which a client cannot draw.
func TestEphemeralResourcesAreLeftOut(t *testing.T) {
	t.Parallel()
	const (
		ephemeral = `{"address":"ephemeral.t.e","mode":"ephemeral","type":"secret","provider_name":"p","change":{"actions":["open"],"before":null,"after":null}}`
		managed   = `{"address":"t.m","mode":"managed","type":"t","provider_name":"p","change":{"actions":["create"],"before":null,"after":{}}}`
	)
	for _, row := range []struct {
		changes []string
		want    int
	}{
		{[]string{ephemeral}, 0},
		{[]string{ephemeral, managed}, 1},
		{[]string{managed, ephemeral}, 1},
		{[]string{managed, ephemeral, ephemeral, managed}, 2},
	} {
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		digest, err := redactChanges(strings.NewReader(`{"resource_changes":[`+strings.Join(row.changes, ",")+`]}`), w)
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		var doc struct {
			ResourceChanges []struct{ Mode string } `json:"resource_changes"`
		}
		require.NoError(t, json.Unmarshal([]byte(out.String()+`"end":1}`), &doc))
		require.Len(t, doc.ResourceChanges, row.want)
		assert.NotContains(t, out.String(), "ephemeral")
		assert.Equal(t, row.want, digest.summary.Additions)
		assert.NotContains(t, digest.types, schemaKey{"p", "", "secret"}, "no schema is asked for")
	}
}

func TestCopySchemas(t *testing.T) {
	t.Parallel()
	const all = `{"format_version":"1.0","provider_schemas":{
		"unused":{"resource_schemas":{"thing":{"version":9}}},
		"p":{"provider":{"version":1},"resource_schemas":{"other":{"version":2},"thing":{"version":3}},"data_source_schemas":{"thing":{"version":4}},"functions":{"f":{}}},
		"q":{"data_source_schemas":{"more":{"version":5}}}}}`
	copied := func(wanted ...schemaKey) (string, error) {
		set := map[schemaKey]bool{}
		for _, key := range wanted {
			set[key] = true
		}
		var out bytes.Buffer
		w := bufio.NewWriter(&out)
		err := copySchemas(strings.NewReader(all), w, set)
		_ = w.Flush()
		return "{" + out.String() + "}", err
	}
	thing, data, more := schemaKey{"p", "resource_schemas", "thing"}, schemaKey{"p", "data_source_schemas", "thing"}, schemaKey{"q", "data_source_schemas", "more"}
	text, err := copied(thing, data, more)
	require.NoError(t, err)
	assert.JSONEq(t, `{"p":{"resource_schemas":{"thing":{"version":3}},"data_source_schemas":{"thing":{"version":4}}},"q":{"data_source_schemas":{"more":{"version":5}}}}`, text)
	_, err = copied(thing, schemaKey{"p", "resource_schemas", "gone"})
	assert.ErrorContains(t, err, "gone")
	_, err = copied(schemaKey{"elsewhere", "resource_schemas", "thing"})
	assert.ErrorContains(t, err, "elsewhere")
}

const importing = `
import {
  to = terraform_data.made
  id = "an-id"
}
`

func TestGeneratedConfiguration(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{GenerateConfig: true}, map[string]string{"main.tf": importing})
	start(t, f.config())
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	assert.True(t, done.GeneratedConfig)
	assert.Equal(t, 1, done.Plan.Imports)
	assert.Contains(t, string(f.artifacts[wire.KindPlanJSONRedacted]), `resource \"terraform_data\" \"made\" {`)
}

// TestGeneratedConfigurationOfAFailedPlan: the file is what the person needs to go on.
func TestGeneratedConfigurationOfAFailedPlan(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{GenerateConfig: true}, map[string]string{"main.tf": importing + `
		variable "no" { default = false }
		resource "terraform_data" "b" {
		  lifecycle {
		    precondition {
		      condition = var.no
		      error_message = "never"
		    }
		  }
		}`})
	start(t, f.config())
	done := f.await()
	require.Equal(t, wire.OutcomeErrored, done.Outcome, f.logText())
	assert.Nil(t, done.Plan)
	assert.True(t, done.GeneratedConfig)
	assert.Contains(t, string(f.artifacts[wire.KindPlanJSONRedacted]), `resource \"terraform_data\" \"made\" {`)
	assert.NotContains(t, f.artifacts, wire.KindPlan)
}

func BenchmarkRedactChanges(b *testing.B) {
	text := resources(5000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_, err := redactChanges(bytes.NewReader(text), bufio.NewWriter(&bytes.Buffer{}))
		require.NoError(b, err)
	}
}
