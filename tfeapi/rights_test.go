package tfeapi

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// roles are the columns of the kept matrix. All but the last six are members of acme
// with one team, which has this access to the workspace or project of what is asked for.
var roles = []string{"outsider", "member", "read", "plan", "write", "admin", "project-admin", "owner", "team-token", "organization-token", "audit-token", "site-admin"}

// rights is a world with a thing for each route to be about.
type rights struct {
	*leak
	things map[string]string // what stands for {id}, by how a path begins
	values map[string]string // what stands for the other variables
}

func newRights(t *testing.T) *rights {
	l := newLeak(t)
	ctx := t.Context()
	spare := l.team("spare", nil)
	_, err := l.client.Teams.Update(ctx, spare.ID, tfe.TeamUpdateOptions{Visibility: tfe.String("organization")})
	require.NoError(t, err)
	access := l.give(spare, l.app, tfe.AccessRead)
	inProject, err := l.client.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{Access: tfe.TeamProjectAccessRead, Team: spare, Project: l.app.Project})
	require.NoError(t, err)
	_, err = l.client.TeamTokens.Create(ctx, spare.ID)
	require.NoError(t, err)
	token, err := l.client.TeamTokens.CreateWithOptions(ctx, spare.ID, tfe.TeamTokenCreateOptions{Description: tfe.String("named")})
	require.NoError(t, err)
	variable, err := l.client.Variables.Create(ctx, l.app.ID, tfe.VariableCreateOptions{Key: tfe.String("k"), Value: tfe.String("v"), Category: tfe.Category(tfe.CategoryEnv)})
	require.NoError(t, err)
	require.NoError(t, l.client.Workspaces.AddTags(ctx, l.app.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "blue"}}}))
	tags, err := l.client.OrganizationTags.List(ctx, "acme", nil)
	require.NoError(t, err)
	outputs, err := l.client.StateVersions.ListOutputs(ctx, l.current, nil)
	require.NoError(t, err)
	require.NotEmpty(t, outputs.Items)
	pool := l.pool("pool")
	agents, err := l.client.AgentTokens.Create(ctx, pool.ID, tfe.AgentTokenCreateOptions{Description: tfe.String("d")})
	require.NoError(t, err)
	runner, _, _, err := l.polls(agents.Token, dispatch.RunnerHello{Name: "r"})
	require.NoError(t, err)
	memberships, err := l.client.OrganizationMemberships.List(ctx, "acme", &tfe.OrganizationMembershipListOptions{Query: "bob"})
	require.NoError(t, err)
	me, err := l.client.Users.ReadCurrent(ctx)
	require.NoError(t, err)
	w := &rights{leak: l, things: map[string]string{
		"workspaces/": l.app.ID, "projects/": l.app.Project.ID, "state-versions/": l.current, "state-version-outputs/": outputs.Items[0].ID,
		"configuration-versions/": l.run.ConfigurationVersion.ID, "runs/": l.run.ID, "plans/": l.run.Plan.ID, "applies/": l.run.Apply.ID,
		"teams/": spare.ID, "team-workspaces/": access.ID, "team-projects/": inProject.ID, "organization-memberships/": memberships.Items[0].ID,
		"authentication-tokens/": token.ID, "tags/": tags.Items[0].ID, "agent-pools/": pool.ID, "agents/": string(runner), "users/": me.ID, "admin/users/": me.ID,
	}, values: map[string]string{"{organization}": "acme", "{workspace}": "other", "{variable}": variable.ID}}
	w.addSettings()
	w.addJudges()
	w.addSite()
	return w
}

// roleToken makes somebody of that role and gives a token.
func (w *rights) roleToken(role string) string {
	w.Helper()
	ctx := w.Context()
	who := w.deps.Accounts
	org, err := who.Organization(ctx, authz.System(), "acme")
	require.NoError(w, err)
	switch role {
	case "owner":
		return w.ann
	case "organization-token", "audit-token":
		kind := map[string]accounts.TokenKind{"organization-token": accounts.OrganizationToken, "audit-token": accounts.AuditToken}[role]
		token, _, err := who.CreateOrganizationToken(ctx, authz.System(), "acme", kind, accounts.NewToken{})
		require.NoError(w, err)
		return token
	}
	if role == "site-admin" {
		return w.siteAdmin()
	}
	user, token := w.user(ctx, "role")
	if role == "outsider" {
		rival, err := w.deps.Workspaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: "rival"})
		require.NoError(w, err)
		require.NoError(w, who.AddMember(ctx, authz.System(), rival.ID, user, authz.Owner))
		return token
	}
	require.NoError(w, who.AddMember(ctx, authz.System(), org.ID, user, authz.Member))
	team := w.team("of-role", nil)
	require.NoError(w, w.client.TeamMembers.Add(ctx, team.ID, tfe.TeamMemberAddOptions{Usernames: []string{"role"}}))
	switch role {
	case "project-admin":
		_, err := w.client.TeamProjectAccess.Add(ctx, tfe.TeamProjectAccessAddOptions{Access: tfe.TeamProjectAccessAdmin, Team: team, Project: w.app.Project})
		require.NoError(w, err)
	case "team-token":
		w.give(team, w.app, tfe.AccessWrite)
		w.give(team, w.other, tfe.AccessWrite)
		made, err := w.client.TeamTokens.Create(ctx, team.ID)
		require.NoError(w, err)
		return made.Token
	case "read", "plan", "write", "admin":
		w.give(team, w.app, tfe.AccessType(role))
		w.give(team, w.other, tfe.AccessType(role))
	}
	return token
}

// kindOf is the type of the document that a route takes, by the end of its path.
func kindOf(path string) string {
	for _, of := range []string{"varsets", "ssh-keys", "reserved-tag-keys", "policy-sets", "policies", "notification-configurations", "tasks", "vars", "workspaces", "projects", "agent-pools", "organizations", "teams", "team-workspaces", "team-projects", "organization-memberships", "state-versions", "configuration-versions", "runs"} {
		if strings.HasSuffix(path, "/"+of) || strings.HasSuffix(path, "/"+of+"/{id}") {
			return of
		}
	}
	if strings.HasSuffix(path, "/vars/{variable}") || strings.HasSuffix(path, "/parameters") || strings.HasSuffix(path, "/parameters/{parameter}") {
		return "vars"
	}
	if strings.HasSuffix(path, "/organizations/{organization}") {
		return "organizations"
	}
	if strings.HasSuffix(path, "/workspaces/{workspace}") {
		return "workspaces"
	}
	return ""
}

// bodyOf is a document that each route can read and that says as little as possible.
func (w *rights) bodyOf(rt route) string {
	switch {
	case strings.HasSuffix(rt.path, "/relationships/users"):
		return `{"data":[{"type":"users","id":"ann"}]}`
	case strings.HasSuffix(rt.path, "/relationships/organization-memberships"):
		return fmt.Sprintf(`{"data":[{"type":"organization-memberships","id":%q}]}`, w.things["organization-memberships/"])
	case strings.HasSuffix(rt.path, "/relationships/workspaces"):
		return fmt.Sprintf(`{"data":[{"type":"workspaces","id":%q}]}`, w.app.ID)
	case strings.HasSuffix(rt.path, "/tags"):
		return fmt.Sprintf(`{"data":[{"type":"tags","id":%q}]}`, w.things["tags/"])
	case rt.path == "/api/v2/team-workspaces":
		return fmt.Sprintf(`{"data":{"type":"team-workspaces","attributes":{},"relationships":{"team":{"data":{"type":"teams","id":%q}},"workspace":{"data":{"type":"workspaces","id":%q}}}}}`, w.things["teams/"], w.app.ID)
	case rt.path == "/api/v2/team-projects":
		return fmt.Sprintf(`{"data":{"type":"team-projects","attributes":{},"relationships":{"team":{"data":{"type":"teams","id":%q}},"project":{"data":{"type":"projects","id":%q}}}}}`, w.things["teams/"], w.app.Project.ID)
	case rt.path == "/api/v2/runs":
		return fmt.Sprintf(`{"data":{"type":"runs","attributes":{},"relationships":{"workspace":{"data":{"type":"workspaces","id":%q}}}}}`, w.app.ID)
	case strings.HasSuffix(rt.path, "/state-versions") && rt.method == post:
		return `{"data":{"type":"state-versions","attributes":{"serial":9,"md5":"d41d8cd98f00b204e9800998ecf8427e"}}}`
	case strings.HasSuffix(rt.path, "/state-versions") && rt.method == patch:
		return fmt.Sprintf(`{"data":{"type":"state-versions","relationships":{"rollback-state-version":{"data":{"type":"state-versions","id":%q}}}}}`, w.old)
	case strings.HasSuffix(rt.path, "/approval-rule"):
		return `{"data":{"type":"approval-rules","attributes":{}}}`
	case strings.HasSuffix(rt.path, "/approvals"):
		return `{"data":{"type":"run-approvals","attributes":{"decision":"approved"}}}`
	case strings.HasSuffix(rt.path, "/tag-bindings"):
		return `{"data":[]}`
	}
	if body := w.bodyOfSettings(rt); body != "" {
		return body
	}
	if kind := kindOf(rt.path); kind != "" {
		return fmt.Sprintf(`{"data":{"type":%q,"attributes":{}}}`, kind)
	}
	return "{}"
}

func (w *rights) addressOf(rt route) string {
	path, rest := rt.path, strings.TrimPrefix(rt.path, "/api/v2/")
	if rt.method == del && rest == "admin/organizations/{organization}" {
		path = strings.Replace(path, "{organization}", "spare", 1) // acme is deleted by its other address
	}
	for begin, id := range w.things {
		if strings.HasPrefix(rest, begin) {
			path = strings.Replace(path, "{id}", id, 1)
		}
	}
	if strings.HasPrefix(rest, "varsets/") {
		path = strings.Replace(path, "{variable}", w.values["{set variable}"], 1)
	}
	for variable, value := range w.values {
		path = strings.Replace(path, variable, value, 1)
	}
	path = strings.Replace(path, "{id}", "nothing", 1)
	switch path {
	case "/api/v2/team-workspaces":
		path += "?filter[workspace][id]=" + w.app.ID
	case "/api/v2/team-projects":
		path += "?filter[project][id]=" + w.app.Project.ID
	case "/api/v2/workspaces/" + w.app.ID + "/run-triggers":
		path += "?filter[run-trigger][type]=inbound"
	case "/api/v2/state-versions":
		path += "?filter[workspace][name]=app&filter[organization][name]=acme"
	}
	return path
}

// inOrder puts what takes things away last, and what contains others after them.
func inOrder(all []route) []route {
	weight := func(rt route) int {
		switch {
		case rt.method == get:
			return 0
		case strings.HasSuffix(rt.path, "/organizations/{organization}") && rt.method == del:
			return 5
		case strings.Contains(rt.path, "/workspaces/{") && rt.method == del && !strings.Contains(rt.path, "/vars/") && !strings.Contains(rt.path, "/tasks/") && !strings.Contains(rt.path, "/relationships/"):
			return 4
		case strings.HasSuffix(rt.path, "/safe-delete"):
			return 3
		case rt.method == del && slices.ContainsFunc([]string{"teams", "agent-pools", "varsets", "tasks", "policy-sets", "policies", "ssh-keys", "oauth-clients"}, func(kind string) bool {
			return strings.HasSuffix(rt.path, "/"+kind+"/{id}")
		}):
			return 3
		case rt.method == del:
			return 2
		}
		return 1
	}
	var asking []route
	for _, rt := range all {
		if !rt.open {
			asking = append(asking, rt)
		}
	}
	slices.SortStableFunc(asking, func(a, b route) int { return weight(a) - weight(b) })
	return asking
}

// TestRightsOnEveryRoute calls every route as every role, and holds what each is
// answered against the kept matrix: "." for let through (whatever became of it), "F" for
// forbidden, "N" for not there. A route that is new must be added to the matrix, which
// -update does; read what it wrote.
func TestRightsOnEveryRoute(t *testing.T) {
	t.Parallel()
	const file = "testdata/rights.txt"
	got, mutex := map[string]map[string]string{}, sync.Mutex{}
	t.Run("roles", func(t *testing.T) {
		for _, role := range roles {
			t.Run(role, func(t *testing.T) {
				w := newRights(t)
				token := w.roleToken(role)
				for _, rt := range inOrder((&server{Deps: w.deps}).routes()) {
					reply := w.ask(token, rt.method, w.addressOf(rt), w.bodyOf(rt))
					outcome := "."
					switch reply.status {
					case http.StatusUnauthorized, http.StatusInternalServerError, http.StatusServiceUnavailable:
						t.Errorf("%s %s: %d %s", rt.method, rt.path, reply.status, reply.body)
					case http.StatusForbidden:
						outcome = "F"
					case http.StatusNotFound:
						outcome = "N"
					}
					mutex.Lock()
					at := rt.method + " " + rt.path
					if got[at] == nil {
						got[at] = map[string]string{}
					}
					got[at][role] = outcome
					mutex.Unlock()
				}
			})
		}
	})
	var text strings.Builder
	fmt.Fprintf(&text, "# Columns: %s.\n", strings.Join(roles, ", "))
	for _, at := range slices.Sorted(maps.Keys(got)) {
		for _, role := range roles {
			text.WriteString(got[at][role])
		}
		text.WriteString(" " + at + "\n")
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), text.String(), "write it with: go test ./tfeapi -run RightsOnEveryRoute -update; and read the difference")
	t.Logf("%d routes × %d roles", len(got), len(roles))
}

// unknown swaps the end of an id for another, so that it is the id of nothing.
func unknown(id string) string {
	last := "1"
	if strings.HasSuffix(id, last) {
		last = "2"
	}
	return id[:len(id)-1] + last
}

// audited counts what was done in acme.
func (w *rights) audited() (n int) {
	w.Helper()
	org, err := w.deps.Accounts.Organization(w.Context(), authz.System(), "acme")
	require.NoError(w, err)
	require.NoError(w, postgres.InSnapshot(w.Context(), w.db, "test", func(tx postgres.Tx) error {
		n, err = postgres.Value[int](w.Context(), tx, "select count(*) from audit_entries where organization_id = @org", postgres.Args{"org": ids.Organization(org.ID)})
		return err
	}))
	return n
}
