package runner

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// schemaKey is where the schema of a resource's type stands among all schemas.
type schemaKey struct{ provider, section, name string }

// sections are the parts of a provider's schemas, by the mode of the resources in them.
var sections = map[string]string{"managed": "resource_schemas", "data": "data_source_schemas"}

// planDigest is what the JSON of a plan says in short.
type planDigest struct {
	summary         wire.PlanSummary
	generatedConfig bool               // there is configuration that tofu wrote for an import
	types           map[schemaKey]bool // of all resources that change or have drifted, also if nothing happens to them
}

// redactPlan makes, from the JSON of a plan, the document that a client draws the plan
// from: what changes and what has drifted, without sensitive values, and the schemas of
// exactly the types of these. It goes through the plan resource by resource and holds
// one of them at a time.
func (t *tofu) redactPlan(planJSON, redacted string) (planDigest, error) {
	in, err := os.Open(planJSON)
	if err != nil {
		return planDigest{}, err
	}
	defer func() { _ = in.Close() }()
	file, err := os.OpenFile(redacted, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return planDigest{}, err
	}
	defer func() { _ = file.Close() }()
	out := bufio.NewWriterSize(file, 64<<10)
	digest, err := redactChanges(in, out)
	if err != nil {
		return digest, fmt.Errorf("read the JSON plan: %w", err)
	}
	out.WriteString(`"provider_format_version":"1.0","provider_schemas":{`)
	if len(digest.types) > 0 { // asking starts all providers
		if err := t.schemas(func(in io.Reader) error { return copySchemas(in, out, maps.Clone(digest.types)) }); err != nil {
			return digest, err
		}
	}
	out.WriteString("}}\n")
	if err := out.Flush(); err != nil {
		return digest, err
	}
	return digest, file.Close()
}

// redactChanges writes the document up to the schemas.
func redactChanges(in io.Reader, out *bufio.Writer) (planDigest, error) {
	digest := planDigest{types: map[schemaKey]bool{}}
	out.WriteString("{")
	had := map[string]bool{}
	dec := json.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	err := members(dec, func(name string) error {
		had[name] = true
		switch name {
		case "format_version", "relevant_attributes":
			var value json.RawMessage
			if err := dec.Decode(&value); err != nil {
				return err
			}
			if name == "format_version" {
				name = "plan_format_version"
			}
			fmt.Fprintf(out, "%s:%s,", quoted(name), value)
			return nil
		case "output_changes":
			return redactOutputs(dec, out)
		case "resource_changes", "resource_drift":
			return digest.redactResources(dec, out, name)
		}
		return skip(dec)
	})
	for name, empty := range map[string]string{"output_changes": "{}", "resource_changes": "[]", "resource_drift": "[]", "relevant_attributes": "[]"} {
		if !had[name] {
			fmt.Fprintf(out, "%s:%s,", quoted(name), empty)
		}
	}
	return digest, err
}

func redactOutputs(dec *json.Decoder, out *bufio.Writer) error {
	outputs := map[string]change{}
	if err := dec.Decode(&outputs); err != nil {
		return err
	}
	for name, c := range outputs {
		if err := c.redact(); err != nil {
			return fmt.Errorf("output %q: %w", name, err)
		}
	}
	raw, err := json.Marshal(outputs)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `"output_changes":%s,`, raw)
	return nil
}

// redactResources copies the list of the name, one resource after the other.
func (d *planDigest) redactResources(dec *json.Decoder, out *bufio.Writer, list string) error {
	if err := expect(dec, json.Delim('[')); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s:[", quoted(list))
	comma := separator{out: out}
	for dec.More() {
		var resource map[string]json.RawMessage
		if err := dec.Decode(&resource); err != nil {
			return err
		}
		if string(resource["mode"]) == `"ephemeral"` {
			continue // it changes nothing, and a client could not draw it
		}
		var c change
		if err := json.Unmarshal(resource["change"], &c); err != nil {
			return fmt.Errorf("resource %s: %w", resource["address"], err)
		}
		if err := d.note(resource, c, list == "resource_changes"); err != nil {
			return err
		}
		if err := c.redact(); err != nil {
			return fmt.Errorf("resource %s: %w", resource["address"], err)
		}
		var err error
		if resource["change"], err = json.Marshal(c); err != nil {
			return err
		}
		raw, err := json.Marshal(resource)
		if err != nil {
			return err
		}
		comma.next()
		out.Write(raw)
	}
	out.WriteString("],")
	return expect(dec, json.Delim(']'))
}

// note counts as tofu's own last line does: a replacement is an addition and a
// destruction, data sources count for nothing (RL-35).
func (d *planDigest) note(resource map[string]json.RawMessage, c change, counts bool) error {
	var mode, provider, name string
	var actions []string
	for raw, into := range map[string]any{"mode": &mode, "provider_name": &provider, "type": &name} {
		if err := json.Unmarshal(resource[raw], into); err != nil {
			return fmt.Errorf("resource %s has no %s: %w", resource["address"], raw, err)
		}
	}
	if err := json.Unmarshal(c["actions"], &actions); err != nil {
		return fmt.Errorf("resource %s has no actions: %w", resource["address"], err)
	}
	section, known := sections[mode]
	if !known {
		return fmt.Errorf("resource %s is of the unknown mode %q", resource["address"], mode)
	}
	d.types[schemaKey{provider, section, name}] = true
	d.generatedConfig = d.generatedConfig || len(c["generated_config"]) > 0
	if !counts || mode != "managed" {
		return nil
	}
	if slices.Contains(actions, "create") {
		d.summary.Additions++
	}
	if slices.Contains(actions, "update") {
		d.summary.Changes++
	}
	if slices.Contains(actions, "delete") {
		d.summary.Destructions++
	}
	if importing := c["importing"]; len(importing) > 0 && string(importing) != "null" {
		d.summary.Imports++
	}
	return nil
}

// copySchemas copies the wanted ones of all schemas. One that is missing is an error:
// a client crashes at a resource without the schema of its type.
func copySchemas(in io.Reader, out *bufio.Writer, wanted map[schemaKey]bool) error {
	dec := json.NewDecoder(bufio.NewReaderSize(in, 64<<10))
	comma := separator{out: out}
	err := members(dec, func(name string) error {
		if name != "provider_schemas" {
			return skip(dec)
		}
		return members(dec, func(provider string) error {
			if !slices.ContainsFunc(slices.Collect(maps.Keys(wanted)), func(k schemaKey) bool { return k.provider == provider }) {
				return skip(dec)
			}
			comma.next()
			fmt.Fprintf(out, "%s:{", quoted(provider))
			err := copyProvider(dec, out, provider, wanted)
			out.WriteByte('}')
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("read the schemas of the providers: %w", err)
	}
	for key := range wanted {
		return fmt.Errorf("the provider %s does not tell the schema of %s, which the plan speaks of", key.provider, key.name)
	}
	return nil
}

// copyProvider copies the wanted schemas of one provider and takes them from wanted.
func copyProvider(dec *json.Decoder, out *bufio.Writer, provider string, wanted map[schemaKey]bool) error {
	section := separator{out: out}
	return members(dec, func(name string) error {
		if name != sections["managed"] && name != sections["data"] {
			return skip(dec)
		}
		section.next()
		fmt.Fprintf(out, "%s:{", quoted(name))
		comma := separator{out: out}
		err := members(dec, func(resource string) error {
			key := schemaKey{provider, name, resource}
			if !wanted[key] {
				return skip(dec)
			}
			var schema json.RawMessage
			if err := dec.Decode(&schema); err != nil {
				return err
			}
			delete(wanted, key)
			comma.next()
			fmt.Fprintf(out, "%s:%s", quoted(resource), schema)
			return nil
		})
		out.WriteByte('}')
		return err
	})
}

// quoted is text as JSON writes it.
func quoted(text string) []byte {
	raw, _ := json.Marshal(text) // cannot fail for a string
	return raw
}

// separator writes a comma before all but the first.
type separator struct {
	out   *bufio.Writer
	begun bool
}

func (s *separator) next() {
	if s.begun {
		s.out.WriteByte(',')
	}
	s.begun = true
}

// members calls each for the members of an object; it must read the member's value.
func members(dec *json.Decoder, each func(name string) error) error {
	if err := expect(dec, json.Delim('{')); err != nil {
		return err
	}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := token.(string)
		if !ok {
			return errors.New("a member of an object has no name")
		}
		if err := each(name); err != nil {
			return err
		}
	}
	return expect(dec, json.Delim('}'))
}

func expect(dec *json.Decoder, want json.Delim) error {
	token, err := dec.Token()
	if err == nil && token != want {
		err = fmt.Errorf("there is %v where %v was expected", token, want)
	}
	return err
}

// skip reads over a value of any size.
func skip(dec *json.Decoder) error {
	for depth := 0; ; {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}
