package vcs_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/vcs"
	"github.com/holdfast-run/holdfast/workspaces"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

type world struct {
	*testing.T
	db *postgres.DB
	*vcs.Service
	acme, other    accounts.Organization
	member, nobody authz.Actor
}

func newWorld(t *testing.T) world {
	t.Helper()
	t.Parallel()
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	db := testdb.New(t)
	objects := artifacts.New(db, nil, ring)
	who := accounts.New(db, objects)
	spaces := workspaces.New(db, who, objects)
	w := world{T: t, db: db, Service: vcs.New(db, objects)}
	for name, org := range map[string]*accounts.Organization{"acme": &w.acme, "other": &w.other} {
		*org, err = spaces.CreateOrganization(ctx, system, accounts.NewOrganization{Name: name})
		require.NoError(t, err)
	}
	w.member = authz.Actor{Kind: authz.UserActor, User: "user-bob", Roles: map[ids.Organization]authz.Role{w.acme.ID: authz.Member}}
	w.nobody = authz.Actor{Kind: authz.UserActor, User: "user-eve", Roles: map[ids.Organization]authz.Role{w.other.ID: authz.Owner}}
	return w
}

func ptr[T any](v T) *T { return &v }

func github() vcs.Changes {
	return vcs.Changes{ServiceProvider: ptr("github"), APIURL: ptr("https://api.github.com"), HTTPURL: ptr("https://github.com")}
}

func (w world) client(c vcs.Changes) vcs.Client {
	w.Helper()
	made, err := w.CreateClient(ctx, system, "acme", c)
	require.NoError(w, err)
	return made
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	db := testdb.New(t)
	assert.NotEmpty(t, vcs.Queries)
	for name, sql := range vcs.Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}

// TestSecretsAreSealedAndShownToNobody: neither an answer, nor a column, nor the audit log has one.
func TestSecretsAreSealedAndShownToNobody(t *testing.T) {
	w := newWorld(t)
	n := github()
	n.Secret, n.PrivateKey, n.Token = ptr("HUSH-secret"), ptr("HUSH-key"), ptr("HUSH-token")
	c := w.client(n)
	require.Len(t, c.Tokens, 1)
	token, err := w.SetSSHKey(ctx, system, c.Tokens[0], "HUSH-ssh")
	require.NoError(t, err)
	assert.True(t, token.HasSSHKey)
	assert.NotContains(t, fmt.Sprintf("%+v %+v", c, token), "HUSH")
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		for _, sql := range []string{
			"select count(*) from oauth_clients c where position('HUSH'::bytea in secret_sealed) > 0 or position('HUSH'::bytea in private_key_sealed) > 0 or c::text like '%HUSH%'",
			"select count(*) from oauth_tokens t where position('HUSH'::bytea in token_sealed) > 0 or position('HUSH'::bytea in ssh_key_sealed) > 0 or t::text like '%HUSH%'",
			"select count(*) from audit_entries a where a::text like '%HUSH%'",
		} {
			n, err := postgres.Value[int](ctx, tx, sql, nil)
			if err != nil {
				return err
			}
			assert.Zero(t, n, sql)
		}
		n, err := postgres.Value[int](ctx, tx, "select count(*) from audit_entries where action in ('oauth-client.created', 'oauth-token.ssh-key-set')", nil)
		assert.Equal(t, 2, n)
		return err
	}))
	before := c.Tokens[0]
	c, err = w.UpdateClient(ctx, system, c.ID, vcs.Changes{Token: ptr("another")})
	require.NoError(t, err)
	require.Len(t, c.Tokens, 1)
	assert.NotEqual(t, before, c.Tokens[0], "it takes the place of the one before")
}

func TestAClientNeedsAProviderAndAddresses(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*vcs.Changes){
		"no provider":        func(c *vcs.Changes) { c.ServiceProvider = nil },
		"an unknown one":     func(c *vcs.Changes) { c.ServiceProvider = ptr("sourceforge") },
		"no address":         func(c *vcs.Changes) { c.APIURL = nil },
		"another scheme":     func(c *vcs.Changes) { c.HTTPURL = ptr("ftp://github.com") },
		"a password in it":   func(c *vcs.Changes) { c.HTTPURL = ptr("https://me:secret@github.com") },
		"a key that is none": func(c *vcs.Changes) { c.ServiceProvider, c.Key = ptr("bitbucket_data_center"), ptr("") },
	} {
		c := github()
		change(&c)
		_, err := w.CreateClient(ctx, system, "acme", c)
		assert.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	list, total, err := w.Clients(ctx, system, "acme", accounts.Page{})
	require.NoError(t, err)
	assert.Empty(t, list)
	assert.Zero(t, total)
}

// TestProjectsOfAClient are those of its organization.
func TestProjectsOfAClient(t *testing.T) {
	w := newWorld(t)
	n := github()
	n.OrganizationScoped, n.Projects = ptr(false), &[]ids.Project{w.acme.DefaultProject}
	require.NotEmpty(t, w.acme.DefaultProject)
	c := w.client(n)
	assert.False(t, c.OrganizationScoped)
	assert.Equal(t, []ids.Project{w.acme.DefaultProject}, c.Projects)
	err := w.AddProjects(ctx, system, c.ID, []ids.Project{w.other.DefaultProject})
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.NoError(t, w.RemoveProjects(ctx, system, c.ID, c.Projects))
	c, err = w.Client(ctx, system, c.ID)
	require.NoError(t, err)
	assert.Empty(t, c.Projects)
	require.NoError(t, w.DeleteClient(ctx, system, c.ID))
	_, err = w.Client(ctx, system, c.ID)
	assert.True(t, fault.Is(err, fault.NotFound))
}

// TestWhoMayWhat: members read, those who manage VCS settings change, and to others it is not there.
func TestWhoMayWhat(t *testing.T) {
	w := newWorld(t)
	n := github()
	n.Token = ptr("t")
	c := w.client(n)
	token := c.Tokens[0]
	_, err := w.Client(ctx, w.member, c.ID)
	require.NoError(t, err)
	_, err = w.Token(ctx, w.member, token)
	require.NoError(t, err)
	for name, do := range map[string]func(authz.Actor) error{
		"update":     func(a authz.Actor) error { _, err := w.UpdateClient(ctx, a, c.ID, vcs.Changes{}); return err },
		"projects":   func(a authz.Actor) error { return w.AddProjects(ctx, a, c.ID, nil) },
		"ssh key":    func(a authz.Actor) error { _, err := w.SetSSHKey(ctx, a, token, "k"); return err },
		"less":       func(a authz.Actor) error { return w.DeleteToken(ctx, a, token) },
		"without it": func(a authz.Actor) error { return w.DeleteClient(ctx, a, c.ID) },
		"one more":   func(a authz.Actor) error { _, err := w.CreateClient(ctx, a, "acme", github()); return err },
	} {
		assert.True(t, fault.Is(do(w.member), fault.Forbidden), name)
		assert.True(t, fault.Is(do(w.nobody), fault.NotFound), name)
	}
	for name, do := range map[string]func() error{
		"client":  func() error { _, err := w.Client(ctx, w.nobody, c.ID); return err },
		"token":   func() error { _, err := w.Token(ctx, w.nobody, token); return err },
		"clients": func() error { _, _, err := w.Clients(ctx, w.nobody, "acme", accounts.Page{}); return err },
		"tokens":  func() error { _, _, err := w.Tokens(ctx, w.nobody, "acme", "", "", accounts.Page{}); return err },
		"of one":  func() error { _, _, err := w.Tokens(ctx, w.nobody, "", c.ID, "", accounts.Page{}); return err },
	} {
		assert.True(t, fault.Is(do(), fault.NotFound), name)
	}
	some, err := w.SomeTokens(ctx, w.nobody, []ids.OAuthToken{token})
	require.NoError(t, err)
	assert.Empty(t, some)
}
