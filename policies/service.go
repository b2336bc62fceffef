package policies

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Service keeps policy sets and judges plans by them.
type Service struct {
	db      *postgres.DB
	objects *artifacts.Service
	runtime *Runtime
}

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service, runtime *Runtime) *Service {
	return &Service{db: db, objects: objects, runtime: runtime}
}

// Runtime is the policy-runner that this service uses.
func (s *Service) Runtime() *Runtime { return s.runtime }

// Kind is the language of a policy or a set.
type Kind string

// The kinds.
const (
	OPA      Kind = "opa"
	Sentinel Kind = "sentinel" // kept, and never evaluated
)

func checkKind(kind Kind) error {
	if kind != OPA && kind != Sentinel {
		return accounts.Invalid("kind", "Kind must be %s or %s", OPA, Sentinel)
	}
	return nil
}

// Page is a part of a list.
type Page struct{ Limit, Offset int }

// Filter of sets or policies. Empty members match all.
type Filter struct {
	Search    string // a part of the name, in any case
	Kind      Kind
	Versioned *bool  // of sets: whether their policies are uploaded with them
	Sort      string // of policies: name or updated-at, or one of them with - before it; empty is name
	Page      Page
}

func (f Filter) args(org ids.Organization) postgres.Args {
	return postgres.Args{"organization_id": org, "search": f.Search, "kind": string(f.Kind), "versioned": f.Versioned, "sort": f.Sort, "limit": f.Page.Limit, "offset": f.Page.Offset}
}

// list reads one page and the count of all.
func list[T any](ctx context.Context, tx postgres.Tx, items, count string, args postgres.Args) (page []T, total int, err error) {
	if page, err = postgres.All[T](ctx, tx, Queries.Get(items), args); err != nil {
		return nil, 0, err
	}
	total, err = postgres.Value[int](ctx, tx, Queries.Get(count), args)
	return page, total, err
}

// record writes the audit row of a change.
func record(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, action, kind, id string, details map[string]any) error {
	return audit.Append(ctx, tx, audit.Entry{Organization: org, Actor: actor, Action: action, ObjectKind: kind, ObjectID: id, Details: details})
}

func nameTaken(err error, constraint string) error {
	if _, got := postgres.Violation(err); got == constraint {
		return accounts.Taken("name", "Name")
	}
	return err
}

const (
	maxName        = 90
	maxDescription = 1000
	maxContent     = 1 << 20 // bytes of one policy
)

func checkName(name string) error {
	if name == "" {
		return accounts.Invalid("name", "Name can't be blank")
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return accounts.Invalid("name", "Name can only include letters, numbers, -, and _")
		}
	}
	return accounts.CheckText("name", "Name", name, maxName)
}

// Set gives one policy set.
func (s *Service) Set(ctx context.Context, actor authz.Actor, id ids.PolicySet) (set Set, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.set", func(tx postgres.Tx) error {
		set, err = allowedSet(ctx, tx, actor, authz.PoliciesRead, id)
		return err
	})
	return set, err
}

func allowedSet(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.PolicySet) (Set, error) {
	set, err := postgres.One[Set](ctx, tx, Queries.Get("SetGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Set{}, fault.Missing("policy set", string(id))
	}
	if err != nil {
		return Set{}, fmt.Errorf("read the policy set: %w", err)
	}
	return set, authz.Allow(actor, action, authz.Object{Organization: set.Organization, Noun: "policy set", Name: string(id)})
}

// changeSet runs fn on a set that the actor may change, under its lock, and gives it as it is then.
func (s *Service) changeSet(ctx context.Context, name string, actor authz.Actor, id ids.PolicySet, fn func(tx postgres.Tx, set Set) error) (set Set, err error) {
	err = postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		if set, err = allowedSet(ctx, tx, actor, authz.PoliciesManage, id); err != nil {
			return err
		}
		if err := lockSet(ctx, tx, id); err != nil {
			return err
		}
		if set, err = allowedSet(ctx, tx, actor, authz.PoliciesManage, id); err != nil {
			return err
		}
		if err := fn(tx, set); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("SetTouched"), postgres.Args{"id": id}); err != nil {
			return err
		}
		after, err := postgres.One[Set](ctx, tx, Queries.Get("SetGet"), postgres.Args{"id": id})
		if !postgres.NoRow(err) { // it may have been deleted
			set = after
			return err
		}
		return nil
	})
	return set, err
}

func lockSet(ctx context.Context, tx postgres.Tx, id ids.PolicySet) error {
	_, err := postgres.Value[ids.PolicySet](ctx, tx, Queries.Get("SetLock"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return fault.Missing("policy set", string(id))
	}
	return err
}

// release is the runtime's, for the rows that it answers for.
func (s *Service) release() (version, digest string) {
	r := s.runtime.Release()
	return r.Version, r.Digest
}

func levels(kind Kind) []string {
	if kind == OPA {
		return []string{string(evaluator.Advisory), string(evaluator.Mandatory)}
	}
	return []string{"advisory", "soft-mandatory", "hard-mandatory"}
}
