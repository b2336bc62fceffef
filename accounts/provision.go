package accounts

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"strings"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// What follows is for package scim, which asks whether the actor may and holds the lock
// that lets one change of an identity provider happen after the other.

// Provision gives the account for a person of an identity provider: the one that has the
// e-mail address already, else a new one. name is what the person is called there; the username
// is made from it. Errors: Invalid for an address that is none; Conflict "kept_by_hand" for the
// address of a site admin made by hand, whom no identity provider may lock out, and
// "several_users" for one that several have.
func Provision(ctx context.Context, tx postgres.Tx, actor authz.Actor, name, email string) (User, error) {
	if err := checkEmail(email); err != nil {
		return User{}, err
	}
	type candidate struct {
		ID                 ids.User
		Invited, SiteAdmin bool
	}
	found, err := postgres.All[candidate](ctx, tx, queries.Get("ProvisionCandidates"), postgres.Args{"email": email})
	switch {
	case err != nil:
		return User{}, err
	case len(found) == 2 && !found[1].Invited:
		return User{}, fault.New(fault.Conflict, "several_users", "Several users have the e-mail address %s. Give them different ones first.", email)
	case len(found) > 0 && found[0].SiteAdmin:
		return User{}, fault.New(fault.Conflict, "kept_by_hand", "%s is a site admin who was made by hand, and is kept by hand.", email)
	}
	username, err := freeUsername(ctx, tx, name)
	if err != nil {
		return User{}, err
	}
	var user User
	action := "user.created"
	if len(found) > 0 {
		action = "user.adopted"
		if user, err = postgres.One[User](ctx, tx, queries.Get("UserAdopt"), postgres.Args{"id": found[0].ID, "username": username}); err == nil {
			_, err = postgres.Exec(ctx, tx, queries.Get("MembershipsAccept"), postgres.Args{"user_id": user.ID})
		}
	} else {
		user, err = postgres.One[User](ctx, tx, queries.Get("UserInsert"), postgres.Args{"id": ids.New[ids.User](), "username": username, "email": email, "site_admin": false})
	}
	if violates(err, "users_username") { // somebody took it just now
		return User{}, fault.New(fault.Conflict, "username_taken", "The username %s was taken at the same time. Try again.", username)
	}
	if err != nil {
		return User{}, err
	}
	return user, audit.Append(ctx, tx, entryOf(actor, action, user.ID, map[string]any{"username": user.Username}))
}

var notInUsernames = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// freeUsername makes a name that nobody has from what a person is called, which is often an
// e-mail address.
func freeUsername(ctx context.Context, tx postgres.Tx, called string) (string, error) {
	local, _, _ := strings.Cut(called, "@")
	base := strings.Trim(notInUsernames.ReplaceAllString(local, "-"), "-")
	if base == "" {
		base = "user"
	}
	base = base[:min(len(base), 40)]
	names := []string{base}
	for n := 2; n < 10; n++ {
		names = append(names, fmt.Sprintf("%s-%d", base, n))
	}
	names = append(names, base+"-"+strings.ToLower(rand.Text()[:12]))
	name, err := postgres.Value[string](ctx, tx, queries.Get("UsernameFree"), postgres.Args{"names": names})
	if err != nil {
		return "", fmt.Errorf("find a free username: %w", err)
	}
	return name, nil
}

// SetProvisionedEmail gives the user another e-mail address.
func SetProvisionedEmail(ctx context.Context, tx postgres.Tx, user ids.User, email string) error {
	if err := checkEmail(email); err != nil {
		return err
	}
	_, err := postgres.One[User](ctx, tx, queries.Get("UserUpdate"), postgres.Args{"id": user, "username": (*string)(nil), "email": email})
	return err
}

// SetActive deactivates a user, or lets it back in. From the commit on, no token and no session
// of a user who is deactivated counts, for good: who comes back needs new ones. It cannot sign in,
// and what it had asked for earlier happens without any right.
func SetActive(ctx context.Context, tx postgres.Tx, actor authz.Actor, user ids.User, active bool) error {
	query, action := "UserDeactivate", "user.deactivated"
	if active {
		query, action = "UserReactivate", "user.reactivated"
	}
	n, err := postgres.Exec(ctx, tx, queries.Get(query), postgres.Args{"id": user})
	if err != nil || (active && n == 0) {
		return err // it was active
	}
	// Of who comes back, too: a token may have been made in the meantime.
	tokens, err := postgres.Exec(ctx, tx, queries.Get("UserTokensEnd"), postgres.Args{"user_id": user})
	if err != nil {
		return err
	}
	sessions, err := postgres.Exec(ctx, tx, queries.Get("SessionsEnd"), postgres.Args{"user_id": user})
	if err != nil || n+tokens+sessions == 0 {
		return err
	}
	return audit.Append(ctx, tx, entryOf(actor, action, user, map[string]any{"tokens": tokens, "sessions": sessions}))
}

// Deprovision deactivates a user and takes it out of its organizations, except where it is the
// last owner. The account stays, without any right: what it did bears its name.
func Deprovision(ctx context.Context, tx postgres.Tx, actor authz.Actor, user ids.User) error {
	if err := SetActive(ctx, tx, actor, user, false); err != nil {
		return err
	}
	if _, err := postgres.Values[ids.Team](ctx, tx, queries.Get("OwnersLockOf"), postgres.Args{"user_id": user}); err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("MembershipsDeleteOf"), postgres.Args{"user_id": user})
	if err != nil {
		return err
	}
	return audit.Append(ctx, tx, entryOf(actor, "user.deprovisioned", user, map[string]any{"memberships": n}))
}

// FollowTeam makes exactly the users the members of the team. Who does not belong to its
// organization is made a member of that, and leaves it again with the last team there. A team that
// is gone is left alone.
func FollowTeam(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Team, users []ids.User) error {
	if _, err := postgres.Values[ids.Team](ctx, tx, queries.Get("TeamLock"), postgres.Args{"id": id}); err != nil {
		return err
	}
	team, err := loadTeam(ctx, tx, id)
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	args := postgres.Args{"organization_id": team.Organization, "team_id": id, "users": append([]ids.User{}, users...)}
	if _, err := postgres.Exec(ctx, tx, queries.Get("MembersProvision"), args); err != nil {
		return err
	}
	added, err := postgres.Values[ids.User](ctx, tx, queries.Get("TeamMembersFollow"), args)
	if err != nil {
		return err
	}
	removed, err := postgres.Values[ids.User](ctx, tx, queries.Get("TeamMembersElse"), args)
	if err != nil {
		return err
	}
	if len(added) > 0 {
		if err := auditMembers(ctx, tx, actor, team, "team.members-added", added, nil); err != nil {
			return err
		}
	}
	if len(removed) == 0 {
		return nil
	}
	left, err := postgres.Values[ids.User](ctx, tx, queries.Get("MembersUnprovision"), postgres.Args{"organization_id": team.Organization, "users": removed})
	if err != nil {
		return err
	}
	return auditTeam(ctx, tx, actor, team.Organization, id, "team.members-removed", map[string]any{"users": removed, "left": left})
}

// KeepProvisioned says which teams have their members from the identity provider alone.
func KeepProvisioned(ctx context.Context, tx postgres.Tx, teams []ids.Team) error {
	_, err := postgres.Exec(ctx, tx, queries.Get("TeamsProvisioned"), postgres.Args{"teams": append([]ids.Team{}, teams...)})
	return err
}

// KeepAdmins says which users are site admins because the identity provider says so. Those who
// were made by hand are not touched.
func KeepAdmins(ctx context.Context, tx postgres.Tx, actor authz.Actor, users []ids.User) error {
	type row struct {
		ID    ids.User
		Given bool
	}
	changed, err := postgres.All[row](ctx, tx, queries.Get("AdminsProvisioned"), postgres.Args{"users": append([]ids.User{}, users...)})
	if err != nil {
		return err
	}
	for _, r := range changed {
		action := map[bool]string{true: "user.made-site-admin", false: "user.no-site-admin"}[r.Given]
		if err := audit.Append(ctx, tx, entryOf(actor, action, r.ID, nil)); err != nil {
			return err
		}
	}
	return nil
}

// byHand refuses to change who belongs to a team that follows a group.
func (t Team) byHand() error {
	if !t.Provisioned {
		return nil
	}
	return fault.New(fault.Conflict, "team_provisioned", "The members of team %q come from the identity provider. Change its group there, or have a site admin pause the link.", t.Name)
}
