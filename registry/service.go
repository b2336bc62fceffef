package registry

import (
	"context"
	_ "embed"
	"regexp"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Limits bound uploads, in bytes.
type Limits struct {
	Module   int64 // of the archive of a module's version
	Provider int64 // of the package of a provider
}

// DefaultLimits are those of a server that is told nothing else.
func DefaultLimits() Limits { return Limits{Module: 100_000_000, Provider: 1 << 30} }

// Service keeps modules, providers and keys.
type Service struct {
	db      *postgres.DB
	objects *artifacts.Service
	limits  Limits
}

// New makes the service.
func New(db *postgres.DB, objects *artifacts.Service, limits Limits) *Service {
	return &Service{db: db, objects: objects, limits: limits}
}

// Name says in which registry something is.
type Name string

// The registries.
const (
	Private Name = "private"
	Public  Name = "public" // only recorded here
)

// Page is a part of a list.
type Page struct{ Limit, Offset int }

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

// What tofu takes for a part of an address; a provider's name may have _ here, as in Terraform
// Cloud, and is then a record that tofu does not ask for.
var (
	addressPart = regexp.MustCompile(`^[0-9A-Za-z](?:[0-9A-Za-z_-]{0,62}[0-9A-Za-z])?$`)
	systemPart  = regexp.MustCompile(`^[0-9a-z]{1,64}$`)
)

func checkPart(field, name, text string) error {
	if text == "" {
		return accounts.Invalid(field, "%s can't be blank", name)
	}
	if !addressPart.MatchString(text) {
		return accounts.Invalid(field, "%s may have letters, digits, - and _, at most 64, and begins and ends with a letter or digit", name)
	}
	return nil
}

// storedNamespace gives the namespace as rows have it. One that is not the organization's in
// the private registry, or no registry at all, belongs to nothing: ok is false.
func storedNamespace(registry Name, namespace string, org accounts.Organization) (stored string, ok bool) {
	switch registry {
	case Private:
		return "", namespace == org.Name
	case Public:
		return namespace, namespace != ""
	}
	return "", false
}

// organizationAs finds the organization that tofu means by a namespace. It writes those of
// providers in small letters, so the name may have others when it is the only one.
func organizationAs(ctx context.Context, tx postgres.Tx, actor authz.Actor, namespace string) (accounts.Organization, error) {
	org, err := accounts.SourceOf(ctx, tx, actor, accounts.SharedProviders, namespace)
	if !fault.Is(err, fault.NotFound) || !accounts.Storable(namespace) {
		return org, err
	}
	names, findErr := postgres.Values[string](ctx, tx, Queries.Get("OrganizationsFolded"), postgres.Args{"name": namespace})
	if findErr != nil {
		return accounts.Organization{}, findErr
	}
	if len(names) != 1 || names[0] == namespace {
		return accounts.Organization{}, err
	}
	other, otherErr := accounts.SourceOf(ctx, tx, actor, accounts.SharedProviders, names[0])
	if fault.Is(otherErr, fault.NotFound) {
		return accounts.Organization{}, err // it says what was asked for, and not how another's name is written
	}
	return other, otherErr
}

// allow asks for an action on something that is named by its id: NotFound, as for an id of
// nothing, where the actor does not see its organization.
func allow(actor authz.Actor, action authz.Action, org ids.Organization, noun, id string) error {
	return authz.Allow(actor, action, authz.Object{Organization: org, Noun: noun, Name: id})
}
