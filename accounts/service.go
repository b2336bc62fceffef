package accounts

import (
	"context"
	_ "embed"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

//go:embed teams.sql
var teamsSQL string

//go:embed site.sql
var siteSQL string

//go:embed provision.sql
var provisionSQL string

var queries = postgres.ParseQueries(queriesSQL + "\n" + teamsSQL + "\n" + siteSQL + "\n" + provisionSQL)

// Sealer makes the key under which everything of an organization is sealed, and seals
// what belongs to a user, who is in no organization or in several.
type Sealer interface {
	CreateOrganizationKey(ctx context.Context, tx postgres.Tx, org ids.Organization) error
	SealSiteValue(ctx context.Context, label string, plain []byte) (rootVersion int, sealed []byte, err error)
	OpenSiteValue(ctx context.Context, label string, rootVersion int, sealed []byte) ([]byte, error)
}

// Service answers who is asking and keeps users and organizations.
type Service struct {
	db        *postgres.DB
	sealer    Sealer
	passwords passwordHasher
	window    time.Duration // how long a step-up serves
}

// Option changes how the service works.
type Option func(*Service)

// StepUpWindow says how long a step-up serves, in place of DefaultStepUpWindow.
func StepUpWindow(window time.Duration) Option { return func(s *Service) { s.window = window } }

// New makes the service. A program that creates no organizations and checks no second
// factors may give a nil sealer.
func New(db *postgres.DB, sealer Sealer, options ...Option) *Service {
	s := &Service{db: db, sealer: sealer, passwords: newPasswordHasher(), window: DefaultStepUpWindow}
	for _, option := range options {
		option(s)
	}
	return s
}

// administer is the right to keep users and runner groups of the site. It stands in
// no role's row, so only site admins and the server itself have it.
const administer authz.Action = "site:administer"

// allowSite asks for an action on the site as a whole. That the site exists is no
// secret, so a refusal is Forbidden and not NotFound.
func allowSite(actor authz.Actor, action authz.Action) error {
	if authz.Can(actor, action, authz.Object{}) {
		return nil
	}
	return fault.New(fault.Forbidden, "forbidden", "You need the permission %s on this site. Ask a site admin to do this for you.", action)
}

// Page selects a part of a list. Numbers start at 1.
type Page struct {
	Number, Size int
	Whole        bool // all there is, for clients that read no second page
}

const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// Clamped gives the page that is really shown: number at least 1, size 20 when none
// is given and never over 100.
func (p Page) Clamped() Page {
	switch {
	case p.Size <= 0:
		p.Size = defaultPageSize
	case p.Size > maxPageSize:
		p.Size = maxPageSize
	}
	p.Number = max(p.Number, 1)
	return p
}

// Limit is the largest number of entries on the page.
func (p Page) Limit() int64 {
	if p.Whole {
		return math.MaxInt64
	}
	return int64(p.Clamped().Size)
}

// Offset is the number of entries before the page.
func (p Page) Offset() int64 {
	if p.Whole {
		return 0
	}
	const farEnough = 1 << 31 // no list is as long; without it a huge number would overflow
	return int64(min(p.Clamped().Number, farEnough)-1) * p.Limit()
}

// CheckText refuses text that cannot be stored or is longer than limit bytes. field
// is the member of the request's attributes and name its name for people.
func CheckText(field, name, text string, limit int) error {
	switch {
	case len(text) > limit:
		return Invalid(field, "%s is too long: at most %d bytes", name, limit)
	case !Storable(text):
		return Invalid(field, "%s must be UTF-8 text without NUL characters", name)
	}
	return nil
}

// Storable tells whether PostgreSQL can hold the text; no row can match any other.
func Storable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// Invalid is the answer for an attribute that breaks a rule.
func Invalid(field, message string, args ...any) error {
	return fault.New(fault.Invalid, "invalid_attribute", message, args...).At("/data/attributes/" + field)
}

// Taken is the answer for a name or key that must be unique and is in use.
func Taken(field, name string) error { return Invalid(field, "%s has already been taken", name) }

// violates tells whether err is the database's refusal by the named constraint.
func violates(err error, constraint string) bool {
	_, got := postgres.Violation(err)
	return got == constraint
}
