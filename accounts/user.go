package accounts

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// User is a person who can log in.
type User struct {
	ID        ids.User
	Username  string
	Email     string
	SiteAdmin bool
	// ServiceAccount is true of what is no person but the name under which a team's tokens work.
	ServiceAccount bool
	Invited        bool // only an address so far, without a name
	CreatedAt      time.Time
}

// NewUser is what a user is made from. Email may be empty.
type NewUser struct {
	Username  string
	Email     string
	SiteAdmin bool
}

var usernameRule = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,60}$`)

// CreateUser makes a user who belongs to no organization yet. Only for site admins, who
// must be stepped up (as RequireStepUp) to make another one.
// A name in use or against the rule is Invalid.
func (s *Service) CreateUser(ctx context.Context, actor authz.Actor, n NewUser) (User, error) {
	if err := allowSite(actor, administer); err != nil {
		return User{}, err
	}
	if !usernameRule.MatchString(n.Username) {
		return User{}, Invalid("username", "Username may only contain letters, numbers and the characters . - _, at most 60 of them")
	}
	if err := checkEmail(n.Email); err != nil {
		return User{}, err
	}
	var user User
	err := postgres.InTx(ctx, s.db, "accounts.create-user", func(tx postgres.Tx) (err error) {
		if n.SiteAdmin {
			if err := s.demandStepUp(ctx, tx, actor); err != nil {
				return err
			}
		}
		if user, err = claimInvitation(ctx, tx, n); postgres.NoRow(err) {
			user, err = postgres.One[User](ctx, tx, queries.Get("UserInsert"), postgres.Args{
				"id": ids.New[ids.User](), "username": n.Username, "email": n.Email, "site_admin": n.SiteAdmin,
			})
		}
		if violates(err, "users_username") {
			return Taken("username", "Username")
		}
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Actor: actor, Action: "user.created", ObjectKind: "user", ObjectID: string(user.ID), Details: map[string]any{"site_admin": n.SiteAdmin},
		})
	})
	return user, err
}

// claimInvitation gives the new user the place that was kept for its address, with its
// memberships; no row when it was never invited.
func claimInvitation(ctx context.Context, tx postgres.Tx, n NewUser) (User, error) {
	if n.Email == "" {
		return User{}, postgres.ErrNoRow
	}
	user, err := postgres.One[User](ctx, tx, queries.Get("UserClaim"), postgres.Args{"username": n.Username, "email": n.Email, "site_admin": n.SiteAdmin})
	if err != nil {
		return User{}, err
	}
	_, err = postgres.Exec(ctx, tx, queries.Get("MembershipsAccept"), postgres.Args{"user_id": user.ID})
	return user, err
}

func checkEmail(email string) error {
	if err := CheckText("email", "Email", email, 254); err != nil {
		return err
	}
	local, domain, ok := strings.Cut(email, "@")
	if email != "" && (!ok || local == "" || domain == "" || strings.ContainsAny(email, " \t\r\n")) {
		return Invalid("email", "Email is not an e-mail address")
	}
	return nil
}

// Me gives the user behind the actor. An actor that is no user is NotFound.
func (s *Service) Me(ctx context.Context, actor authz.Actor) (User, error) {
	return s.User(ctx, actor, actor.User)
}

// UpdateMe changes what is said of the user behind the actor, who signs in with the new
// name from then on. It is refused like CreateUser.
func (s *Service) UpdateMe(ctx context.Context, actor authz.Actor, username, email *string) (User, error) {
	if actor.Kind != authz.UserActor {
		return User{}, fault.Missing("user", actor.Name)
	}
	if username != nil && !usernameRule.MatchString(*username) {
		return User{}, Invalid("username", "Username may only contain letters, numbers and the characters . - _, at most 60 of them")
	}
	if email != nil {
		if err := checkEmail(*email); err != nil {
			return User{}, err
		}
	}
	var user User
	err := postgres.InTx(ctx, s.db, "accounts.update-me", func(tx postgres.Tx) error {
		before, err := findUser(ctx, tx, actor.User)
		if err != nil {
			return err
		}
		user, err = postgres.One[User](ctx, tx, queries.Get("UserUpdate"), postgres.Args{"id": actor.User, "username": username, "email": email})
		if violates(err, "users_username") {
			return Taken("username", "Username")
		}
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Actor: actor, Action: "user.updated", ObjectKind: "user", ObjectID: string(user.ID), Details: map[string]any{"username_before": before.Username, "username": user.Username},
		})
	})
	return user, err
}

// User gives a user the actor may see: itself, a member of one of its organizations,
// or anybody for a site admin. Everybody else is NotFound.
func (s *Service) User(ctx context.Context, actor authz.Actor, id ids.User) (User, error) {
	return s.visibleUser(ctx, actor, string(id), func(tx postgres.Tx) (User, error) { return findUser(ctx, tx, id) })
}

// UserByName is User by the exact username.
func (s *Service) UserByName(ctx context.Context, actor authz.Actor, username string) (User, error) {
	return s.visibleUser(ctx, actor, username, func(tx postgres.Tx) (User, error) { return findUserByName(ctx, tx, username) })
}

func (s *Service) visibleUser(ctx context.Context, actor authz.Actor, asked string, find func(postgres.Tx) (User, error)) (User, error) {
	var user User
	err := postgres.InSnapshot(ctx, s.db, "accounts.user", func(tx postgres.Tx) (err error) {
		if user, err = find(tx); err != nil {
			return err
		}
		if allowSelf(actor, user.ID, asked) == nil || (actor.Kind == authz.TeamActor && actor.User == user.ID) {
			return nil
		}
		known, err := postgres.Value[bool](ctx, tx, queries.Get("UserBelongs"), postgres.Args{
			"user_id": user.ID, "organizations": organizationsOf(actor),
		})
		if err == nil && !known {
			return fault.Missing("user", asked)
		}
		return err
	})
	if err != nil {
		return User{}, err
	}
	return user, nil
}

// Users gives the users that exist among those asked for, to show their names.
func (s *Service) Users(ctx context.Context, tx postgres.Tx, users ...ids.User) (map[ids.User]User, error) {
	found, err := postgres.All[User](ctx, tx, queries.Get("UsersByID"), postgres.Args{"ids": users})
	if err != nil {
		return nil, err
	}
	byID := make(map[ids.User]User, len(found))
	for _, u := range found {
		byID[u.ID] = u
	}
	return byID, nil
}

// allowSelf asks whether actor may act for user: the user does for itself, a site
// admin for all. asked is how the caller named the user.
func allowSelf(actor authz.Actor, user ids.User, asked string) error {
	if actor.Kind == authz.UserActor && actor.User == user {
		return nil
	}
	if authz.Can(actor, administer, authz.Object{}) {
		return nil
	}
	return fault.Missing("user", asked)
}

func findUser(ctx context.Context, tx postgres.Tx, id ids.User) (User, error) {
	user, err := postgres.One[User](ctx, tx, queries.Get("UserByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return User{}, fault.Missing("user", string(id))
	}
	return user, err
}

func findUserByName(ctx context.Context, tx postgres.Tx, username string) (User, error) {
	if !usernameRule.MatchString(username) {
		return User{}, fault.Missing("user", username)
	}
	user, err := postgres.One[User](ctx, tx, queries.Get("UserByName"), postgres.Args{"username": username})
	if postgres.NoRow(err) {
		return User{}, fault.Missing("user", username)
	}
	return user, err
}
