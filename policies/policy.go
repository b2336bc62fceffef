package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
)

// Policy is one that is managed by itself and put into sets.
type Policy struct {
	ID               ids.Policy
	Organization     ids.Organization
	OrganizationName string
	Name             string
	Description      string
	Kind             Kind
	Query            string // of OPA: the rule whose members are the violations. The content answers it
	Awaited          string // a query that waits for content that answers it; empty when none does
	Level            string
	Path             string // the name of its file
	ContentSealed    []byte // nil before the first upload
	ContentDigest    string
	UpdatedAt        time.Time
	Sets             int // in how many it is
}

// NewPolicy is what a client asks for.
type NewPolicy struct {
	Name, Description string
	Kind              Kind // empty: Sentinel
	Query, Level      string
	Path              string // empty: its name
}

// Wanted is the query that was said last, whether the content answers it or not.
func (p Policy) Wanted() string {
	if p.Awaited != "" {
		return p.Awaited
	}
	return p.Query
}

// InForce is the query that plans are judged by; empty before there is content.
func (p Policy) InForce() string {
	if p.ContentSealed == nil {
		return ""
	}
	return p.Query
}

// ask makes query the one that is wanted: in force when the content answers it, else awaited.
func (p *Policy) ask(query string, answered bool) {
	if p.Awaited = ""; answered {
		p.Query = query
	} else if query != p.Query {
		p.Awaited = query
	}
}

// PolicyChanges are what an update says; what is absent stays.
type PolicyChanges struct{ Description, Query, Level *string }

func (p Policy) check() error {
	if err := checkName(p.Name); err != nil {
		return err
	}
	if err := checkKind(p.Kind); err != nil {
		return err
	}
	if p.Kind == OPA && p.Query == "" {
		return accounts.Invalid("query", "Query can't be blank")
	}
	if !slices.Contains(levels(p.Kind), p.Level) {
		return accounts.Invalid("enforcement-level", "Enforcement level must be one of %s", strings.Join(levels(p.Kind), ", "))
	}
	for field, text := range map[string]string{"query": p.Wanted(), "path": p.Path, "description": p.Description} {
		if err := accounts.CheckText(field, field, text, maxDescription); err != nil {
			return err
		}
	}
	return nil
}

func (p Policy) args() postgres.Args {
	return postgres.Args{
		"id": p.ID, "organization_id": p.Organization, "name": p.Name, "description": p.Description, "kind": string(p.Kind), "query": p.Query, "awaited": p.Awaited,
		"level": p.Level, "path": p.Path,
	}
}

func contentLabel(id ids.Policy) string { return "policy/" + string(id) }

// CreatePolicy makes a policy; its content follows by UploadPolicy.
func (s *Service) CreatePolicy(ctx context.Context, actor authz.Actor, organization string, n NewPolicy) (p Policy, err error) {
	err = postgres.InTx(ctx, s.db, "policies.create-policy", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.PoliciesManage, organization)
		if err != nil {
			return err
		}
		p = Policy{ID: ids.New[ids.Policy](), Organization: org.ID, Name: n.Name, Description: n.Description, Kind: n.Kind, Query: n.Query, Level: n.Level, Path: n.Path}
		if p.Kind == "" {
			p.Kind = Sentinel
		}
		if p.Path == "" {
			p.Path = p.Name + map[Kind]string{OPA: ".rego", Sentinel: ".sentinel"}[p.Kind]
		}
		if err := p.check(); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PolicyInsert"), p.args()); err != nil {
			return nameTaken(err, "policies_name")
		}
		if err := record(ctx, tx, actor, org.ID, "policy.created", "policy", string(p.ID), map[string]any{"name": p.Name, "kind": p.Kind, "level": p.Level}); err != nil {
			return err
		}
		p, err = postgres.One[Policy](ctx, tx, Queries.Get("PolicyGet"), postgres.Args{"id": p.ID})
		return err
	})
	return p, err
}

// Policy gives one policy.
func (s *Service) Policy(ctx context.Context, actor authz.Actor, id ids.Policy) (p Policy, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.policy", func(tx postgres.Tx) error {
		p, err = allowedPolicy(ctx, tx, actor, authz.PoliciesRead, id)
		return err
	})
	return p, err
}

func allowedPolicy(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Policy) (Policy, error) {
	p, err := postgres.One[Policy](ctx, tx, Queries.Get("PolicyGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Policy{}, fault.Missing("policy", string(id))
	}
	if err != nil {
		return Policy{}, fmt.Errorf("read the policy: %w", err)
	}
	return p, authz.Allow(actor, action, authz.Object{Organization: p.Organization, Noun: "policy", Name: string(id)})
}

// PolicyList gives a page of an organization's policies by name, and counts all that match.
func (s *Service) PolicyList(ctx context.Context, actor authz.Actor, organization string, f Filter) (page []Policy, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.policy-list", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.PoliciesRead, organization)
		if err != nil {
			return err
		}
		page, total, err = list[Policy](ctx, tx, "PolicyList", "PolicyCount", f.args(org.ID))
		return err
	})
	return page, total, err
}

// UpdatePolicy changes what is said, and with it the sets that the policy is in. A query that
// the content does not answer is awaited: query and content are judged by as they were, until
// content comes that answers it. Invalid "policy_refused" for what is no query at all.
func (s *Service) UpdatePolicy(ctx context.Context, actor authz.Actor, id ids.Policy, c PolicyChanges) (Policy, error) {
	before, content, err := s.policyContent(ctx, actor, authz.PoliciesManage, id)
	if err != nil {
		return Policy{}, err
	}
	asked, answered := c.Query != nil && *c.Query != "", true
	if asked && content != nil {
		err := s.checkContent(ctx, before, *c.Query, content)
		if answered = err == nil; err != nil && !errors.Is(err, errUnanswered) {
			return Policy{}, err
		}
	}
	return s.changePolicy(ctx, "policies.update-policy", actor, id, func(tx postgres.Tx, p Policy) error {
		if asked && p.ContentDigest != before.ContentDigest {
			return fault.New(fault.Conflict, "policy_changed", "The content of policy %q was changed at the same time. Try again.", p.Name)
		}
		if c.Query != nil && p.Kind == OPA {
			p.ask(*c.Query, answered)
		}
		assign(&p.Description, c.Description)
		assign(&p.Level, c.Level)
		if err := p.check(); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PolicyUpdate"), p.args()); err != nil {
			return err
		}
		return record(ctx, tx, actor, p.Organization, "policy.updated", "policy", string(id), p.told(map[string]any{"level": p.Level}))
	})
}

// told is what the audit log says of a policy: with both queries while one is awaited.
func (p Policy) told(details map[string]any) map[string]any {
	if details["name"] = p.Name; p.Kind == OPA {
		details["query"] = p.Query
	}
	if p.Awaited != "" {
		details["query_awaited"] = p.Awaited
	}
	return details
}

// UploadPolicy sets the content of a policy (of OPA: a module of Rego), and with it the query in
// force to the one that was said last. It is compiled, and its own tests are run: Invalid
// "policy_refused" with what is wrong.
func (s *Service) UploadPolicy(ctx context.Context, actor authz.Actor, id ids.Policy, content []byte) error {
	p, _, err := s.policyContent(ctx, actor, authz.PoliciesManage, id)
	if err != nil {
		return err
	}
	if len(content) > maxContent {
		return fault.New(fault.TooLarge, "policy_too_large", "A policy may have at most %d bytes.", maxContent)
	}
	if err := s.checkContent(ctx, p, p.Wanted(), content); err != nil {
		return p.stillWaits(err)
	}
	sum := sha256.Sum256(content)
	_, err = s.changePolicy(ctx, "policies.upload-policy", actor, id, func(tx postgres.Tx, now Policy) error {
		if now.Wanted() != p.Wanted() {
			return fault.New(fault.Conflict, "policy_changed", "The query of policy %q was changed at the same time. Try again.", p.Name)
		}
		now.ask(p.Wanted(), true)
		sealed, err := s.objects.SealValue(ctx, tx, p.Organization, contentLabel(id), content)
		if err != nil {
			return err
		}
		digest := hex.EncodeToString(sum[:])
		args := postgres.Args{"id": id, "query": now.Query, "content_sealed": sealed, "content_digest": digest}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PolicyContent"), args); err != nil {
			return err
		}
		return record(ctx, tx, actor, p.Organization, "policy.uploaded", "policy", string(id), now.told(map[string]any{"sha256": digest}))
	})
	return err
}

// stillWaits adds to a refusal of content what it was to answer, and what is in force meanwhile.
func (p Policy) stillWaits(refusal error) error {
	var why *fault.Error
	if p.Awaited == "" || !errors.As(refusal, &why) || why.Code != codeRefused {
		return refusal
	}
	return fault.New(why.Kind, why.Code,
		"%s. The policy awaits content that answers the query %s; until then the query %s and the content before are in force. To change the content alone, set the query back to %s.",
		why.Message, p.Awaited, p.Query, p.Query)
}

// DownloadPolicy gives the content as it was uploaded. NotFound before that.
func (s *Service) DownloadPolicy(ctx context.Context, actor authz.Actor, id ids.Policy) ([]byte, error) {
	p, content, err := s.policyContent(ctx, actor, authz.PoliciesRead, id)
	if err == nil && content == nil {
		err = fault.New(fault.NotFound, "no_bytes", "Policy %q has no content yet. Upload some.", p.Name)
	}
	return content, err
}

// DeletePolicy removes a policy, from every set that it is in.
func (s *Service) DeletePolicy(ctx context.Context, actor authz.Actor, id ids.Policy) error {
	_, err := s.changePolicy(ctx, "policies.delete-policy", actor, id, func(tx postgres.Tx, p Policy) error {
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PolicyDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return record(ctx, tx, actor, p.Organization, "policy.deleted", "policy", string(id), map[string]any{"name": p.Name})
	})
	return err
}

func (s *Service) policyContent(ctx context.Context, actor authz.Actor, action authz.Action, id ids.Policy) (p Policy, content []byte, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.policy-content", func(tx postgres.Tx) error {
		if p, err = allowedPolicy(ctx, tx, actor, action, id); err != nil || p.ContentSealed == nil {
			return err
		}
		content, err = s.objects.OpenValue(ctx, tx, p.Organization, contentLabel(id), p.ContentSealed)
		return err
	})
	return p, content, err
}

// changePolicy runs fn on a policy under its lock and those of the sets it is in, and puts
// their versions together anew.
func (s *Service) changePolicy(ctx context.Context, name string, actor authz.Actor, id ids.Policy, fn func(tx postgres.Tx, p Policy) error) (p Policy, err error) {
	err = postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		sets, err := postgres.Values[ids.PolicySet](ctx, tx, Queries.Get("SetsOfPolicy"), postgres.Args{"id": id})
		if err != nil {
			return err
		}
		for _, set := range sets { // before the policy, as whoever adds it to a set does
			if err := lockSet(ctx, tx, set); err != nil {
				return err
			}
		}
		if _, err := postgres.Value[ids.Policy](ctx, tx, Queries.Get("PolicyLock"), postgres.Args{"id": id}); err != nil && !postgres.NoRow(err) {
			return err
		}
		if p, err = allowedPolicy(ctx, tx, actor, authz.PoliciesManage, id); err != nil {
			return err
		}
		if err := fn(tx, p); err != nil {
			return err
		}
		for _, id := range sets {
			set, err := postgres.One[Set](ctx, tx, Queries.Get("SetGet"), postgres.Args{"id": id})
			if err == nil {
				err = s.composeVersion(ctx, tx, set)
			}
			if err != nil {
				return err
			}
		}
		after, err := postgres.One[Policy](ctx, tx, Queries.Get("PolicyGet"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return nil // it was deleted
		}
		p = after
		return err
	})
	return p, err
}

// errUnanswered is the cause of a refusal for nothing but a query whose rule the content does not have.
var errUnanswered = errors.New("the content does not answer the query")

// checkContent has a policy with that query compiled in the syntax of every set that it is in; one
// that is in none may be written in either.
func (s *Service) checkContent(ctx context.Context, p Policy, query string, content []byte) error {
	if p.Kind != OPA {
		return nil
	}
	p.Query = query
	versions, err := s.syntaxes(ctx, p.ID)
	if err != nil {
		return err
	}
	if len(versions) > 0 {
		var unanswered error
		for _, version := range versions {
			if err := s.compiles(ctx, p, content, version); errors.Is(err, errUnanswered) {
				unanswered = err
			} else if err != nil {
				return err
			}
		}
		return unanswered
	}
	old := s.compiles(ctx, p, content, evaluator.V0)
	if old == nil {
		return nil
	}
	if modern := s.compiles(ctx, p, content, evaluator.V1); modern == nil || !errors.Is(old, errUnanswered) {
		return modern
	}
	return old
}

func (s *Service) compiles(ctx context.Context, p Policy, content []byte, version evaluator.RegoVersion) error {
	verdict, err := s.runtime.Publish(ctx, evaluator.Bundle{Rego: version, Modules: []evaluator.Module{p.module(content)}, Policies: []evaluator.Policy{p.evaluated()}})
	if err == nil && len(verdict.Errors) > 0 {
		err = refused(verdict)
	}
	return err
}

func (s *Service) syntaxes(ctx context.Context, id ids.Policy) (versions []evaluator.RegoVersion, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.syntaxes", func(tx postgres.Tx) error {
		texts, err := postgres.Values[string](ctx, tx, Queries.Get("SyntaxesOfPolicy"), postgres.Args{"id": id})
		for _, text := range texts {
			versions = append(versions, evaluator.RegoVersion(text))
		}
		return err
	})
	return versions, err
}

// checkMembers has the policies that are about to go into a set compiled in its syntax.
func (s *Service) checkMembers(ctx context.Context, actor authz.Actor, version evaluator.RegoVersion, members []string) error {
	for _, member := range members {
		p, content, err := s.policyContent(ctx, actor, authz.PoliciesRead, ids.Policy(member))
		if err != nil {
			return err
		}
		if p.Kind != OPA || content == nil {
			continue
		}
		if err := s.compiles(ctx, p, content, version); err != nil {
			return err
		}
	}
	return nil
}

// modulePath is the policy's file, under its name, which no other policy of a set has.
func (p Policy) modulePath() string { return p.Name + "/" + path.Base(p.Path) }

func (p Policy) module(content []byte) evaluator.Module {
	return evaluator.Module{Path: p.modulePath(), Content: string(content)}
}

func (p Policy) evaluated() evaluator.Policy {
	return evaluator.Policy{Name: p.Name, Description: p.Description, Query: p.Query, Level: evaluator.Level(p.Level), Only: p.modulePath()}
}

const codeRefused = "policy_refused"

func refused(v evaluator.Verdict) error {
	refusal := fault.New(fault.Invalid, codeRefused, "The policies are refused: %s", strings.Join(v.Errors, "; "))
	if v.Unanswered {
		return refusal.Because(errUnanswered)
	}
	return refusal
}
