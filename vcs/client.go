package vcs

import (
	"context"
	_ "embed"
	"net/url"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
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

// Sealer seals what only its organization's key opens.
type Sealer interface {
	SealValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, plain []byte) ([]byte, error)
}

// Service keeps OAuth clients and tokens.
type Service struct {
	db     *postgres.DB
	sealer Sealer
}

// New makes the service.
func New(db *postgres.DB, sealer Sealer) *Service { return &Service{db: db, sealer: sealer} }

// Providers are the kinds of VCS hosts, with their names for people.
var Providers = map[string]string{
	"ado_server": "Azure DevOps Server", "ado_services": "Azure DevOps Services", "bitbucket_data_center": "Bitbucket Data Center", "bitbucket_hosted": "Bitbucket Cloud",
	"bitbucket_server": "Bitbucket Server", "bitbucket_server_legacy": "Bitbucket Server Legacy", "github": "GitHub", "github_enterprise": "GitHub Enterprise",
	"gitlab_hosted": "GitLab.com", "gitlab_community_edition": "GitLab Community Edition", "gitlab_enterprise_edition": "GitLab Enterprise Edition",
}

// Client is what an organization says of a VCS host. Its secrets are shown to nobody.
type Client struct {
	ID                 ids.OAuthClient
	Organization       ids.Organization
	OrganizationName   string
	Name               *string
	ServiceProvider    string
	APIURL             string `db:"api_url"`
	HTTPURL            string `db:"http_url"`
	Key                string
	RSAPublicKey       string `db:"rsa_public_key"`
	OrganizationScoped bool
	CreatedAt          time.Time
	Projects           []ids.Project
	Tokens             []ids.OAuthToken
}

func (c Client) object() authz.Object {
	return authz.Object{Organization: c.Organization, Noun: "OAuth client", Name: string(c.ID)}
}

// Changes are what is said about a client; what is nil stays, or is as by default: for the
// whole organization. ServiceProvider, APIURL and HTTPURL are said once, at creation.
type Changes struct {
	Name, ServiceProvider, APIURL, HTTPURL *string
	Key, RSAPublicKey                      *string
	Secret, PrivateKey, Token              *string
	OrganizationScoped                     *bool
	Projects                               *[]ids.Project
}

const (
	longestName = 250
	longestURL  = 1024
	longestKey  = 64 << 10
)

func (c Changes) check(provider string) error {
	for field, text := range map[string]*string{"name": c.Name, "key": c.Key} {
		if text != nil {
			if err := accounts.CheckText(field, "It", *text, longestName); err != nil {
				return err
			}
		}
	}
	for field, text := range map[string]*string{"rsa-public-key": c.RSAPublicKey, "secret": c.Secret, "private-key": c.PrivateKey, "oauth-token-string": c.Token} {
		if text != nil {
			if err := accounts.CheckText(field, "It", *text, longestKey); err != nil {
				return err
			}
		}
	}
	if provider == "bitbucket_data_center" && c.Key != nil && *c.Key == "" {
		return accounts.Invalid("key", "The Consumer Key for Bitbucket Data Center must be present. Please add a value for `key`.")
	}
	return nil
}

func checkURL(field string, text *string) error {
	if text == nil || *text == "" {
		return accounts.Invalid(field, "It can't be blank")
	}
	u, err := url.Parse(*text)
	if err != nil || len(*text) > longestURL || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		return accounts.Invalid(field, "It must be an https:// or http:// address without a password")
	}
	return nil
}

func find(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.OAuthClient) (Client, error) {
	c, err := postgres.One[Client](ctx, tx, Queries.Get("Client"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Client{}, fault.Missing("OAuth client", string(id))
	}
	if err != nil {
		return Client{}, err
	}
	if err := authz.Allow(actor, action, c.object()); err != nil {
		return Client{}, err
	}
	return c, nil
}

// Clients gives the clients of an organization by when they were made, and how many there are.
func (s *Service) Clients(ctx context.Context, actor authz.Actor, organization string, page accounts.Page) (list []Client, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "vcs.clients", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		args := postgres.Args{"organization_id": org.ID, "limit": page.Limit(), "offset": page.Offset()}
		if list, err = postgres.All[Client](ctx, tx, Queries.Get("Clients"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("ClientsCount"), args)
		return err
	})
	return list, total, err
}

// Client gives a client.
func (s *Service) Client(ctx context.Context, actor authz.Actor, id ids.OAuthClient) (c Client, err error) {
	err = postgres.InOneStatement(ctx, s.db, "vcs.client", func(tx postgres.Tx) error {
		c, err = find(ctx, tx, actor, authz.OrganizationRead, id)
		return err
	})
	return c, err
}

// CreateClient keeps a client, with a token when one is said. For those who manage the VCS
// settings. An unknown provider or a bad address is Invalid, a project of another
// organization NotFound.
func (s *Service) CreateClient(ctx context.Context, actor authz.Actor, organization string, n Changes) (c Client, err error) {
	err = postgres.InTx(ctx, s.db, "vcs.create-client", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.VCSManage, organization)
		if err != nil {
			return err
		}
		if n.ServiceProvider == nil || Providers[*n.ServiceProvider] == "" {
			return accounts.Invalid("service-provider", "Service provider must be one of those that the documentation lists, such as github")
		}
		if err := checkURL("api-url", n.APIURL); err != nil {
			return err
		}
		if err := checkURL("http-url", n.HTTPURL); err != nil {
			return err
		}
		if err := n.check(*n.ServiceProvider); err != nil {
			return err
		}
		id := ids.New[ids.OAuthClient]()
		args, err := s.args(ctx, tx, org.ID, id, n)
		if err != nil {
			return err
		}
		args["organization_id"], args["service_provider"], args["api_url"], args["http_url"] = org.ID, *n.ServiceProvider, *n.APIURL, *n.HTTPURL
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ClientInsert"), args); err != nil {
			return err
		}
		return s.settle(ctx, tx, actor, org.ID, id, n, "oauth-client.created", &c)
	})
	return c, err
}

// UpdateClient changes what is said. A token that is said is one more, or takes the place of
// those there were.
func (s *Service) UpdateClient(ctx context.Context, actor authz.Actor, id ids.OAuthClient, n Changes) (c Client, err error) {
	err = postgres.InTx(ctx, s.db, "vcs.update-client", func(tx postgres.Tx) error {
		before, err := find(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		if err := n.check(before.ServiceProvider); err != nil {
			return err
		}
		args, err := s.args(ctx, tx, before.Organization, id, n)
		if err != nil {
			return err
		}
		changed, err := postgres.Exec(ctx, tx, Queries.Get("ClientUpdate"), args)
		if err == nil && changed == 0 { // deleted since it was read
			err = fault.Missing("OAuth client", string(id))
		}
		if err != nil {
			return err
		}
		return s.settle(ctx, tx, actor, before.Organization, id, n, "oauth-client.updated", &c)
	})
	return c, err
}

// args are what is said, with its secrets sealed.
func (s *Service) args(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.OAuthClient, n Changes) (postgres.Args, error) {
	args := postgres.Args{"id": id, "name": n.Name, "key": n.Key, "rsa_public_key": n.RSAPublicKey, "organization_scoped": n.OrganizationScoped}
	for column, secret := range map[string]*string{"secret_sealed": n.Secret, "private_key_sealed": n.PrivateKey} {
		var sealed []byte
		if secret != nil {
			var err error
			if sealed, err = s.sealer.SealValue(ctx, tx, org, "oauth-client/"+string(id)+"/"+column, []byte(*secret)); err != nil {
				return nil, err
			}
		}
		args[column] = sealed
	}
	return args, nil
}

// settle does what comes after the row of a client, reads it, and writes down who did it.
func (s *Service) settle(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, id ids.OAuthClient, n Changes, action string, c *Client) (err error) {
	if n.Token != nil && *n.Token != "" {
		if err := s.replaceToken(ctx, tx, org, id, *n.Token); err != nil {
			return err
		}
	}
	if n.Projects != nil {
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ProjectsClear"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if err := addProjects(ctx, tx, org, id, *n.Projects); err != nil {
			return err
		}
	}
	if *c, err = postgres.One[Client](ctx, tx, Queries.Get("Client"), postgres.Args{"id": id}); err != nil {
		return err
	}
	return record(ctx, tx, actor, *c, action)
}

func addProjects(ctx context.Context, tx postgres.Tx, org ids.Organization, id ids.OAuthClient, projects []ids.Project) error {
	wanted := slices.Compact(slices.Sorted(slices.Values(projects)))
	there, err := postgres.Value[int](ctx, tx, Queries.Get("ProjectsThere"), postgres.Args{"organization_id": org, "projects": append([]ids.Project{}, wanted...)})
	if err != nil {
		return err
	}
	if there != len(wanted) {
		return fault.New(fault.NotFound, "not_found", "One of the projects does not exist in the organization.")
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("ProjectsAdd"), postgres.Args{"organization_id": org, "id": id, "projects": append([]ids.Project{}, wanted...)})
	return err
}

// AddProjects lets the client serve more projects. One of another organization is NotFound.
func (s *Service) AddProjects(ctx context.Context, actor authz.Actor, id ids.OAuthClient, projects []ids.Project) error {
	return s.onProjects(ctx, actor, id, func(tx postgres.Tx, c Client) error { return addProjects(ctx, tx, c.Organization, id, projects) })
}

// RemoveProjects takes projects away; those that it did not serve are fine.
func (s *Service) RemoveProjects(ctx context.Context, actor authz.Actor, id ids.OAuthClient, projects []ids.Project) error {
	return s.onProjects(ctx, actor, id, func(tx postgres.Tx, _ Client) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("ProjectsRemove"), postgres.Args{"id": id, "projects": append([]ids.Project{}, projects...)})
		return err
	})
}

func (s *Service) onProjects(ctx context.Context, actor authz.Actor, id ids.OAuthClient, change func(postgres.Tx, Client) error) error {
	return postgres.InTx(ctx, s.db, "vcs.change-projects", func(tx postgres.Tx) error {
		c, err := find(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		if err := change(tx, c); err != nil {
			return err
		}
		return record(ctx, tx, actor, c, "oauth-client.projects-changed")
	})
}

// DeleteClient forgets a client with its tokens.
func (s *Service) DeleteClient(ctx context.Context, actor authz.Actor, id ids.OAuthClient) error {
	return postgres.InTx(ctx, s.db, "vcs.delete-client", func(tx postgres.Tx) error {
		c, err := find(ctx, tx, actor, authz.VCSManage, id)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("ClientDelete"), postgres.Args{"id": id})
		if err == nil && n == 0 {
			err = fault.Missing("OAuth client", string(id))
		}
		if err != nil {
			return err
		}
		return record(ctx, tx, actor, c, "oauth-client.deleted")
	})
}

func record(ctx context.Context, tx postgres.Tx, actor authz.Actor, c Client, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: c.Organization, Actor: actor, Action: action, ObjectKind: "oauth-client", ObjectID: string(c.ID),
		Details: map[string]any{"name": c.Name, "service_provider": c.ServiceProvider, "http_url": c.HTTPURL},
	})
}
