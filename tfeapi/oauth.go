package tfeapi

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/vcs"
)

// What is kept of VCS hosts. Nothing connects to them: a client has no address that a host
// could call back.

// oauthClientView is an OAuth client on the wire. Its secrets are never shown.
type oauthClientView struct {
	ID                 string    `jsonapi:"primary,oauth-clients"`
	Name               *string   `jsonapi:"attr,name"`
	ServiceProvider    string    `jsonapi:"attr,service-provider"`
	ProviderName       string    `jsonapi:"attr,service-provider-display-name"`
	APIURL             string    `jsonapi:"attr,api-url"`
	HTTPURL            string    `jsonapi:"attr,http-url"`
	CallbackURL        *string   `jsonapi:"attr,callback-url"`
	ConnectPath        *string   `jsonapi:"attr,connect-path"`
	Key                string    `jsonapi:"attr,key"`
	Secret             *string   `jsonapi:"attr,secret"`
	RSAPublicKey       string    `jsonapi:"attr,rsa-public-key"`
	OrganizationScoped bool      `jsonapi:"attr,organization-scoped"`
	CreatedAt          time.Time `jsonapi:"attr,created-at,iso8601"`
	related            relations
}

func (v *oauthClientView) relations() relations { return v.related }

func newOAuthClientView(c vcs.Client) *oauthClientView {
	projects, tokens := make([]ref, 0, len(c.Projects)), make([]ref, 0, len(c.Tokens))
	for _, p := range c.Projects {
		projects = append(projects, ref{"projects", string(p)})
	}
	for _, t := range c.Tokens {
		tokens = append(tokens, ref{"oauth-tokens", string(t)})
	}
	return &oauthClientView{
		ID: string(c.ID), Name: c.Name, ServiceProvider: c.ServiceProvider, ProviderName: vcs.Providers[c.ServiceProvider], APIURL: c.APIURL, HTTPURL: c.HTTPURL,
		Key: c.Key, RSAPublicKey: c.RSAPublicKey, OrganizationScoped: c.OrganizationScoped, CreatedAt: c.CreatedAt,
		related: relations{"organization": ref{"organizations", c.OrganizationName}, "projects": projects, "oauth-tokens": tokens, "agent-pool": nil},
	}
}

// oauthTokenView is an OAuth token on the wire, without what it is.
type oauthTokenView struct {
	ID                  string    `jsonapi:"primary,oauth-tokens"`
	UID                 string    `jsonapi:"attr,uid"`
	CreatedAt           time.Time `jsonapi:"attr,created-at,iso8601"`
	HasSSHKey           bool      `jsonapi:"attr,has-ssh-key"`
	ServiceProviderUser string    `jsonapi:"attr,service-provider-user"`
	client              string
}

func (v *oauthTokenView) relations() relations {
	return relations{"oauth-client": ref{"oauth-clients", v.client}}
}

func newOAuthTokenView(t vcs.Token) *oauthTokenView {
	return &oauthTokenView{ID: string(t.ID), CreatedAt: t.CreatedAt, HasSSHKey: t.HasSSHKey, client: string(t.Client)}
}

func (s *server) oauthRoutes() []route {
	const (
		api          = "/api/v2/"
		organization = api + "organizations/{organization}"
		client       = api + "oauth-clients/{id}"
		token        = api + "oauth-tokens/{id}"
	)
	return []route{
		{method: get, path: organization + "/oauth-clients", handle: s.listOAuthClients},
		{method: post, path: organization + "/oauth-clients", handle: s.createOAuthClient},
		{method: get, path: client, handle: s.readOAuthClient},
		{method: patch, path: client, handle: s.updateOAuthClient},
		{method: del, path: client, handle: s.deleteOAuthClient},
		{method: post, path: client + "/relationships/projects", handle: s.changeOAuthProjects(s.VCS.AddProjects)},
		{method: del, path: client + "/relationships/projects", handle: s.changeOAuthProjects(s.VCS.RemoveProjects)},
		{method: get, path: client + "/oauth-tokens", handle: s.listOAuthClientTokens},
		{method: get, path: organization + "/oauth-tokens", handle: s.listOAuthTokens},
		{method: get, path: token, handle: s.readOAuthToken},
		{method: patch, path: token, handle: s.updateOAuthToken},
		{method: del, path: token, handle: s.deleteOAuthToken},
	}
}

func (s *server) listOAuthClients(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.VCS.Clients(r.ctx, r.actor, r.vars["organization"], p.page())
	if err != nil {
		return answer{}, err
	}
	included, err := s.oauthIncludes(r, list...)
	if err != nil {
		return answer{}, err
	}
	items := make([]*oauthClientView, 0, len(list))
	for _, c := range list {
		items = append(items, newOAuthClientView(c))
	}
	return page(items, p, total, included...), nil
}

// oauthIncludes gives projects and tokens of clients in full, with a statement for each kind.
func (s *server) oauthIncludes(r *request, list ...vcs.Client) (included []view, err error) {
	asked := r.includes()
	var projects []ids.Project
	var tokens []ids.OAuthToken
	for _, c := range list {
		projects, tokens = append(projects, c.Projects...), append(tokens, c.Tokens...)
	}
	if asked["projects"] {
		found, err := s.Workspaces.SomeProjects(r.ctx, r.actor, projects)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			included = append(included, newProjectView(r.actor, p))
		}
	}
	if asked["oauth-tokens"] {
		found, err := s.VCS.SomeTokens(r.ctx, r.actor, tokens)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			included = append(included, newOAuthTokenView(t))
		}
	}
	return included, nil
}

// oauthInput reads what a request says about a client.
func oauthInput(r *request) (c vcs.Changes, err error) {
	body, err := r.body()
	if err != nil {
		return c, err
	}
	in, err := decode[struct {
		Name               Opt[string] `json:"name"`
		ServiceProvider    Opt[string] `json:"service-provider"`
		APIURL             Opt[string] `json:"api-url"`
		HTTPURL            Opt[string] `json:"http-url"`
		Key                Opt[string] `json:"key"`
		RSAPublicKey       Opt[string] `json:"rsa-public-key"`
		Secret             Opt[string] `json:"secret"`
		PrivateKey         Opt[string] `json:"private-key"`
		Token              Opt[string] `json:"oauth-token-string"`
		OrganizationScoped Opt[bool]   `json:"organization-scoped"`
	}](body, "oauth-clients")
	if err != nil {
		return c, err
	}
	pool, err := in.related("agent-pool", "agent-pools")
	if err != nil {
		return c, err
	}
	if pool != "" {
		return c, fault.New(fault.Invalid, "invalid_attribute", "the organization does not have private VCS enabled: no agent pool can be named").At("/data/relationships/agent-pool")
	}
	a := in.Attributes
	c = vcs.Changes{
		Name: textOrEmpty(a.Name), ServiceProvider: a.ServiceProvider.Pointer(), APIURL: a.APIURL.Pointer(), HTTPURL: a.HTTPURL.Pointer(), Key: a.Key.Pointer(),
		RSAPublicKey: a.RSAPublicKey.Pointer(), Secret: a.Secret.Pointer(), PrivateKey: a.PrivateKey.Pointer(), Token: a.Token.Pointer(), OrganizationScoped: a.OrganizationScoped.Pointer(),
	}
	c.Projects, err = relatedIDs[ids.Project](in, "projects", "projects")
	return c, err
}

func (s *server) createOAuthClient(r *request) (answer, error) {
	n, err := oauthInput(r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.VCS.CreateClient(r.ctx, r.actor, r.vars["organization"], n)
	if err != nil {
		return answer{}, err
	}
	return created(newOAuthClientView(c)), nil
}

func (s *server) oauthClientAnswer(r *request, c vcs.Client, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	included, err := s.oauthIncludes(r, c)
	if err != nil {
		return answer{}, err
	}
	return ok(newOAuthClientView(c), included...), nil
}

func (s *server) readOAuthClient(r *request) (answer, error) {
	which, err := id[ids.OAuthClient](r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.VCS.Client(r.ctx, r.actor, which)
	return s.oauthClientAnswer(r, c, err)
}

func (s *server) updateOAuthClient(r *request) (answer, error) {
	which, err := id[ids.OAuthClient](r)
	if err != nil {
		return answer{}, err
	}
	n, err := oauthInput(r)
	if err != nil {
		return answer{}, err
	}
	c, err := s.VCS.UpdateClient(r.ctx, r.actor, which, n)
	return s.oauthClientAnswer(r, c, err)
}

func (s *server) deleteOAuthClient(r *request) (answer, error) {
	which, err := id[ids.OAuthClient](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.VCS.DeleteClient(r.ctx, r.actor, which)
}

func (s *server) changeOAuthProjects(change func(context.Context, authz.Actor, ids.OAuthClient, []ids.Project) error) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		which, err := id[ids.OAuthClient](r)
		if err != nil {
			return answer{}, err
		}
		body, err := r.body()
		if err != nil {
			return answer{}, err
		}
		items, err := decodeMany[struct{}](body, "projects", "")
		if err != nil {
			return answer{}, err
		}
		projects := make([]ids.Project, 0, len(items))
		for _, item := range items {
			p, err := ids.Parse[ids.Project](item.ID)
			if err != nil {
				return answer{}, err
			}
			projects = append(projects, p)
		}
		return noContent(), change(r.ctx, r.actor, which, projects)
	}
}

func (s *server) oauthTokenPage(r *request, organization string, client ids.OAuthClient) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.VCS.Tokens(r.ctx, r.actor, organization, client, r.query.Get("filter[provider]"), p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*oauthTokenView, 0, len(list))
	for _, t := range list {
		items = append(items, newOAuthTokenView(t))
	}
	return page(items, p, total), nil
}

func (s *server) listOAuthTokens(r *request) (answer, error) {
	return s.oauthTokenPage(r, r.vars["organization"], "")
}

func (s *server) listOAuthClientTokens(r *request) (answer, error) {
	which, err := id[ids.OAuthClient](r)
	if err != nil {
		return answer{}, err
	}
	return s.oauthTokenPage(r, "", which)
}

func (s *server) readOAuthToken(r *request) (answer, error) {
	which, err := id[ids.OAuthToken](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.VCS.Token(r.ctx, r.actor, which)
	if err != nil {
		return answer{}, err
	}
	return ok(newOAuthTokenView(t)), nil
}

func (s *server) updateOAuthToken(r *request) (answer, error) {
	which, err := id[ids.OAuthToken](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		SSHKey Opt[string] `json:"ssh-key"`
	}](body, "oauth-tokens")
	if err != nil {
		return answer{}, err
	}
	t, err := s.VCS.SetSSHKey(r.ctx, r.actor, which, in.Attributes.SSHKey.Or(""))
	if err != nil {
		return answer{}, err
	}
	return ok(newOAuthTokenView(t)), nil
}

func (s *server) deleteOAuthToken(r *request) (answer, error) {
	which, err := id[ids.OAuthToken](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.VCS.DeleteToken(r.ctx, r.actor, which)
}
