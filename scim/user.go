package scim

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Person is a user as the identity provider keeps it.
type Person struct {
	ID         ids.User
	UserName   string // unique in any case; what the person is called here is made from it once
	ExternalID string
	Email      string // empty: none
	Active     bool
	Attributes json.RawMessage // an object with what else the identity provider says, kept as it is
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// the limits keep one document from filling the database.
const (
	maxName       = 255
	maxAttributes = 32 << 10 // bytes
)

func (p Person) check() error {
	switch {
	case strings.TrimSpace(p.UserName) == "":
		return accounts.Invalid("userName", "userName must not be empty")
	case len(p.Attributes) > maxAttributes:
		return accounts.Invalid("attributes", "The user's attributes are larger than %d bytes", maxAttributes)
	case !accounts.Storable(string(p.Attributes)) || strings.Contains(string(p.Attributes), `\u0000`):
		return accounts.Invalid("attributes", "The user's attributes must be UTF-8 text without NUL characters")
	}
	if err := accounts.CheckText("userName", "userName", p.UserName, maxName); err != nil {
		return err
	}
	return accounts.CheckText("externalId", "externalId", p.ExternalID, maxName)
}

func (p Person) args() postgres.Args {
	return postgres.Args{"user_id": p.ID, "user_name": p.UserName, "external_id": p.ExternalID, "active": p.Active, "attributes": string(p.Attributes)}
}

// taken is the answer for a userName in use.
func taken(userName string) error {
	return fault.New(fault.Conflict, "taken", "There is a user with the userName %q already.", userName)
}

// CreatePerson makes an account, or takes the one with the same e-mail address. Errors: Invalid;
// Conflict "taken", or as accounts.Provision.
func (s *Service) CreatePerson(ctx context.Context, actor authz.Actor, p Person) (made Person, err error) {
	if err := p.check(); err != nil {
		return Person{}, err
	}
	err = s.provisioning(ctx, "scim.create-person", actor, func(tx postgres.Tx) error {
		exists, err := postgres.Value[bool](ctx, tx, Queries.Get("PersonNamed"), postgres.Args{"user_name": p.UserName})
		if err != nil {
			return err
		}
		if exists {
			return taken(p.UserName)
		}
		user, err := accounts.Provision(ctx, tx, actor, p.UserName, p.Email)
		if err != nil {
			return err
		}
		p.ID = user.ID
		n, err := postgres.Exec(ctx, tx, Queries.Get("PersonInsert"), p.args())
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.New(fault.Conflict, "taken", "The user with the e-mail address %q is there under another userName already.", p.Email)
		}
		if err := accounts.SetActive(ctx, tx, actor, p.ID, p.Active); err != nil {
			return err
		}
		made, err = loadPerson(ctx, tx, p.ID)
		return err
	})
	return made, err
}

// Person gives one by its id.
func (s *Service) Person(ctx context.Context, actor authz.Actor, id ids.User) (p Person, err error) {
	err = s.reading(ctx, "scim.person", actor, func(tx postgres.Tx) error {
		p, err = loadPerson(ctx, tx, id)
		return err
	})
	return p, err
}

func loadPerson(ctx context.Context, tx postgres.Tx, id ids.User) (Person, error) {
	p, err := postgres.One[Person](ctx, tx, Queries.Get("PersonByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Person{}, fault.Missing("user", string(id))
	}
	return p, err
}

// Match selects by exact values, all of them; nil selects nothing away. Names and addresses match
// in any case.
type Match struct {
	ID, UserName, DisplayName, ExternalID, Email *string
}

// storable tells whether rows can match at all: no column holds a NUL.
func (m Match) storable() bool {
	for _, text := range []*string{m.ID, m.UserName, m.DisplayName, m.ExternalID, m.Email} {
		if text != nil && !accounts.Storable(*text) {
			return false
		}
	}
	return true
}

func (m Match) args(p Page) postgres.Args {
	return postgres.Args{
		"id": m.ID, "user_name": m.UserName, "display_name": m.DisplayName, "external_id": m.ExternalID, "email": m.Email, "limit": p.Limit, "offset": p.Offset,
	}
}

// People gives those that match, the oldest first, and how many match in all.
func (s *Service) People(ctx context.Context, actor authz.Actor, m Match, page Page) (list []Person, total int, err error) {
	err = s.reading(ctx, "scim.people", actor, func(tx postgres.Tx) error {
		if !m.storable() {
			return nil
		}
		if list, err = postgres.All[Person](ctx, tx, Queries.Get("People"), m.args(page)); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("PeopleCount"), m.args(page))
		return err
	})
	return list, total, err
}

// ChangePerson gives the person as it is to change, and keeps what that makes of it. change
// may be called more than once. Errors: NotFound, those of change, and those of CreatePerson.
func (s *Service) ChangePerson(ctx context.Context, actor authz.Actor, id ids.User, change func(Person) (Person, error)) (after Person, err error) {
	err = s.provisioning(ctx, "scim.change-person", actor, func(tx postgres.Tx) error {
		before, err := loadPerson(ctx, tx, id)
		if err != nil {
			return err
		}
		p, err := change(before)
		if err != nil {
			return err
		}
		p.ID = id
		if err := p.check(); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PersonUpdate"), p.args()); err != nil {
			if _, constraint := postgres.Violation(err); constraint == "scim_users_name" {
				return taken(p.UserName)
			}
			return err
		}
		if !strings.EqualFold(p.Email, before.Email) {
			if err := s.changeEmail(ctx, tx, id, p.Email); err != nil {
				return err
			}
		}
		if err := accounts.SetActive(ctx, tx, actor, id, p.Active); err != nil {
			return err
		}
		if after, err = loadPerson(ctx, tx, id); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entry(actor, "user.provisioned", "user", string(id), map[string]any{"user_name": after.UserName, "active": after.Active}))
	})
	return after, err
}

// changeEmail refuses an address that somebody else has: invitations and the identity provider
// find people by it.
func (s *Service) changeEmail(ctx context.Context, tx postgres.Tx, id ids.User, email string) error {
	used, err := postgres.Value[bool](ctx, tx, Queries.Get("EmailUsed"), postgres.Args{"id": id, "email": email})
	if err != nil {
		return err
	}
	if used {
		return fault.New(fault.Conflict, "taken", "Another user has the e-mail address %q.", email)
	}
	return accounts.SetProvisionedEmail(ctx, tx, id, email)
}

// DeletePerson forgets the person: it is deactivated, leaves its groups, teams and organizations (but where it
// is the last owner), and is not found any more. The account stays, for what it did bears its name, and is taken
// up again when the identity provider makes somebody with the same address.
func (s *Service) DeletePerson(ctx context.Context, actor authz.Actor, id ids.User) error {
	return s.provisioning(ctx, "scim.delete-person", actor, func(tx postgres.Tx) error {
		if _, err := loadPerson(ctx, tx, id); err != nil {
			return err
		}
		teams, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("FollowingTeamsOfPerson"), postgres.Args{"user_id": id})
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PersonDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if err := follow(ctx, tx, actor, teams); err != nil {
			return err
		}
		if err := settleAdmins(ctx, tx, actor); err != nil {
			return err
		}
		return accounts.Deprovision(ctx, tx, actor, id)
	})
}

// Standing is what everybody who sees a user may know of its provisioning.
type Standing struct {
	User      ids.User
	Managed   bool // kept by the identity provider
	UserName  string
	UpdatedAt time.Time
}

// Standings gives those of the users, by id; none at all while SCIM is off. It asks about no
// right: whoever calls it shows the users anyway.
func (s *Service) Standings(ctx context.Context, users []ids.User) (found map[ids.User]Standing, err error) {
	err = postgres.InOneStatement(ctx, s.db, "scim.standings", func(tx postgres.Tx) error {
		rows, err := postgres.All[Standing](ctx, tx, Queries.Get("Standings"), postgres.Args{"users": append([]ids.User{}, users...)})
		found = make(map[ids.User]Standing, len(rows))
		for _, r := range rows {
			found[r.User] = r
		}
		return err
	})
	return found, err
}
