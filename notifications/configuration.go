package notifications

import (
	"context"
	"crypto/subtle"
	"net/mail"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Destination is the kind of a receiver.
type Destination string

// The kinds.
const (
	Generic        Destination = "generic"
	Slack          Destination = "slack"
	MicrosoftTeams Destination = "microsoft-teams"
	Email          Destination = "email"
)

const (
	longestName    = 200  // bytes
	longestToken   = 1000 // bytes
	mostRecipients = 50
	mostEach       = 50 // configurations of a workspace or project
)

// Subscribable is what a configuration is for: exactly one is set.
type Subscribable struct {
	Workspace ids.Workspace
	Project   ids.Project
}

func (s Subscribable) id() string { return string(s.Workspace) + string(s.Project) }

// Configuration says who is told about which triggers.
type Configuration struct {
	ID             ids.NotificationConfiguration
	Organization   ids.Organization
	For            Subscribable
	Name           string
	Destination    Destination
	Enabled        bool
	Triggers       []string
	URL            string // empty for email
	Token          string // key of the signature of a generic message; never shown
	EmailAddresses []string
	Users          []ids.User // members of the organization that an email goes to
	DisabledReason string     // why the server has disabled it; empty otherwise
	CreatedAt      time.Time
	UpdatedAt      time.Time

	Responses []Response // the newest first
}

// Changes are what a request says about a configuration; nil leaves a thing as it is.
type Changes struct {
	Name           *string
	Destination    *Destination // only at the creation
	Enabled        *bool
	Triggers       *[]string
	URL            *string
	Token          *string
	EmailAddresses *[]string
	Users          *[]ids.User
}

func (c *Configuration) apply(ch Changes) {
	set(&c.Name, ch.Name)
	set(&c.Enabled, ch.Enabled)
	set(&c.Triggers, ch.Triggers)
	set(&c.URL, ch.URL)
	set(&c.Token, ch.Token)
	set(&c.EmailAddresses, ch.EmailAddresses)
	set(&c.Users, ch.Users)
	if c.Destination == Email {
		c.URL, c.Token = "", ""
	} else {
		c.EmailAddresses, c.Users = nil, nil
	}
	slices.Sort(c.Users)
	c.Users = slices.Compact(c.Users)
	c.Triggers, c.EmailAddresses = notNil(c.Triggers), notNil(c.EmailAddresses)
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

func (s *Service) check(c Configuration) error {
	if c.Name == "" {
		return accounts.Invalid("name", "Name can't be blank")
	}
	if err := accounts.CheckText("name", "Name", c.Name, longestName); err != nil {
		return err
	}
	if err := accounts.CheckText("token", "Token", c.Token, longestToken); err != nil {
		return err
	}
	for _, trigger := range c.Triggers {
		if !slices.Contains(known, Trigger(trigger)) {
			return accounts.Invalid("triggers", "There is no trigger %q", trigger)
		}
	}
	switch c.Destination {
	case Generic, Slack, MicrosoftTeams:
		if c.URL == "" {
			return accounts.Invalid("url", "Url can't be blank for this destination type")
		}
		if err := s.client.CheckURL(c.URL); err != nil {
			return fault.PointAt(err, "/data/attributes/url")
		}
	case Email:
		return s.checkEmail(c)
	default:
		return accounts.Invalid("destination-type", "Destination type must be generic, slack, microsoft-teams or email")
	}
	return nil
}

func (s *Service) checkEmail(c Configuration) error {
	if len(c.EmailAddresses)+len(c.Users) > mostRecipients {
		return accounts.Invalid("email-addresses", "An email goes to at most %d addresses and users", mostRecipients)
	}
	for _, address := range c.EmailAddresses {
		if parsed, err := mail.ParseAddress(address); err != nil || parsed.Address != address || len(address) > 254 {
			return accounts.Invalid("email-addresses", "An email address is not valid: write name@example.com")
		}
	}
	if c.Enabled && s.settings.Mail == nil {
		return fault.New(fault.Invalid, "mail_not_configured", "This server has not been told of a mail server, so it cannot send email. An operator can set HOLDFAST_SMTP_URL; until then create the configuration with enabled false, or use a webhook.").At("/data/attributes/enabled")
	}
	return nil
}

// allowed finds what a configuration is for, and asks whether the actor may administer it, and read
// the runs that it tells of. An organization's token reads no runs, but gives the access to them.
func allowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, of Subscribable) (org ids.Organization, err error) {
	var object authz.Object
	if of.Workspace != "" {
		var w workspaces.Workspace
		if w, err = workspaces.Allowed(ctx, tx, actor, authz.WorkspaceUpdate, of.Workspace); err != nil {
			return "", err
		}
		object = workspaces.Object(w)
	} else {
		p, err := workspaces.AllowedProject(ctx, tx, actor, authz.ProjectUpdate, of.Project)
		if err != nil {
			return "", err
		}
		object = authz.Object{Organization: p.Organization, Project: p.ID, Noun: "project", Name: string(p.ID)}
	}
	if actor.Kind != authz.OrganizationActor {
		err = authz.Allow(actor, authz.RunRead, object)
	}
	return object.Organization, err
}

type row struct {
	ID              ids.NotificationConfiguration
	OrganizationID  ids.Organization
	WorkspaceID     ids.Workspace
	ProjectID       ids.Project
	Name            string
	DestinationType Destination
	Enabled         bool
	Triggers        []string
	URLSealed       []byte `db:"url_sealed"`
	TokenSealed     []byte
	EmailAddresses  []string
	DisabledReason  string
	CreatedAt       time.Time
	UpdatedAt       time.Time
	Users           []ids.User
}

func urlLabel(id ids.NotificationConfiguration) string   { return "notification-url/" + string(id) }
func tokenLabel(id ids.NotificationConfiguration) string { return "notification-token/" + string(id) }

func (s *Service) read(ctx context.Context, tx postgres.Tx, r row) (Configuration, error) {
	c := Configuration{
		ID: r.ID, Organization: r.OrganizationID, For: Subscribable{r.WorkspaceID, r.ProjectID}, Name: r.Name, Destination: r.DestinationType, Enabled: r.Enabled, Triggers: r.Triggers,
		EmailAddresses: r.EmailAddresses, Users: r.Users, DisabledReason: r.DisabledReason, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt,
	}
	for _, sealed := range []struct {
		bytes []byte
		label string
		into  *string
	}{{r.URLSealed, urlLabel(r.ID), &c.URL}, {r.TokenSealed, tokenLabel(r.ID), &c.Token}} {
		if sealed.bytes == nil {
			continue
		}
		plain, err := s.sealer.OpenValue(ctx, tx, r.OrganizationID, sealed.label, sealed.bytes)
		if err != nil {
			return c, err
		}
		*sealed.into = string(plain)
	}
	return c, nil
}

// load gives a configuration with its newest answers.
func (s *Service) load(ctx context.Context, tx postgres.Tx, id ids.NotificationConfiguration) (Configuration, error) {
	r, err := postgres.One[row](ctx, tx, Queries.Get("Get"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Configuration{}, fault.Missing("notification configuration", string(id))
	}
	if err != nil {
		return Configuration{}, err
	}
	c, err := s.read(ctx, tx, r)
	if err != nil {
		return c, err
	}
	list := []Configuration{c}
	err = withResponses(ctx, tx, list)
	return list[0], err
}

func (s *Service) loadAllowed(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.NotificationConfiguration) (Configuration, error) {
	c, err := s.load(ctx, tx, id)
	if err != nil {
		return c, err
	}
	if _, err := allowed(ctx, tx, actor, c.For); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = fault.Missing("notification configuration", string(id))
		}
		return Configuration{}, err
	}
	return c, nil
}

// Get gives a configuration to whoever may administer what it is for.
func (s *Service) Get(ctx context.Context, actor authz.Actor, id ids.NotificationConfiguration) (c Configuration, err error) {
	err = postgres.InSnapshot(ctx, s.db, "notifications.get", func(tx postgres.Tx) error {
		c, err = s.loadAllowed(ctx, tx, actor, id)
		return err
	})
	return c, err
}

// List gives the configurations of a workspace or project in the order of their
// creation, and how many there are.
func (s *Service) List(ctx context.Context, actor authz.Actor, of Subscribable, page accounts.Page) (list []Configuration, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "notifications.list", func(tx postgres.Tx) error {
		list = nil
		if _, err := allowed(ctx, tx, actor, of); err != nil {
			return err
		}
		args := postgres.Args{"id": of.id(), "limit": page.Limit(), "offset": page.Offset()}
		if total, err = postgres.Value[int](ctx, tx, Queries.Get("Count"), args); err != nil {
			return err
		}
		rows, err := postgres.All[row](ctx, tx, Queries.Get("List"), args)
		if err != nil {
			return err
		}
		for _, r := range rows {
			c, err := s.read(ctx, tx, r)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return withResponses(ctx, tx, list)
	})
	return list, total, err
}

// Create makes a configuration. One that is enabled is verified first: a receiver that
// does not answer with success is Invalid "verification_failed", and nothing is made.
// Invalid "mail_not_configured" for an enabled one of email where there is no mail server.
func (s *Service) Create(ctx context.Context, actor authz.Actor, of Subscribable, ch Changes) (c Configuration, err error) {
	c = Configuration{ID: ids.New[ids.NotificationConfiguration](), For: of}
	set(&c.Destination, ch.Destination)
	c.apply(ch)
	err = postgres.InSnapshot(ctx, s.db, "notifications.may-create", func(tx postgres.Tx) error {
		c.Organization, err = allowed(ctx, tx, actor, of)
		return err
	})
	if err != nil {
		return Configuration{}, err
	}
	if err := s.check(c); err != nil {
		return Configuration{}, err
	}
	said, err := s.verifyEnabled(ctx, c, c.Enabled)
	if err != nil {
		return Configuration{}, err
	}
	err = postgres.InTx(ctx, s.db, "notifications.create", func(tx postgres.Tx) error {
		if _, err := allowed(ctx, tx, actor, of); err != nil {
			return err
		}
		n, err := postgres.Value[int](ctx, tx, Queries.Get("Count"), postgres.Args{"id": of.id()})
		if err != nil {
			return err
		}
		if n >= mostEach {
			return fault.New(fault.Exhausted, "too_many_configurations", "There are %d notification configurations here already. Delete one first.", n)
		}
		return s.store(ctx, tx, actor, "Insert", "notification-configuration.created", &c, said)
	})
	return c, err
}

// Update changes a configuration. One that becomes enabled, or is and gets another
// address or token, is verified first, as Create does it.
func (s *Service) Update(ctx context.Context, actor authz.Actor, id ids.NotificationConfiguration, ch Changes) (c Configuration, err error) {
	before, err := s.Get(ctx, actor, id)
	if err != nil {
		return Configuration{}, err
	}
	after := before
	after.apply(ch)
	if err := s.check(after); err != nil {
		return Configuration{}, err
	}
	said, err := s.verifyEnabled(ctx, after, after.Enabled && (!before.Enabled || after.URL != before.URL || subtle.ConstantTimeCompare([]byte(after.Token), []byte(before.Token)) == 0))
	if err != nil {
		return Configuration{}, err
	}
	err = postgres.InTx(ctx, s.db, "notifications.update", func(tx postgres.Tx) error {
		if _, err := postgres.Values[string](ctx, tx, Queries.Get("GetForUpdate"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if c, err = s.loadAllowed(ctx, tx, actor, id); err != nil {
			return err
		}
		c.apply(ch)
		if err := s.check(c); err != nil {
			return err
		}
		if err := s.store(ctx, tx, actor, "Update", "notification-configuration.updated", &c, said); err != nil || c.Enabled {
			return err
		}
		_, err := postgres.Exec(ctx, tx, Queries.Get("Drop"), postgres.Args{"id": id, "error": "The configuration was disabled."})
		return err
	})
	return c, err
}

// store writes a configuration, whom it goes to, and the answer of its verification.
func (s *Service) store(ctx context.Context, tx postgres.Tx, actor authz.Actor, query, action string, c *Configuration, said *Response) error {
	args := postgres.Args{
		"id": c.ID, "organization_id": c.Organization, "workspace_id": string(c.For.Workspace), "project_id": string(c.For.Project), "name": c.Name, "destination_type": string(c.Destination),
		"enabled": c.Enabled, "triggers": c.Triggers, "email_addresses": c.EmailAddresses,
	}
	for column, value := range map[string]struct{ label, plain string }{"url_sealed": {urlLabel(c.ID), c.URL}, "token_sealed": {tokenLabel(c.ID), c.Token}} {
		if value.plain == "" {
			continue
		}
		sealed, err := s.sealer.SealValue(ctx, tx, c.Organization, value.label, []byte(value.plain))
		if err != nil {
			return err
		}
		args[column] = sealed
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get(query), args); err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("UsersClear"), postgres.Args{"id": c.ID}); err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("UsersAdd"), postgres.Args{"id": c.ID, "organization_id": c.Organization, "users": c.Users})
	if err != nil {
		return err
	}
	if int(n) != len(c.Users) {
		return fault.New(fault.Invalid, "invalid_attribute", "A user whom the email would go to is no member of the organization.").At("/data/relationships/users")
	}
	if said != nil {
		if err := keepVerification(ctx, tx, *c, *said); err != nil {
			return err
		}
	}
	err = audit.Append(ctx, tx, audit.Entry{
		Organization: c.Organization, Actor: actor, Action: action, ObjectKind: "notification-configuration", ObjectID: string(c.ID),
		Details: map[string]any{"for": c.For.id(), "name": c.Name, "destination": c.Destination, "enabled": c.Enabled, "triggers": c.Triggers},
	})
	if err != nil {
		return err
	}
	*c, err = s.load(ctx, tx, c.ID)
	return err
}

// Delete removes a configuration, with what it has still to send and its log.
func (s *Service) Delete(ctx context.Context, actor authz.Actor, id ids.NotificationConfiguration) error {
	return postgres.InTx(ctx, s.db, "notifications.delete", func(tx postgres.Tx) error {
		c, err := s.loadAllowed(ctx, tx, actor, id)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("Delete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: c.Organization, Actor: actor, Action: "notification-configuration.deleted", ObjectKind: "notification-configuration", ObjectID: string(id),
			Details: map[string]any{"for": c.For.id(), "name": c.Name},
		})
	})
}
