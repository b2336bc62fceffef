package evaluator

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"
)

// mostErrors is how many errors of a bundle are told.
const mostErrors = 20

// publish compiles everything that evaluation would compile, and runs the bundle's own tests.
func publish(ctx context.Context, b Bundle, limits Limits) Verdict {
	v := Verdict{Errors: []string{}}
	if len(b.Policies) == 0 {
		v.add("the bundle has no policy")
	}
	unanswered := 0
	groups, order := b.groups()
	for _, only := range order {
		g := groups[only]
		compiler, err := compile(b.Rego, g.modules)
		if err != nil {
			v.add(lines(err)...)
			continue
		}
		for _, p := range g.policies {
			if err := checkQuery(compiler, b.Rego, p); err != nil {
				v.add(fmt.Sprintf("policy %q: %s", p.Name, err))
				if errors.Is(err, errNoRule) {
					unanswered++
				}
			}
		}
		passed, failed := runTests(ctx, compiler, limits)
		v.Tests += passed
		v.add(failed...)
	}
	v.Unanswered = unanswered > 0 && unanswered == len(v.Errors)
	if len(v.Errors) > mostErrors {
		v.Errors = append(v.Errors[:mostErrors], fmt.Sprintf("and %d more", len(v.Errors)-mostErrors))
	}
	return v
}

func (v *Verdict) add(errs ...string) { v.Errors = append(v.Errors, errs...) }

// group is what is compiled together.
type group struct {
	modules  []Module
	policies []Policy
}

// groups gives the parts of a bundle by the module that they are limited to, and their order.
func (b Bundle) groups() (map[string]*group, []string) {
	groups, order := map[string]*group{}, []string{}
	for _, p := range b.Policies {
		g := groups[p.Only]
		if g == nil {
			g = &group{}
			for _, m := range b.Modules {
				if p.Only == "" || m.Path == p.Only {
					g.modules = append(g.modules, m)
				}
			}
			groups[p.Only] = g
			order = append(order, p.Only)
		}
		g.policies = append(g.policies, p)
	}
	return groups, order
}

func (v RegoVersion) ast() ast.RegoVersion {
	if v == V0 {
		return ast.RegoV0
	}
	return ast.RegoV1
}

func compile(version RegoVersion, modules []Module) (*ast.Compiler, error) {
	caps := capabilities()
	parsed := map[string]*ast.Module{}
	var errs ast.Errors
	for _, m := range modules {
		module, err := ast.ParseModuleWithOpts(m.Path, m.Content, ast.ParserOptions{RegoVersion: version.ast(), Capabilities: caps})
		var several ast.Errors
		switch {
		case errors.As(err, &several):
			errs = append(errs, several...)
		case err != nil:
			return nil, err
		default:
			parsed[m.Path] = module
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	compiler := ast.NewCompiler().WithCapabilities(caps).WithDefaultRegoVersion(version.ast()).WithEnablePrintStatements(true)
	if compiler.Compile(parsed); compiler.Failed() {
		return nil, compiler.Errors
	}
	return compiler, nil
}

// lines are the errors of a compiler, each with the place it is at.
func lines(err error) []string {
	var several ast.Errors
	if !errors.As(err, &several) {
		return []string{err.Error()}
	}
	out := make([]string, len(several))
	for i, e := range several {
		out[i] = strings.ReplaceAll(e.Error(), "\n", " ")
	}
	sort.Strings(out)
	return out
}

// errNoRule is of a query that could name a rule, and no module has it.
var errNoRule = errors.New("names no rule of its modules")

// checkQuery demands a query that names a rule of the bundle. One that names nothing would be
// undefined at every evaluation, which a policy that never fails looks like.
func checkQuery(compiler *ast.Compiler, version RegoVersion, p Policy) error {
	ref, err := parseQuery(version, p.Query)
	switch {
	case err != nil:
		return err
	case !ref.HasPrefix(ast.DefaultRootRef):
		return fmt.Errorf("the query %s %w: rules are below data, such as data.terraform.policies.tags.deny", p.Query, errNoRule)
	case len(compiler.GetRulesExact(ref)) == 0:
		return fmt.Errorf("the query %s %w", p.Query, errNoRule)
	}
	return nil
}

// parseQuery reads a query, which is a reference without variables.
func parseQuery(version RegoVersion, query string) (ast.Ref, error) {
	refusal := fmt.Errorf("the query %q must name one rule, such as data.terraform.policies.tags.deny", query)
	body, err := ast.ParseBodyWithOpts(query, ast.ParserOptions{RegoVersion: version.ast(), Capabilities: capabilities()})
	if err != nil || len(body) != 1 {
		return nil, refusal
	}
	term, ok := body[0].Terms.(*ast.Term)
	if !ok || body[0].Negated {
		return nil, refusal
	}
	ref, ok := term.Value.(ast.Ref)
	if !ok || len(ref) < 2 || !ref.IsGround() {
		return nil, refusal
	}
	return ref, nil
}

// runTests runs what is named test_… in the compiled modules.
func runTests(ctx context.Context, compiler *ast.Compiler, limits Limits) (passed int, failed []string) {
	store := inmem.New()
	txn, err := store.NewTransaction(ctx)
	if err != nil {
		return 0, []string{err.Error()}
	}
	defer store.Abort(ctx, txn)
	runner := tester.NewRunner().SetStore(store).SetCompiler(compiler).SetModules(compiler.Modules).SetTimeout(limits.Budget)
	results, err := runner.RunTests(ctx, txn)
	if err != nil {
		return 0, lines(err)
	}
	for r := range results {
		switch {
		case r.Skip:
		case r.Error != nil:
			failed = append(failed, fmt.Sprintf("%s: test %s.%s: %s", r.Location, r.Package, r.Name, r.Error))
		case r.Fail:
			failed = append(failed, fmt.Sprintf("%s: test %s.%s fails", r.Location, r.Package, r.Name))
		default:
			passed++
		}
	}
	sort.Strings(failed)
	return passed, failed
}
