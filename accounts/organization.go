package accounts

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Organization owns projects and workspaces and has a key of its own. On the wire
// it goes by its name.
type Organization struct {
	ID                   ids.Organization
	Name                 string
	Email                string
	CreatedAt            time.Time
	DefaultProject       ids.Project // where workspaces go when nothing else is said
	DefaultExecutionMode ExecutionMode
	DefaultAgentPool     ids.RunnerGroup // of mode Agent, else empty
	SessionTimeout       *int            // minutes without use after which members are signed out of the pages, where that is sooner than for everybody
	SessionRemember      *int            // the same after they have signed in, used or not
	ForceDeleteAllowed   bool            // members who may delete a workspace may do so with what it manages
	UserTokensEnabled    bool            // false: no token of a user reaches it
	CommitStatuses
	FeatureSet       FeatureSet // that holds now
	FeatureSetEndsAt *time.Time // nil: it does not end
	FeatureSetEnded  bool
	GlobalRunTasks   bool // run tasks can be asked by all workspaces
	RetentionID      ids.RetentionPolicy
	RetentionDays    *int // nil: nothing is deleted
}

// CommitStatuses are what an organization says about its VCS connections, of which there are
// none: they are kept and shown, and nothing reads them.
type CommitStatuses struct {
	AggregatedCommitStatus    bool
	PassingCommitStatuses     bool // also of plans that nothing triggered; not beside the first
	SpeculativePlanManagement bool
}

// Placement is where runs of its workspaces are executed when nothing else is said.
func (o Organization) Placement() Placement {
	return Placement{Mode: o.DefaultExecutionMode, Pool: o.DefaultAgentPool}
}

// NewOrganization is what an organization is made from. Email may be empty.
type NewOrganization struct {
	Name, Email string
	OrganizationSettings
}

// OrganizationSettings are what can be said about an organization; what is nil stays, or
// is as by default.
type OrganizationSettings struct {
	DefaultExecutionMode *ExecutionMode
	DefaultAgentPool     *ids.RunnerGroup // empty is none
	SessionTimeout       *int             // 0 is none
	SessionRemember      *int             // 0 is none
	ForceDeleteAllowed   *bool
	UserTokensEnabled    *bool

	AggregatedCommitStatus, PassingCommitStatuses, SpeculativePlanManagement *bool
}

const longestSession = 14 * 24 * 60 // minutes

// check refuses settings that cannot be, beside those of before.
func (c OrganizationSettings) check(before CommitStatuses) error {
	set(&before.AggregatedCommitStatus, c.AggregatedCommitStatus)
	set(&before.PassingCommitStatuses, c.PassingCommitStatuses)
	if before.AggregatedCommitStatus && before.PassingCommitStatuses {
		return Invalid("aggregated-commit-status-enabled", "Aggregated commit status and send passing statuses for untriggered speculative plans exclude each other: turn one off")
	}
	for field, minutes := range map[string]*int{"session-timeout": c.SessionTimeout, "session-remember": c.SessionRemember} {
		if minutes != nil && (*minutes < 0 || *minutes > longestSession) {
			return Invalid(field, "The time of a session must be 1 to %d minutes, or null", longestSession)
		}
	}
	return nil
}

// args are the settings for a statement, with the placement that they come to.
func (c OrganizationSettings) args(id ids.Organization, name, email *string, p Placement) postgres.Args {
	return postgres.Args{
		"id": id, "name": name, "email": email, "default_execution_mode": string(p.Mode), "default_agent_pool_id": p.PoolOrNull(),
		"session_timeout": c.SessionTimeout, "session_remember": c.SessionRemember, "force_delete_allowed": c.ForceDeleteAllowed,
		"user_tokens_enabled": c.UserTokensEnabled, "aggregated_commit_status": c.AggregatedCommitStatus,
		"passing_commit_statuses": c.PassingCommitStatuses, "speculative_plan_management": c.SpeculativePlanManagement,
	}
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// checkLockout refuses to shut out user tokens to whoever asks with one: the next request would
// be refused, and nobody could take it back with what it has in hand.
func (c OrganizationSettings) checkLockout(actor authz.Actor) error {
	if c.UserTokensEnabled == nil || *c.UserTokensEnabled || actor.Kind != authz.UserActor || actor.Token == "" {
		return nil
	}
	return Invalid("user-tokens-enabled", "You ask with a user token, which would not reach the organization any more. Turn user tokens off with a token of the owners team")
}

var organizationName = regexp.MustCompile(`^[A-Za-z0-9_-]{3,40}$`)

func checkOrganizationName(name string) error {
	if !organizationName.MatchString(name) {
		return Invalid("name", "Name may only contain letters, numbers, - and _, and must be 3 to 40 characters long")
	}
	return nil
}

// CreateOrganization makes an organization with its key and its first owner, the
// user who asks, in the caller's transaction. For site admins, and for users where the
// site's settings let them. A name in use
// or against the rule is Invalid. What an organization contains from the start is
// added by package workspaces, which calls this.
func (s *Service) CreateOrganization(ctx context.Context, tx postgres.Tx, actor authz.Actor, n NewOrganization) (Organization, error) {
	if err := mayMakeOrganizations(ctx, tx, actor); err != nil {
		return Organization{}, err
	}
	if err := checkOrganizationName(n.Name); err != nil {
		return Organization{}, err
	}
	if err := checkEmail(n.Email); err != nil {
		return Organization{}, err
	}
	if err := n.check(CommitStatuses{}); err != nil {
		return Organization{}, err
	}
	if err := n.checkLockout(actor); err != nil {
		return Organization{}, err
	}
	placement, err := Placement{Mode: Remote}.Changed("default-", "Default agent pool", n.DefaultExecutionMode, n.DefaultAgentPool)
	if err != nil {
		return Organization{}, err
	}
	if placement.Pool != "" {
		return Organization{}, NoSuchPool() // it cannot be there before its organization
	}
	org, err := postgres.One[Organization](ctx, tx, queries.Get("OrganizationInsert"), n.args(ids.New[ids.Organization](), &n.Name, &n.Email, placement))
	if violates(err, "organizations_name") {
		return Organization{}, Taken("name", "Name")
	}
	if err != nil {
		return Organization{}, err
	}
	if err := s.sealer.CreateOrganizationKey(ctx, tx, org.ID); err != nil {
		return Organization{}, err
	}
	if actor.Kind == authz.UserActor {
		if err := setMember(ctx, tx, org.ID, actor.User, authz.Owner); err != nil {
			return Organization{}, err
		}
	}
	return org, audit.Append(ctx, tx, audit.Entry{
		Organization: org.ID, Actor: actor, Action: "organization.created", ObjectKind: "organization", ObjectID: string(org.ID),
	})
}

// OrganizationChanges are what an update says; what is nil stays.
type OrganizationChanges struct {
	Name, Email *string
	OrganizationSettings
}

// UpdateOrganization changes what is said and leaves the rest, in the caller's
// transaction. It is refused like CreateOrganization, and allowed to owners too. What the
// organization's workspaces inherit is changed by package workspaces, which calls this.
func UpdateOrganization(ctx context.Context, tx postgres.Tx, actor authz.Actor, name string, c OrganizationChanges) (Organization, error) {
	seen, err := AllowedOrganization(ctx, tx, actor, authz.OrganizationSettings, name)
	if err != nil {
		return Organization{}, err
	}
	before, err := lockOrganization(ctx, tx, seen.ID)
	if err != nil {
		return Organization{}, err
	}
	if c.Name != nil {
		if err := checkOrganizationName(*c.Name); err != nil {
			return Organization{}, err
		}
	}
	if c.Email != nil {
		if err := checkEmail(*c.Email); err != nil {
			return Organization{}, err
		}
	}
	if err := c.check(before.CommitStatuses); err != nil {
		return Organization{}, err
	}
	if err := c.checkLockout(actor); err != nil {
		return Organization{}, err
	}
	placement, err := before.Placement().Changed("default-", "Default agent pool", c.DefaultExecutionMode, c.DefaultAgentPool)
	if err != nil {
		return Organization{}, err
	}
	if err := HoldPool(ctx, tx, before.ID, placement); err != nil {
		return Organization{}, err
	}
	org, err := postgres.One[Organization](ctx, tx, queries.Get("OrganizationUpdate"), c.args(before.ID, c.Name, c.Email, placement))
	switch {
	case violates(err, "organizations_name"):
		return Organization{}, Taken("name", "Name")
	case err != nil:
		return Organization{}, err
	}
	return org, audit.Append(ctx, tx, audit.Entry{
		Organization: org.ID, Actor: actor, Action: "organization.updated", ObjectKind: "organization", ObjectID: string(org.ID),
		Details: map[string]any{"name_before": before.Name, "name": org.Name, "default_execution_mode": org.DefaultExecutionMode, "force_delete_allowed": org.ForceDeleteAllowed, "user_tokens_enabled": org.UserTokensEnabled},
	})
}

// TombstoneOrganization deletes a living organization in the caller's transaction:
// its name is free, its members and runner groups lose their rights in it, its rows
// stay (ST-23). What it contains is the caller's to end first. One that is deleted
// already is NotFound.
func TombstoneOrganization(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.Organization) error {
	n, err := postgres.Exec(ctx, tx, queries.Get("OrganizationTombstone"), postgres.Args{"id": id})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.Missing("organization", string(id))
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: id, Actor: actor, Action: "organization.deleted", ObjectKind: "organization", ObjectID: string(id),
	})
}

// Organization gives an organization by its exact name. One the actor does not
// belong to is NotFound.
func (s *Service) Organization(ctx context.Context, actor authz.Actor, name string) (Organization, error) {
	var org Organization
	err := postgres.InSnapshot(ctx, s.db, "accounts.organization", func(tx postgres.Tx) (err error) {
		org, err = AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, name)
		return err
	})
	return org, err
}

// AllowedOrganization gives the organization called name when actor may do action
// to it: NotFound when there is none or the actor does not see it, Forbidden when
// the actor sees it but may not.
func AllowedOrganization(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, name string) (Organization, error) {
	if !organizationName.MatchString(name) {
		return Organization{}, fault.Missing("organization", name)
	}
	org, err := postgres.One[Organization](ctx, tx, queries.Get("OrganizationByName"), postgres.Args{"name": name})
	if postgres.NoRow(err) {
		return Organization{}, fault.Missing("organization", name)
	}
	if err != nil {
		return Organization{}, err
	}
	if err := authz.Allow(actor, action, authz.Object{Organization: org.ID, Noun: "organization", Name: name}); err != nil {
		return Organization{}, err
	}
	return org, nil
}

// organizationsOf gives those that the actor may know of.
func organizationsOf(actor authz.Actor) []ids.Organization {
	visible := slices.Collect(maps.Keys(actor.Roles))
	if actor.Organization != "" && authz.Can(actor, authz.OrganizationRead, authz.Object{Organization: actor.Organization}) {
		visible = append(visible, actor.Organization)
	}
	return visible
}

func findOrganization(ctx context.Context, tx postgres.Tx, id ids.Organization) (Organization, error) {
	org, err := postgres.One[Organization](ctx, tx, queries.Get("OrganizationByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Organization{}, fault.Missing("organization", string(id))
	}
	return org, err
}

// lockOrganization gives an organization as it stands, and as it stays for the rest of the
// transaction: what is said of one part of it may have to fit to the others.
func lockOrganization(ctx context.Context, tx postgres.Tx, id ids.Organization) (Organization, error) {
	if err := postgres.Later(ctx, tx, queries.Get("OrganizationLock"), postgres.Args{"id": id}, nil); err != nil {
		return Organization{}, err
	}
	return findOrganization(ctx, tx, id)
}

// OrganizationSearch has parts of what is searched for, in any case: in the name or the e-mail
// address, in the name, and in the address.
type OrganizationSearch struct{ Any, Name, Email string }

// Organizations gives those the actor sees, by name, and how many there are in all.
func (s *Service) Organizations(ctx context.Context, actor authz.Actor, search OrganizationSearch, page Page) ([]Organization, int, error) {
	visible := organizationsOf(actor)
	args := postgres.Args{
		"all": authz.Can(actor, authz.OrganizationRead, authz.Object{}), "visible": visible, "barred": slices.AppendSeq([]ids.Organization{}, maps.Keys(actor.Barred)),
		"search": search.Any, "name": search.Name, "email": search.Email, "limit": page.Limit(), "offset": page.Offset(),
	}
	var orgs []Organization
	var total int
	err := postgres.InSnapshot(ctx, s.db, "accounts.organizations", func(tx postgres.Tx) (err error) {
		if orgs, err = postgres.All[Organization](ctx, tx, queries.Get("Organizations"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, queries.Get("OrganizationsCount"), args)
		return err
	})
	return orgs, total, err
}

// AddMember makes user a member of the organization with that role, or changes the
// role it has. For owners and site admins, who must be stepped up (as RequireStepUp) to
// make an owner; an unknown user is NotFound, an unknown role Invalid.
func (s *Service) AddMember(ctx context.Context, actor authz.Actor, org ids.Organization, user ids.User, role authz.Role) error {
	if err := authz.Allow(actor, authz.MembershipManage, authz.Object{Organization: org, Noun: "organization", Name: string(org)}); err != nil {
		return err
	}
	if role != authz.Owner && role != authz.Member {
		return Invalid("role", "Role must be %s or %s", authz.Owner, authz.Member)
	}
	return postgres.InTx(ctx, s.db, "accounts.add-member", func(tx postgres.Tx) error {
		if _, err := findOrganization(ctx, tx, org); err != nil {
			return err
		}
		if _, err := findUser(ctx, tx, user); err != nil {
			return err
		}
		if role == authz.Owner {
			if err := onlyOwners(actor, org, "make an owner"); err != nil {
				return err
			}
			if err := s.demandStepUp(ctx, tx, actor); err != nil {
				return err
			}
		}
		if err := setMember(ctx, tx, org, user, role); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: org, Actor: actor, Action: "member.set", ObjectKind: "user", ObjectID: string(user), Details: map[string]any{"role": role},
		})
	})
}

// onlyOwners refuses what no permission but that of an owner covers.
func onlyOwners(actor authz.Actor, org ids.Organization, what string) error {
	if actor.IsOwner(org) {
		return nil
	}
	return fault.New(fault.Forbidden, "forbidden", "Only an owner of the organization can %s.", what)
}

func setMember(ctx context.Context, tx postgres.Tx, org ids.Organization, user ids.User, role authz.Role) error {
	_, err := postgres.Exec(ctx, tx, queries.Get("MemberSet"), postgres.Args{"organization_id": org, "user_id": user, "role": string(role)})
	return err
}
