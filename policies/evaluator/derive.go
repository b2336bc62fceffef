package evaluator

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// passed are the members of a plan that go into a derivative as they are. What is neither here
// nor among the kept ones stays out: a newer OpenTofu may write members that nobody here has
// looked at.
var passed = []string{"format_version", "terraform_version", "relevant_attributes", "checks", "timestamp", "applyable", "complete", "errored"}

// kept are the members that go in without their secrets.
var kept = map[string]func(any) any{
	"planned_values":   values,
	"prior_state":      priorState,
	"resource_drift":   resourceChanges,
	"resource_changes": resourceChanges,
	"output_changes":   outputChanges,
}

// derive writes the derivative of the plan in body (PO-09): without any value that the plan
// marks as sensitive, without the configuration of providers, and without the literals of the
// configuration, which nobody marks. sensitive names input variables that are marked outside
// of the configuration. The plan is read member by member, so that memory holds the largest
// member and not the whole.
func derive(body io.Reader, out io.Writer, run json.RawMessage, sensitive []string) error {
	w := bufio.NewWriterSize(out, 1<<16)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if len(run) == 0 {
		run = json.RawMessage("{}")
	}
	if _, err := fmt.Fprintf(w, `{"run":%s,"plan":{`, run); err != nil {
		return err
	}
	written := false
	member := func(name string, value any) error {
		if written {
			_ = w.WriteByte(',') // an error stays with the writer and is seen by Flush
		}
		written = true
		if _, err := fmt.Fprintf(w, "%q:", name); err != nil {
			return err
		}
		return encoder.Encode(value)
	}
	var variables map[string]any
	decoder := json.NewDecoder(bufio.NewReaderSize(body, 1<<16))
	decoder.UseNumber()
	if err := expect(decoder, json.Delim('{')); err != nil {
		return err
	}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return notAPlan(err)
		}
		name, _ := token.(string)
		clean := kept[name]
		switch {
		case slices.Contains(passed, name):
			clean = func(v any) any { return v }
		case name == "variables":
			clean = func(v any) any { variables, _ = v.(map[string]any); return nil }
		case name == "configuration":
			clean = func(v any) any {
				sensitive = append(slices.Clone(sensitive), markedVariables(v)...)
				return configuration(v)
			}
		}
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
		if err := member(name, value); err != nil {
			return err
		}
	}
	if err := expect(decoder, json.Delim('}')); err != nil {
		return err
	}
	for name := range variables {
		if slices.Contains(sensitive, name) {
			delete(variables, name)
		}
	}
	if variables != nil {
		if err := member("variables", variables); err != nil {
			return err
		}
	}
	_, _ = w.WriteString("}}\n")
	return w.Flush()
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

// mask removes from value what the mask marks: true stands for all of it. A mask that does not
// fit its value removes the value, for then nobody knows what it meant. keep is false when
// nothing of value is left.
func mask(value, marks any) (masked any, keep bool) {
	switch m := marks.(type) {
	case nil:
		return value, true
	case bool:
		return value, !m
	case map[string]any:
		object, ok := value.(map[string]any)
		if !ok {
			return value, value == nil || !marked(m)
		}
		for key, mark := range m {
			inner, there := object[key]
			if !there {
				continue
			}
			if inner, keep := mask(inner, mark); keep {
				object[key] = inner
			} else {
				delete(object, key)
			}
		}
		return object, true
	case []any:
		list, ok := value.([]any)
		if !ok || len(m) > len(list) {
			return value, value == nil || !marked(m)
		}
		for i, mark := range m {
			inner, keep := mask(list[i], mark)
			if !keep {
				inner = nil // the others keep their places
			}
			list[i] = inner
		}
		return list, true
	}
	return value, false
}

// marked tells whether a mask marks anything.
func marked(marks any) bool {
	switch m := marks.(type) {
	case bool:
		return m
	case map[string]any:
		for _, mark := range m {
			if marked(mark) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(m, marked)
	}
	return false
}

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

func resourceChanges(v any) any {
	out := []any{}
	for _, r := range objects(v) {
		clean := pick(r, "address", "previous_address", "module_address", "mode", "type", "name", "index", "provider_name", "deposed", "action_reason")
		clean["change"] = change(r["change"])
		out = append(out, clean)
	}
	return out
}

// change leaves out generated_config, which is the values once more as text.
func change(v any) map[string]any {
	c := object(v)
	out := pick(c, "actions", "after_unknown", "before_sensitive", "after_sensitive", "replace_paths", "importing")
	for _, side := range []string{"before", "after"} {
		value, there := c[side]
		if !there {
			continue
		}
		if masked, keep := mask(value, c[side+"_sensitive"]); keep {
			out[side] = masked
		}
	}
	return out
}

func outputChanges(v any) any {
	out := map[string]any{}
	for name, c := range object(v) {
		out[name] = change(c)
	}
	return out
}

func priorState(v any) any {
	s := object(v)
	out := pick(s, "format_version", "terraform_version")
	if inner, ok := s["values"]; ok {
		out["values"] = values(inner)
	}
	return out
}

func values(v any) any {
	s := object(v)
	out := map[string]any{}
	if outputs, ok := s["outputs"].(map[string]any); ok {
		clean := map[string]any{}
		for name, o := range outputs {
			fields := object(o)
			shown := pick(fields, "sensitive", "type")
			if secret, _ := fields["sensitive"].(bool); !secret {
				shown = pick(fields, "sensitive", "type", "value")
			}
			clean[name] = shown
		}
		out["outputs"] = clean
	}
	if root, ok := s["root_module"]; ok {
		out["root_module"] = moduleValues(root)
	}
	return out
}

func moduleValues(v any) any {
	m := object(v)
	out := pick(m, "address")
	if _, ok := m["resources"]; ok {
		resources := []any{}
		for _, r := range objects(m["resources"]) {
			clean := pick(r, "address", "mode", "type", "name", "index", "provider_name", "schema_version", "sensitive_values", "depends_on", "tainted", "deposed_key")
			if value, there := r["values"]; there {
				if masked, keep := mask(value, r["sensitive_values"]); keep {
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
			children = append(children, moduleValues(child))
		}
		out["child_modules"] = children
	}
	return out
}

// markedVariables names the input variables that the configuration marks as sensitive.
func markedVariables(v any) (names []string) {
	variables := object(object(object(v)["root_module"])["variables"])
	for name, declared := range variables {
		if secret, _ := object(declared)["sensitive"].(bool); secret {
			names = append(names, name)
		}
	}
	return names
}

// configuration keeps what resources, modules and outputs there are, where modules come from,
// and what refers to what. Providers and literals stay out.
func configuration(v any) any {
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
