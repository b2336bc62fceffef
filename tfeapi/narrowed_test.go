package tfeapi

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// found gives an attribute of each thing that a list shows, and holds its total.
func (w *world) found(token, path, attribute string, query ...string) (values []any) {
	w.Helper()
	for i := 0; i < len(query); i += 2 {
		path = joined(path, url.QueryEscape(query[i])+"="+url.QueryEscape(query[i+1]))
	}
	response, text := w.send("GET", "/api/v2/"+path, token, "")
	require.Equal(w, 200, response.StatusCode, "%s: %s", path, text)
	shown := decodeInto[struct {
		Data []shownResource
		Meta struct{ Pagination map[string]any }
	}](w.T, text)
	if total, counted := shown.Meta.Pagination["total-count"]; counted {
		assert.EqualValues(w, len(shown.Data), total, "%s: the total is of what is selected", path)
	}
	for _, item := range shown.Data {
		values = append(values, item.Attributes[attribute])
	}
	return values
}

// narrowedWrong holds that a list refuses a value that it does not know, and says what it does.
func (w *world) narrowedWrong(path, name, says string) {
	w.Helper()
	refused := w.ask(w.ann, get, "/api/v2/"+path+"?"+url.QueryEscape(name)+"=perhaps", "")
	assert.Equal(w, 400, refused.status, "%s %s", path, name)
	assert.Contains(w, refused.body, says)
}

func TestProjectsAreNarrowedByWhatOneMayDoThere(t *testing.T) {
	w := newWorld(t)
	const list = "organizations/acme/projects"
	projects := map[string]*tfe.Project{}
	for _, name := range []string{"blue", "red", "green"} {
		p, err := w.client.Projects.Create(t.Context(), "acme", tfe.ProjectCreateOptions{Name: name})
		require.NoError(t, err)
		projects[name] = p
	}
	everything := w.found(w.ann, list, "name")
	assert.Equal(t, everything, w.found(w.ann, list, "name", "sort", "name"))
	for i, name := range w.found(w.ann, list, "name", "sort", "-name") {
		assert.Equal(t, everything[len(everything)-1-i], name)
	}
	w.narrowedWrong(list, "sort", "Sort by name, or with - before it.")

	team := w.team("builders", nil)
	for name, access := range map[string]tfe.TeamProjectAccessType{"blue": tfe.TeamProjectAccessRead, "red": tfe.TeamProjectAccessMaintain, "green": tfe.TeamProjectAccessAdmin} {
		_, err := w.client.TeamProjectAccess.Add(t.Context(), tfe.TeamProjectAccessAddOptions{Access: access, Team: team, Project: projects[name]})
		require.NoError(t, err)
	}
	w.member("bea", team)
	bea := w.tokenOf("bea")
	assert.Equal(t, []any{"blue", "green", "red"}, w.found(bea, list, "name"))
	assert.Equal(t, []any{"green", "red"}, w.found(bea, list, "name", "filter[permissions][create-workspace]", "true"))
	assert.Equal(t, []any{"green"}, w.found(bea, list, "name", "filter[permissions][update]", "true"))
	assert.Equal(t, []any{"green"}, w.found(bea, list, "name", "filter[permissions][update]", "true", "filter[permissions][create-workspace]", "true"))
	assert.Equal(t, []any{"blue", "green", "red"}, w.found(bea, list, "name", "filter[permissions][update]", "false"))
	assert.Empty(t, w.found(bea, list, "name", "filter[permissions][update]", "true", "q", "red"))
	assert.Equal(t, everything, w.found(w.ann, list, "name", "filter[permissions][update]", "true"), "an owner may everywhere")
	w.narrowedWrong(list, "filter[permissions][update]", "must be true or false")
}

// tokenOf makes one more token of a user.
func (w *world) tokenOf(name string) string {
	w.Helper()
	var user ids.User
	require.NoError(w, postgres.InOneStatement(w.Context(), w.db, "test", func(tx postgres.Tx) (err error) {
		user, err = postgres.Value[ids.User](w.Context(), tx, "select id from users where username = @name", postgres.Args{"name": name})
		return err
	}))
	token, _, err := w.deps.Accounts.CreateUserToken(w.Context(), authz.System(), user, "again", 0)
	require.NoError(w, err)
	return token
}

func TestOrganizationsAreSearchedByNameOrAddress(t *testing.T) {
	w := newWorld(t)
	actor, err := w.deps.Authenticate(t.Context(), w.ann)
	require.NoError(t, err)
	for name, email := range map[string]string{"north": "acme@north.test", "south": "ops@south.test", "hidden": "ops@hidden.test"} {
		o, err := w.deps.Workspaces.CreateOrganization(t.Context(), authz.System(), accounts.NewOrganization{Name: name, Email: email})
		require.NoError(t, err)
		if name != "hidden" {
			require.NoError(t, w.deps.Accounts.AddMember(t.Context(), authz.System(), o.ID, actor.User, authz.Owner))
		}
	}
	assert.Equal(t, []any{"acme", "north"}, w.found(w.ann, "organizations", "name", "q", "acme"))
	assert.Equal(t, []any{"acme"}, w.found(w.ann, "organizations", "name", "q[name]", "ACM"))
	assert.Equal(t, []any{"acme", "south"}, w.found(w.ann, "organizations", "name", "q[email]", "OPS@"), "none that it does not see")
	assert.Equal(t, []any{"south"}, w.found(w.ann, "organizations", "name", "q[email]", "ops@", "q[name]", "th"))
	assert.Empty(t, w.found(w.ann, "organizations", "name", "q[email]", "%"), "the text stands for itself")
}

func TestTeamTokensAreNarrowedByWhenTheyEnd(t *testing.T) {
	w := newWorld(t)
	team := w.team("robots", nil)
	for name, ends := range map[string]time.Duration{"in an hour": time.Hour, "in 20 days": 20 * 24 * time.Hour, "in 90 days": 90 * 24 * time.Hour, "over": time.Hour} {
		at := time.Now().Add(ends)
		_, err := w.client.TeamTokens.CreateWithOptions(t.Context(), team.ID, tfe.TeamTokenCreateOptions{Description: &name, ExpiredAt: &at})
		require.NoError(t, err)
	}
	for _, name := range []string{"never", "taken back"} {
		made, err := w.client.TeamTokens.CreateWithOptions(t.Context(), team.ID, tfe.TeamTokenCreateOptions{Description: &name})
		require.NoError(t, err)
		if name == "taken back" {
			require.NoError(t, w.client.TeamTokens.DeleteByID(t.Context(), made.ID))
		}
	}
	w.exec("update tokens set expires_at = case description when 'over' then clock_timestamp() - interval '1 second' end where description in ('over', 'never')", nil)
	for wanted, names := range map[string][]any{
		"":                                  {"in 20 days", "in 90 days", "in an hour", "never"},
		"active":                            {"in 20 days", "in 90 days", "in an hour", "never"},
		"expiring_in_7_days":                {"in an hour"},
		"expiring_in_30_days":               {"in 20 days", "in an hour"},
		"expired":                           {"over"},
		"no_expiration":                     {"never"},
		"no_expiration, expiring_in_7_days": {"in an hour", "never"},
		"expired,active":                    {"in 20 days", "in 90 days", "in an hour", "never", "over"},
	} {
		got := w.found(w.ann, "organizations/acme/team-tokens", "description", "filter[expiry_status]", wanted, "q", "robots")
		assert.ElementsMatch(t, names, got, "%q", wanted)
	}
	w.narrowedWrong("organizations/acme/team-tokens", "filter[expiry_status]", "expiring_in_7_days")
	w.member("bea", nil)
	assert.Empty(t, w.found(w.tokenOf("bea"), "organizations/acme/team-tokens", "description", "filter[expiry_status]", "expired"), "not of her teams")
}

func TestAccessesAreNarrowedByTeam(t *testing.T) {
	w := newWorld(t)
	app := w.workspace("app")
	one, other := w.team("one", nil), w.team("other", nil)
	for _, team := range []*tfe.Team{one, other} {
		w.give(team, app, tfe.AccessRead)
		_, err := w.client.TeamProjectAccess.Add(t.Context(), tfe.TeamProjectAccessAddOptions{Access: tfe.TeamProjectAccessRead, Team: team, Project: app.Project})
		require.NoError(t, err)
	}
	w.member("bea", one)
	bea := w.tokenOf("bea")
	for _, list := range []string{"team-workspaces?filter[workspace][id]=" + app.ID, "team-projects?filter[project][id]=" + app.Project.ID} {
		assert.Equal(t, []any{"read"}, w.found(w.ann, list, "access", "filter[team][id]", one.ID), list)
		assert.Empty(t, w.found(w.ann, list, "access", "filter[team][id]", "team-nobody"), list)
		assert.Equal(t, []any{"read"}, w.found(bea, list, "access", "filter[team][id]", one.ID), list)
		assert.Empty(t, w.found(bea, list, "access", "filter[team][id]", other.ID), "%s: of another team", list)
	}
}

func TestRunsAreNarrowedByWhenTheyWereMade(t *testing.T) {
	w := newWorld(t)
	app := w.workspace("app")
	w.queue(app, tfe.RunCreateOptions{Message: tfe.String("now")})
	for message, at := range map[string]string{"of 2019": "2019-12-31 23:59:59.9+00", "of 2020": "2020-01-01 00:00:00+00"} {
		run := w.queue(app, tfe.RunCreateOptions{Message: &message})
		w.exec("update runs set created_at = @at::timestamptz where id = @id", postgres.Args{"id": run.ID, "at": at})
	}
	const list = "organizations/acme/runs"
	assert.Len(t, w.found(w.ann, list, "message"), 3)
	assert.Equal(t, []any{"now"}, w.found(w.ann, list, "message", "filter[timeframe]", "year"))
	assert.Equal(t, []any{"of 2019"}, w.found(w.ann, list, "message", "filter[timeframe]", "2019"))
	assert.Equal(t, []any{"of 2020"}, w.found(w.ann, list, "message", "filter[timeframe]", "2020"))
	assert.Empty(t, w.found(w.ann, list, "message", "filter[timeframe]", "2018"))
	assert.Empty(t, w.found(w.ann, list, "message", "filter[status_group]", "of no kind"), "which no run is in")
	w.narrowedWrong(list, "filter[timeframe]", "must be a year such as 2026")
	for _, year := range []string{"0", "-1", "99999", "9999999999999999999999"} {
		assert.Equal(t, 400, w.ask(w.ann, get, "/api/v2/"+list+"?filter[timeframe]="+year, "").status, year)
	}
}

func TestPoliciesAreSortedAndSetsNarrowed(t *testing.T) {
	w := newWorld(t)
	for i, name := range []string{"b", "a", "c"} {
		p, err := w.client.Policies.Create(t.Context(), "acme", tfe.PolicyCreateOptions{Name: &name, Kind: tfe.OPA, Query: tfe.String("data.p.deny"), EnforcementLevel: tfe.EnforcementMode(tfe.EnforcementAdvisory)})
		require.NoError(t, err)
		w.exec("update policies set updated_at = clock_timestamp() - make_interval(hours => 9 - @i::int) where id = @id", postgres.Args{"id": p.ID, "i": i})
	}
	const policies, sets = "organizations/acme/policies", "organizations/acme/policy-sets"
	for sort, names := range map[string][]any{"": {"a", "b", "c"}, "name": {"a", "b", "c"}, "-name": {"c", "b", "a"}, "updated-at": {"b", "a", "c"}, "-updated-at": {"c", "a", "b"}} {
		assert.Equal(t, names, w.found(w.ann, policies, "name", "sort", sort), sort)
	}
	w.narrowedWrong(policies, "sort", "Sort by name or updated-at")
	for _, name := range []string{"plain", "uploaded"} {
		set, err := w.client.PolicySets.Create(t.Context(), "acme", tfe.PolicySetCreateOptions{Name: &name, Kind: tfe.OPA})
		require.NoError(t, err)
		if name == "uploaded" {
			_, err := w.client.PolicySetVersions.Create(t.Context(), set.ID)
			require.NoError(t, err)
		}
	}
	assert.Equal(t, []any{"uploaded"}, w.found(w.ann, sets, "name", "filter[versioned]", "true"))
	assert.Equal(t, []any{true}, w.found(w.ann, sets, "versioned", "filter[versioned]", "true"))
	assert.Equal(t, []any{"plain"}, w.found(w.ann, sets, "name", "filter[versioned]", "false"))
	w.narrowedWrong(sets, "filter[versioned]", "must be true or false")
}

func TestWorkspacesAreNarrowedByAnyTag(t *testing.T) {
	w := newWorld(t)
	const list = "organizations/acme/workspaces"
	project, err := w.client.Projects.Create(t.Context(), "acme", tfe.ProjectCreateOptions{Name: "net", TagBindings: []*tfe.TagBinding{{Key: "env", Value: "prod"}}})
	require.NoError(t, err)
	for name, tags := range map[string][]*tfe.TagBinding{"bare": nil, "prod": {{Key: "env", Value: "prod"}}, "blank": {{Key: "env"}}, "team": {{Key: "team", Value: "a"}}, "both": {{Key: "env", Value: "dev"}, {Key: "team", Value: "a"}}} {
		_, err := w.client.Workspaces.Create(t.Context(), "acme", tfe.WorkspaceCreateOptions{Name: &name, TagBindings: tags})
		require.NoError(t, err)
	}
	for name, tags := range map[string][]*tfe.TagBinding{"inherits": nil, "overrides": {{Key: "env", Value: "dev"}}} {
		_, err := w.client.Workspaces.Create(t.Context(), "acme", tfe.WorkspaceCreateOptions{Name: &name, Project: project, TagBindings: tags})
		require.NoError(t, err)
	}
	env, prod, team := "filter[tagged][0][key]", "filter[tagged][0][value]", "filter[tagged][1][key]"
	for _, tt := range []struct {
		query []string
		names []any
	}{
		{[]string{env, "env"}, []any{"blank", "both", "inherits", "overrides", "prod"}},
		{[]string{env, "env", team, "team"}, []any{"both"}},
		{[]string{env, "env", prod, "prod", team, "team", "filter[tag-union]", "true"}, []any{"both", "inherits", "prod", "team"}},
		{[]string{env, "env", prod, "prod", "filter[tag-union]", "true"}, []any{"inherits", "prod"}},
		{[]string{env, "env", prod, "prod", team, "team", "filter[tag-union]", "false"}, nil},
		{[]string{env, "env", "filter[tag-value-default-null]", "true"}, []any{"blank"}},
		{[]string{env, "env", prod, "prod", "filter[tag-value-default-null]", "true"}, []any{"inherits", "prod"}},
		{[]string{env, "env", team, "team", "filter[tag-union]", "true", "filter[tag-value-default-null]", "true"}, []any{"blank"}},
	} {
		assert.Equal(t, tt.names, w.found(w.ann, list, "name", append(tt.query, "sort", "name")...), "%q", tt.query)
	}
	assert.Equal(t, 400, w.ask(w.ann, get, "/api/v2/"+list+"?filter[tagged]=env", "").status, "what is not known is refused, and not taken for no filter")
}

// What is left are parameters of lists that have a test elsewhere for the rest of what they do.
func TestWhatListsAreNarrowedBy(t *testing.T) {
	w := newWorld(t)
	app, reader := w.workspace("app"), w.workspace("reader")
	require.NoError(t, w.client.Workspaces.AddTags(t.Context(), app.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "blue"}, {Name: "green"}}}))
	assert.Equal(t, []any{"green"}, w.found(w.ann, "workspaces/"+app.ID+"/relationships/tags", "name", "name", "REE"))
	tags, err := w.client.Workspaces.ListTags(t.Context(), app.ID, &tfe.WorkspaceTagListOptions{Query: tfe.String("blu")})
	require.NoError(t, err)
	require.Len(t, tags.Items, 1)

	// Who reads the state of a workspace that shares it with all, and who was named.
	require.NoError(t, w.client.Workspaces.AddRemoteStateConsumers(t.Context(), app.ID, tfe.WorkspaceAddRemoteStateConsumersOptions{Workspaces: []*tfe.Workspace{reader}}))
	w.workspace("third")
	_, err = w.client.Workspaces.UpdateByID(t.Context(), app.ID, tfe.WorkspaceUpdateOptions{GlobalRemoteState: tfe.Bool(true)})
	require.NoError(t, err)
	consumers := "workspaces/" + app.ID + "/relationships/remote-state-consumers"
	assert.Equal(t, []any{"reader", "third"}, w.found(w.ann, consumers, "name"))
	assert.Equal(t, []any{"reader"}, w.found(w.ann, consumers, "name", "show_only_configured", "true"))
	w.narrowedWrong(consumers, "show_only_configured", "must be true or false")

	for _, provider := range []string{"github", "gitlab_hosted"} {
		_, err := w.client.OAuthClients.Create(t.Context(), "acme", tfe.OAuthClientCreateOptions{
			ServiceProvider: tfe.ServiceProvider(tfe.ServiceProviderType(provider)), APIURL: tfe.String("https://vcs.test/api"), HTTPURL: tfe.String("https://vcs.test"), OAuthToken: tfe.String("t"),
		})
		require.NoError(t, err)
	}
	// Which token of the organization is meant.
	_, err = w.client.OrganizationTokens.Create(t.Context(), "acme")
	require.NoError(t, err)
	audit := tfe.AuditTrailToken
	_, err = w.client.OrganizationTokens.ReadWithOptions(t.Context(), "acme", tfe.OrganizationTokenReadOptions{TokenType: &audit})
	assert.ErrorIs(t, err, tfe.ErrResourceNotFound)
	assert.Equal(t, 400, w.ask(w.ann, get, "/api/v2/organizations/acme/authentication-token?token=perhaps", "").status)

	assert.Len(t, w.found(w.ann, "organizations/acme/oauth-tokens", "created-at"), 2)
	assert.Len(t, w.found(w.ann, "organizations/acme/oauth-tokens", "created-at", "filter[provider]", "github"), 1)

	// The sets of a project: its own, the organization's, and all of them.
	project := app.Project
	for name, of := range map[string]string{"own": `,"relationships":{"parent":{"data":{"type":"projects","id":"` + project.ID + `"}}}`, "global": ""} {
		reply := w.ask(w.ann, post, "/api/v2/organizations/acme/varsets", fmt.Sprintf(`{"data":{"type":"varsets","attributes":{"name":%q,"global":%t}%s}}`, name, name == "global", of))
		require.Equal(t, 201, reply.status, reply.body)
	}
	sets := "projects/" + project.ID + "/varsets"
	for scope, names := range map[string][]any{"": {"global", "own"}, "all": {"global", "own"}, "applied": {"global", "own"}, "owned": {"own"}, "shared": {"global"}} {
		assert.Equal(t, names, w.found(w.ann, sets, "name", "scope", scope), scope)
	}
	w.narrowedWrong(sets, "scope", "applied or shared or owned or all")
	w.narrowedWrong("organizations/acme/varsets", "scope", "must be owned")

	// The two names of one parameter.
	pool := w.pool("for-app")
	_, err = w.client.AgentPools.Update(t.Context(), pool.ID, tfe.AgentPoolUpdateOptions{OrganizationScoped: tfe.Bool(false), AllowedWorkspaces: []*tfe.Workspace{app}})
	require.NoError(t, err)
	for _, name := range []string{"filter[allowed_workspaces][name]", "filter[allowed-workspaces][name]"} {
		assert.Equal(t, []any{"for-app"}, w.found(w.ann, "organizations/acme/agent-pools", "name", name, "app"), name)
		assert.Empty(t, w.found(w.ann, "organizations/acme/agent-pools", "name", name, "reader"), name)
	}

	// Several statuses of state versions.
	versions := "workspaces/" + app.ID + "/state-versions"
	_, err = w.client.Workspaces.Lock(t.Context(), app.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	made := w.ask(w.ann, post, "/api/v2/"+versions, `{"data":{"type":"state-versions","attributes":{"serial":1,"md5":"`+strings.Repeat("a", 32)+`","lineage":"l-1"}}}`)
	require.Equal(t, 201, made.status, made.body)
	assert.Equal(t, []any{"pending"}, w.found(w.ann, versions, "status", "filter[status]", "finalized,pending"))
	assert.Empty(t, w.found(w.ann, versions, "status", "filter[status]", "finalized,discarded"))
}

// A workspace's or project's notification configurations are all there when no page is asked for.
func TestNotificationConfigurationsDoNotStopAtAHundred(t *testing.T) {
	w := newWorld(t)
	app := w.workspace("app")
	w.exec(`insert into notification_configurations (id, organization_id, workspace_id, name, destination_type, url_sealed, token_sealed, triggers, enabled)
		select 'nc-' || lpad(i::text, 16, '0'), organization_id, id, 'n' || i, 'email', null, null, '{}', false from workspaces, generate_series(1, 101) as i where id = @id`, postgres.Args{"id": app.ID})
	assert.Len(t, w.found(w.ann, "workspaces/"+app.ID+"/notification-configurations", "name"), 101)
	assert.Len(t, w.list(w.ann, "workspaces/"+app.ID+"/notification-configurations?page[size]=100"), 100)
}
