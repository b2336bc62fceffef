package evaluator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// passed are the members of a plan that go into a derivative as they are. What is neither here
// nor among the kept ones stays out: a newer OpenTofu may write members that nobody here has
// looked at.
var passed = []string{"format_version", "terraform_version", "relevant_attributes", "checks", "timestamp", "applyable", "complete", "errored"}

// derive writes the derivative of a plan (PO-09): without any value that the plan marks as
// sensitive, without what equals or contains such a value elsewhere (OpenTofu does not mark what
// a provider copies), without the configuration of providers, and without the literals of the
// configuration, which nobody marks. known is what is secret by itself. body is the plan twice: it is read once to learn the secrets and once to
// write, member by member, so that memory holds the largest member and not the whole.
func derive(body io.Reader, out io.Writer, run json.RawMessage, known Secrets) error {
	decoder := json.NewDecoder(bufio.NewReaderSize(body, 1<<16))
	decoder.UseNumber()
	c := &cleaner{sensitive: slices.Clone(known.Variables), secrets: map[string]bool{}}
	for _, value := range known.Values {
		c.note(value)
		c.note(strings.TrimSpace(value)) // a file or a trim adds and takes away the ends of a key
	}
	if err := c.members(decoder, func(string, any) error { return nil }); err != nil {
		return err
	}
	c.learned()

	w := bufio.NewWriterSize(out, 1<<16)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if len(run) == 0 {
		run = json.RawMessage("{}")
	}
	if _, err := fmt.Fprintf(w, `{"run":%s,"plan":{`, run); err != nil {
		return err
	}
	separator := ""
	err := c.members(decoder, func(name string, value any) error {
		if _, err := fmt.Fprintf(w, "%s%q:", separator, name); err != nil {
			return err
		}
		separator = ","
		return encoder.Encode(value)
	})
	if err != nil {
		return err
	}
	_, _ = w.WriteString("}}\n") // an error stays with the writer and is seen by Flush
	return w.Flush()
}

// members reads one plan and gives what is left of each member to write.
func (c *cleaner) members(decoder *json.Decoder, write func(name string, value any) error) error {
	if err := expect(decoder, json.Delim('{')); err != nil {
		return err
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return notAPlan(err)
		}
		name, _ := token.(string)
		clean := c.cleaning(name)
		if clean == nil {
			var skipped json.RawMessage
			if err := decoder.Decode(&skipped); err != nil {
				return notAPlan(err)
			}
			continue
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return notAPlan(err)
		}
		if value = clean(value); value == nil {
			continue
		}
		if err := write(name, value); err != nil {
			return err
		}
	}
	return expect(decoder, json.Delim('}'))
}

// cleaning gives what is done to a member of a plan; nil leaves it out.
func (c *cleaner) cleaning(name string) func(any) any {
	if slices.Contains(passed, name) {
		return func(v any) any { return v }
	}
	switch name {
	case "variables":
		return c.variables
	case "planned_values":
		return c.values
	case "prior_state":
		return c.priorState
	case "resource_drift", "resource_changes":
		return c.resourceChanges
	case "output_changes":
		return c.outputChanges
	case "configuration":
		return c.configuration
	}
	return nil
}

func expect(decoder *json.Decoder, delim json.Delim) error {
	token, err := decoder.Token()
	if err != nil {
		return notAPlan(err)
	}
	if token != delim {
		return notAPlan(fmt.Errorf("%v stands where %v should", token, delim))
	}
	return nil
}

var errNotAPlan = errors.New("the plan is no JSON object")

func notAPlan(err error) error { return fmt.Errorf("%w: %w", errNotAPlan, err) }

// pick gives the named members of an object, of those that it has.
func pick(object map[string]any, names ...string) map[string]any {
	out := make(map[string]any, len(names))
	for _, name := range names {
		if v, ok := object[name]; ok {
			out[name] = v
		}
	}
	return out
}

func objects(v any) []map[string]any {
	list, _ := v.([]any)
	out := make([]map[string]any, 0, len(list))
	for _, item := range list {
		if object, ok := item.(map[string]any); ok {
			out = append(out, object)
		}
	}
	return out
}

func object(v any) map[string]any {
	o, _ := v.(map[string]any)
	return o
}

func (c *cleaner) resourceChanges(v any) any {
	out := []any{}
	for _, r := range objects(v) {
		clean := pick(r, "address", "previous_address", "module_address", "mode", "type", "name", "index", "provider_name", "deposed", "action_reason")
		clean["change"] = c.change(r["change"])
		out = append(out, clean)
	}
	return out
}

// change leaves out generated_config, which is the values once more as text.
func (c *cleaner) change(v any) map[string]any {
	given := object(v)
	out := pick(given, "actions", "after_unknown", "before_sensitive", "after_sensitive", "replace_paths", "importing")
	for _, side := range []string{"before", "after"} {
		value, there := given[side]
		if !there {
			continue
		}
		if masked, keep := c.mask(value, given[side+"_sensitive"]); keep {
			out[side] = masked
		}
	}
	return out
}

func (c *cleaner) outputChanges(v any) any {
	out := map[string]any{}
	for name, one := range object(v) {
		out[name] = c.change(one)
	}
	return out
}

func (c *cleaner) priorState(v any) any {
	s := object(v)
	out := pick(s, "format_version", "terraform_version")
	if inner, ok := s["values"]; ok {
		out["values"] = c.values(inner)
	}
	return out
}

func (c *cleaner) values(v any) any {
	s := object(v)
	out := map[string]any{}
	if outputs, ok := s["outputs"].(map[string]any); ok {
		clean := map[string]any{}
		for name, o := range outputs {
			fields := object(o)
			shown := pick(fields, "sensitive", "type")
			if value, there := fields["value"]; there {
				if masked, keep := c.mask(value, fields["sensitive"]); keep {
					shown["value"] = masked
				}
			}
			clean[name] = shown
		}
		out["outputs"] = clean
	}
	if root, ok := s["root_module"]; ok {
		out["root_module"] = c.moduleValues(root)
	}
	return out
}

func (c *cleaner) moduleValues(v any) any {
	m := object(v)
	out := pick(m, "address")
	if _, ok := m["resources"]; ok {
		resources := []any{}
		for _, r := range objects(m["resources"]) {
			clean := pick(r, "address", "mode", "type", "name", "index", "provider_name", "schema_version", "sensitive_values", "depends_on", "tainted", "deposed_key")
			if value, there := r["values"]; there {
				if masked, keep := c.mask(value, r["sensitive_values"]); keep {
					clean["values"] = masked
				}
			}
			resources = append(resources, clean)
		}
		out["resources"] = resources
	}
	if _, ok := m["child_modules"]; ok {
		children := []any{}
		for _, child := range objects(m["child_modules"]) {
			children = append(children, c.moduleValues(child))
		}
		out["child_modules"] = children
	}
	return out
}

// variables leaves out what is marked, whether here, in the workspace or in the configuration.
func (c *cleaner) variables(v any) any {
	given := object(v)
	out := map[string]any{}
	c.given = given
	for name, one := range given {
		if masked, keep := c.mask(object(one)["value"], slices.Contains(c.sensitive, name)); keep {
			out[name] = map[string]any{"value": masked}
		}
	}
	return out
}

// markVariables notes the input variables that the configuration marks as sensitive, and their
// values, which stand in front of it.
func (c *cleaner) markVariables(v any) {
	for name, declared := range object(object(object(v)["root_module"])["variables"]) {
		fields := object(declared)
		if secret, _ := fields["sensitive"].(bool); !secret {
			continue
		}
		c.sensitive = append(c.sensitive, name)
		c.note(fields["default"])
		c.note(object(c.given[name])["value"])
	}
}

// configuration keeps what resources, modules and outputs there are, where modules come from,
// and what refers to what. Providers and literals stay out.
func (c *cleaner) configuration(v any) any {
	if !c.knows {
		c.markVariables(v)
	}
	out := map[string]any{}
	if root, ok := object(v)["root_module"]; ok {
		out["root_module"] = withoutLiterals(root)
	}
	return out
}

// literals are members of a configuration that hold what somebody wrote into it.
var literals = []string{"constant_value", "provisioners", "default"}

func withoutLiterals(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, inner := range v {
			if slices.Contains(literals, key) {
				delete(v, key)
				continue
			}
			v[key] = withoutLiterals(inner)
		}
		return v
	case []any:
		for i, inner := range v {
			v[i] = withoutLiterals(inner)
		}
		return v
	}
	return v
}
