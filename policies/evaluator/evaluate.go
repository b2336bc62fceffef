package evaluator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown/print"
)

// What is kept of one policy; more would only bury what matters.
const (
	mostViolations = 100
	mostPrints     = 50
)

// evaluate asks every policy of a bundle about the derivative in body.
func evaluate(ctx context.Context, b Bundle, parameters map[string]string, body io.Reader, limits Limits) ([]Outcome, error) {
	input, err := inputOf(body, parameters)
	if err != nil {
		return nil, err
	}
	addresses := addressesOf(input)
	groups, order := b.groups()
	byName := map[string]Outcome{}
	for _, only := range order {
		g := groups[only]
		compiler, compileErr := compile(b.Rego, g.modules)
		for _, p := range g.policies {
			o := Outcome{Policy: p.Name, Description: p.Description, Query: p.Query, Level: p.Level}
			if compileErr != nil {
				o.Status, o.Error = Errored, clip(strings.Join(lines(compileErr), "; "), limits.Message)
			} else {
				o.ask(ctx, compiler, b.Rego, input, addresses, limits)
			}
			byName[p.Name] = o
		}
	}
	outcomes := make([]Outcome, 0, len(b.Policies))
	for _, p := range b.Policies {
		outcomes = append(outcomes, byName[p.Name])
	}
	return outcomes, nil
}

// inputOf is the derivative with the set's parameters beside plan and run.
func inputOf(body io.Reader, parameters map[string]string) (ast.Value, error) {
	value, err := ast.ValueFromReader(body)
	if err != nil {
		return nil, fmt.Errorf("read the derivative of the plan: %w", err)
	}
	object, ok := value.(ast.Object)
	if !ok {
		return nil, fmt.Errorf("the derivative of the plan is no object")
	}
	params := make(map[string]any, len(parameters))
	for k, v := range parameters {
		params[k] = v
	}
	given, err := ast.InterfaceToValue(params)
	if err != nil {
		return nil, err
	}
	object.Insert(ast.StringTerm("params"), ast.NewTerm(given))
	return object, nil
}

// addressesOf are the addresses of the resources that the plan speaks of, longest first.
func addressesOf(input ast.Value) []string {
	changes, err := input.Find(ast.MustParseRef("x.plan.resource_changes")[1:])
	if err != nil {
		return nil
	}
	list, ok := changes.(*ast.Array)
	if !ok {
		return nil
	}
	var addresses []string
	list.Foreach(func(t *ast.Term) {
		if change, ok := t.Value.(ast.Object); ok {
			if a := change.Get(ast.StringTerm("address")); a != nil {
				if s, ok := a.Value.(ast.String); ok {
					addresses = append(addresses, string(s))
				}
			}
		}
	})
	sort.Slice(addresses, func(i, j int) bool {
		return len(addresses[i]) > len(addresses[j]) || (len(addresses[i]) == len(addresses[j]) && addresses[i] < addresses[j])
	})
	return addresses
}

// ask evaluates one policy within its budget. The members of a set or list are the violations;
// anything else, and nothing at all, is an error and never an approval.
func (o *Outcome) ask(ctx context.Context, compiler *ast.Compiler, version RegoVersion, input ast.Value, addresses []string, limits Limits) {
	o.Status = Errored
	if err := checkQuery(compiler, version, Policy{Query: o.Query}); err != nil {
		o.Error = clip(err.Error(), limits.Message)
		return
	}
	within, cancel := context.WithTimeout(ctx, limits.Budget)
	defer cancel()
	results, err := rego.New(
		rego.Compiler(compiler), rego.Query(o.Query), rego.SetRegoVersion(version.ast()), rego.ParsedInput(input), rego.Capabilities(capabilities()),
		rego.EnablePrintStatements(true), rego.PrintHook(printer{o, limits.Message}), rego.StrictBuiltinErrors(false),
	).Eval(within)
	switch {
	case ctx.Err() != nil:
		o.Error = fmt.Sprintf("The policies together took more than %s, so this one was not finished.", limits.Time)
		return
	case within.Err() != nil:
		o.Error = fmt.Sprintf("It computed for more than %s and was stopped.", limits.Budget)
		return
	case err != nil:
		o.Error = clip(strings.Join(lines(err), "; "), limits.Message)
		return
	case len(results) != 1 || len(results[0].Expressions) != 1:
		o.Error = fmt.Sprintf("The query %s has no value for this plan. It must give a set or a list of violations, which may be empty.", o.Query)
		return
	}
	members, ok := results[0].Expressions[0].Value.([]any)
	if !ok {
		o.Error = fmt.Sprintf("The query %s gives no set or list of violations.", o.Query)
		return
	}
	o.Status = Passed
	if len(members) > 0 {
		o.Status = Failed
	}
	rule := o.Query[strings.LastIndex(o.Query, ".")+1:]
	for i, m := range members {
		if i == mostViolations {
			o.More = len(members) - mostViolations
			break
		}
		o.Violations = append(o.Violations, violation(rule, m, addresses, limits.Message))
	}
}

// violation reads one member: a text, or an object with a message and the address of a
// resource. In a text without an address the plan's own addresses are looked for.
func violation(rule string, member any, addresses []string, most int) Violation {
	v := Violation{Rule: rule}
	switch m := member.(type) {
	case string:
		v.Message = m
	case map[string]any:
		v.Message = first(m, "msg", "message", "reason", "description")
		v.Address = first(m, "address", "resource_address", "resource")
		if named := first(m, "rule", "policy"); named != "" {
			v.Rule = named
		}
	}
	if v.Message == "" {
		encoded, err := json.Marshal(member)
		if err != nil {
			encoded = fmt.Append(nil, member)
		}
		v.Message = string(encoded)
	}
	if v.Address == "" {
		for _, a := range addresses {
			if strings.Contains(v.Message, a) {
				v.Address = a
				break
			}
		}
	}
	v.Rule, v.Address, v.Message = clip(v.Rule, most), clip(v.Address, most), clip(v.Message, most)
	return v
}

func first(m map[string]any, keys ...string) string {
	for _, k := range keys {
		if text, ok := m[k].(string); ok && text != "" {
			return text
		}
	}
	return ""
}

// printer keeps what a policy prints, for the one who writes it.
type printer struct {
	outcome *Outcome
	most    int
}

// Print implements print.Hook.
func (p printer) Print(_ print.Context, text string) error {
	if len(p.outcome.Prints) < mostPrints {
		p.outcome.Prints = append(p.outcome.Prints, clip(text, p.most))
	}
	return nil
}

// clip cuts a text that is too long, at a character and not within one.
func clip(text string, most int) string {
	text = strings.ToValidUTF8(text, "�")
	if most <= 0 || len(text) <= most {
		return text
	}
	cut := most
	for cut > 0 && text[cut]&0xC0 == 0x80 {
		cut--
	}
	return text[:cut] + "…"
}
