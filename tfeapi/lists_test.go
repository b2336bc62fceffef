package tfeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/gates"
)

// many is how many more of each thing the second walk over the lists meets.
const many = 7

// few are the lists that no amount of work makes long, each with the reason.
var few = map[string]string{
	"/api/v2/admin/feature-sets":                           "fixed",
	"/api/v2/admin/opa-versions":                           "what site admins enter",
	"/api/v2/admin/sentinel-versions":                      "what site admins enter",
	"/api/v2/oauth-clients/{id}/oauth-tokens":              "one of a client",
	"/api/v2/runs/{id}/policy-checks":                      "one of a run",
	"/api/v2/runs/{id}/task-stages":                        "at most five of a run",
	"/api/v2/runs/{id}/stages":                             "the stages of one run",
	"/api/v2/runs/{id}/attempts":                           "the attempts of one run",
	"/api/v2/runs/{id}/receipts":                           "at most one of a phase",
	"/api/v2/runs/{id}/approvals":                          "one of each who decides",
	"/api/v2/task-stages/{id}/policy-evaluations":          "one of a stage",
	"/api/v2/policy-evaluations/{id}/policy-set-outcomes":  "one of a set, drawn from one result",
	"/api/v2/organizations/{organization}/held-workspaces": "each needs an apply that failed",
	"/api/v2/notification-configurations/{id}/deliveries":  "what was sent",
}

// whole are the lists that are answered whole when no page is asked for: their clients read no
// second one.
var whole = []string{
	"/api/v2/users/{id}/authentication-tokens", "/api/v2/organizations", "/api/v2/organizations/{organization}/runs/queue", "/api/v2/runs/{id}/run-events", "/api/v2/runs/{id}/comments",
	"/api/v2/runs/{id}/policy-checks", "/api/v2/runs/{id}/task-stages", "/api/v2/task-stages/{id}/policy-evaluations",
	"/api/v2/policy-evaluations/{id}/policy-set-outcomes", "/api/v2/policy-sets/{id}/parameters",
	"/api/v2/workspaces/{id}/vars", "/api/v2/workspaces/{id}/all-vars", "/api/v2/varsets/{id}/relationships/vars",
	"/api/v2/workspaces/{id}/tag-bindings", "/api/v2/workspaces/{id}/effective-tag-bindings",
	"/api/v2/projects/{id}/tag-bindings", "/api/v2/projects/{id}/effective-tag-bindings",
	"/api/v2/registry-modules/{id}/tag-bindings", "/api/v2/registry-providers/{id}/tag-bindings", "/api/v2/registry-components/{id}/tag-bindings", "/api/v2/admin/scim-tokens",
	"/api/v2/state-versions/{id}/outputs", "/api/v2/workspaces/{id}/current-state-version-outputs",
	"/api/v2/admin/runner-releases", "/api/v2/admin/policy-runtime-releases",
	"/api/v2/workspaces/{id}/notification-configurations", "/api/v2/projects/{id}/notification-configurations",
}

// uncounted are the lists whose total nobody counts.
var uncounted = []string{"/api/v2/organizations/{organization}/runs", "/api/v2/admin/runs"}

// lists is a world in which each list can be made long.
type lists struct {
	*rights
	root, audit string // tokens of the site's admin and of the audit trail
	hook        string
	judged      string // a run with policy sets
	checks      []string
	made        int
	states      *tfe.Workspace // that no run holds
	team        string         // of the member whose lists grow too
	serial      int
}

func newLists(t *testing.T) *lists {
	w := newRights(t)
	audit, _, err := w.deps.Accounts.CreateOrganizationToken(t.Context(), authz.System(), "acme", accounts.AuditToken, accounts.NewToken{})
	require.NoError(t, err)
	return &lists{rights: w, root: w.siteAdmin(), audit: audit, hook: newSink(t).url, states: w.workspace("states")}
}

// token is of somebody who may read that list.
func (l *lists) token(path string) string {
	switch {
	case strings.HasPrefix(path, "/api/v2/admin/"):
		return l.root
	case path == "/api/v2/organization/audit-trail":
		return l.audit
	}
	return l.ann
}

// post makes a thing, and gives its id.
func (l *lists) post(path, kind, attributes, relations string) string {
	l.Helper()
	reply := l.ask(l.ann, post, "/api/v2/"+path, fmt.Sprintf(`{"data":{"type":%q,"attributes":{%s},"relationships":{%s}}}`, kind, attributes, relations))
	require.Less(l, reply.status, 300, "%s: %s", path, reply.body)
	return decodeInto[struct{ Data shownResource }](l.T, reply.body).Data.ID
}

// grow adds n to every list but the few.
func (l *lists) grow(n int) {
	l.Helper()
	ctx, app, org := l.Context(), "workspaces/"+l.app.ID, "organizations/acme/"
	project, set, varset, pool := "projects/"+l.app.Project.ID, "policy-sets/"+l.things["policy-sets/"], "varsets/"+l.things["varsets/"], "agent-pools/"+l.things["agent-pools/"]
	relation := func(name, kind, id string) string {
		return fmt.Sprintf(`%q:{"data":{"type":%q,"id":%q}}`, name, kind, id)
	}
	relationMany := func(name, kind, id string) string {
		return fmt.Sprintf(`%q:{"data":[{"type":%q,"id":%q}]}`, name, kind, id)
	}
	tokens, err := l.client.AgentTokens.Create(ctx, l.things["agent-pools/"], tfe.AgentTokenCreateOptions{Description: tfe.String("for the runners")})
	require.NoError(l, err)
	me, err := l.client.Users.ReadCurrent(ctx)
	require.NoError(l, err)
	l.releases(nil) // which would keep the runners out
	var bindings, releases, consumers, shared []string
	for i := range n {
		l.made++
		name, key := fmt.Sprintf(`"name":"more-%02d"`, l.made), fmt.Sprintf(`"key":"more_%02d","value":"v"`, l.made)
		workspace := l.post(org+"workspaces", "workspaces", name, relation("project", "projects", l.post(org+"projects", "projects", name, "")))
		if l.team != "" {
			l.post("team-workspaces", "team-workspaces", `"access":"read"`, relation("team", "teams", l.team)+","+relation("workspace", "workspaces", workspace))
		}
		team := l.post(org+"teams", "teams", name, "")
		l.post("team-workspaces", "team-workspaces", `"access":"read"`, relation("team", "teams", team)+","+relation("workspace", "workspaces", l.app.ID))
		l.post("team-projects", "team-projects", `"access":"read"`, relation("team", "teams", team)+","+relation("project", "projects", l.app.Project.ID))
		l.post("teams/"+team+"/authentication-tokens", "authentication-tokens", `"description":"of a team"`, "")
		l.post("teams/"+l.things["teams/"]+"/authentication-tokens", "authentication-tokens", fmt.Sprintf(`"description":"more-%02d"`, l.made), "")
		l.post("users/"+me.ID+"/authentication-tokens", "authentication-tokens", `"description":"mine"`, "")
		l.post(org+"organization-memberships", "organization-memberships", fmt.Sprintf(`"email":"more-%02d@acme.test"`, l.made), relationMany("teams", "teams", team))
		l.post(org+"agent-pools", "agent-pools", name, "")
		l.post(pool+"/authentication-tokens", "authentication-tokens", `"description":"more"`, "")
		_, _, _, err := l.polls(tokens.Token, dispatch.RunnerHello{Name: fmt.Sprintf("runner-%02d", l.made)})
		require.NoError(l, err)
		l.post(org+"ssh-keys", "ssh-keys", name+`,"value":"PRIVATE"`, "")
		l.post(org+"reserved-tag-keys", "reserved-tag-keys", key, "")
		l.post(org+"tasks", "tasks", name+fmt.Sprintf(`,"url":%q,"category":"task"`, l.hook), "")
		task := l.post(org+"tasks", "tasks", fmt.Sprintf(`"name":"asked-%02d","url":%q,"category":"task"`, l.made, l.hook), "")
		l.post(app+"/tasks", "workspace-tasks", `"enforcement-level":"advisory"`, relation("task", "tasks", task))
		policy := l.post(org+"policies", "policies", name+`,"kind":"opa","query":"data.p.deny","enforcement-level":"advisory"`, "")
		l.post(org+"policy-sets", "policy-sets", name+`,"kind":"opa"`, relationMany("policies", "policies", policy)+","+relationMany("workspaces", "workspaces", workspace))
		l.post(set+"/parameters", "vars", key+`,"category":"policy-set"`, "")
		l.post(org+"varsets", "varsets", name+`,"global":false`, relationMany("workspaces", "workspaces", l.app.ID)+","+relationMany("projects", "projects", l.app.Project.ID))
		l.post(varset+"/relationships/vars", "vars", key+`,"category":"env"`, "")
		l.post(app+"/vars", "vars", key+`,"category":"env"`, "")
		for _, place := range []string{app, project} {
			l.post(place+"/notification-configurations", "notification-configurations", name+fmt.Sprintf(`,"destination-type":"generic","enabled":false,"url":%q,"triggers":["run:created"]`, l.hook), "")
		}
		l.post(app+"/run-triggers", "run-triggers", "", relation("sourceable", "workspaces", workspace))
		l.post("runs/"+l.run.ID+"/comments", "comments", `"body":"more"`, "")
		l.post(app+"/configuration-versions", "configuration-versions", "", "")
		l.post("queries", "queries", "", relation("workspace", "workspaces", l.app.ID)+","+relation("configuration-version", "configuration-versions", l.run.ConfigurationVersion.ID))
		if run := l.queue(l.other, tfe.RunCreateOptions{}); l.judged == "" {
			l.judged = run.ID
		}
		require.Equal(l, 200, l.ask(l.ann, post, "/api/v2/notification-configurations/"+l.things["notification-configurations/"]+"/actions/verify", "").status)
		require.Equal(l, 204, l.ask(l.ann, post, "/api/v2/"+app+"/relationships/tags", fmt.Sprintf(`{"data":[{"type":"tags","attributes":{"name":"more-%02d"}}]}`, l.made)).status)
		bindings = append(bindings, fmt.Sprintf(`{"type":"tag-bindings","attributes":{"key":"bound-%02d","value":"v"}}`, l.made))
		consumers = append(consumers, fmt.Sprintf(`{"type":"workspaces","id":%q}`, workspace))
		releases = append(releases, fmt.Sprintf("1.0.%d", i))
		created, err := l.deps.Workspaces.CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: fmt.Sprintf("more-%02d", l.made)})
		require.NoError(l, err)
		actor, err := l.deps.Authenticate(ctx, l.ann)
		require.NoError(l, err)
		require.NoError(l, l.deps.Accounts.AddMember(ctx, authz.System(), created.ID, actor.User, authz.Owner))
		shared = append(shared, created.Name)
		l.growRegistry()
		l.growProvisioning()
		l.post(org+"oauth-clients", "oauth-clients", `"service-provider":"github","api-url":"https://api.github.com","http-url":"https://github.com","oauth-token-string":"t"`, "")
	}
	for _, place := range []string{app, project} {
		reply := l.ask(l.ann, patch, "/api/v2/"+place+"/tag-bindings", `{"data":[`+strings.Join(bindings[:min(n, 9)], ",")+`]}`) // at most ten
		require.Equal(l, 200, reply.status, reply.body)
	}
	reply := l.ask(l.ann, patch, "/api/v2/"+app+"/relationships/remote-state-consumers", `{"data":[`+strings.Join(consumers, ",")+`]}`)
	require.Equal(l, 204, reply.status, reply.body)
	require.NoError(l, l.deps.Accounts.SetModuleConsumers(ctx, authz.System(), "acme", shared))
	l.releases(releases)
	l.publishStates(n)
	checks, _ := l.show("", "/api/v2/runs/"+l.judged+"/policy-checks")
	l.checks = checks.ids()
	require.NotEmpty(l, l.checks)
}

// releases allows these versions, and no other, to execute.
func (l *lists) releases(versions []string) {
	l.Helper()
	for _, list := range []gates.List{gates.Runner, gates.PolicyRuntime} {
		items := []string{}
		for _, version := range versions {
			items = append(items, fmt.Sprintf(`{"type":"%s-releases","attributes":{"version":%q,"digest":%q}}`, list, version, strings.Repeat("a", 64)))
		}
		reply := l.ask(l.root, put, "/api/v2/admin/"+string(list)+"-releases", `{"data":[`+strings.Join(items, ",")+`]}`)
		require.Equal(l, 200, reply.status, reply.body)
	}
}

// publishStates gives the workspace of states n more versions; the last has n more outputs and resources.
func (l *lists) publishStates(n int) {
	l.Helper()
	_, err := l.client.Workspaces.Lock(l.Context(), l.states.ID, tfe.WorkspaceLockOptions{})
	require.NoError(l, err)
	for range n {
		l.serial++
		outputs, resources := map[string]any{}, []any{}
		for i := range l.serial {
			outputs[fmt.Sprintf("output-%02d", i)] = map[string]any{"value": "v", "type": "string"}
			resources = append(resources, map[string]any{
				"mode": "managed", "type": "terraform_data", "name": fmt.Sprintf("x-%02d", i), "provider": `provider["terraform.io/builtin/terraform"]`,
				"instances": []any{map[string]any{"attributes": map[string]any{}}},
			})
		}
		data, err := json.Marshal(map[string]any{"version": 4, "terraform_version": "1.12.6", "serial": l.serial, "lineage": "l-1", "outputs": outputs, "resources": resources})
		require.NoError(l, err)
		v, err := l.client.StateVersions.Create(l.Context(), l.states.ID, tfe.StateVersionCreateOptions{Lineage: text("l-1"), MD5: md5Of(data), Serial: number(int64(l.serial)), State: text64(data)})
		require.NoError(l, err)
		l.things["state-versions/"] = v.ID
	}
	_, err = l.client.Workspaces.Unlock(l.Context(), l.states.ID)
	require.NoError(l, err)
}

// address is where a list is that grows.
func (l *lists) address(rt route) string {
	switch rt.path {
	case "/api/v2/workspaces/{id}/state-versions", "/api/v2/workspaces/{id}/current-state-version-outputs", "/api/v2/workspaces/{id}/resources":
		return strings.Replace(rt.path, "{id}", l.states.ID, 1)
	case "/api/v2/state-versions":
		return rt.path + "?filter[workspace][name]=states&filter[organization][name]=acme"
	case "/api/v2/workspaces/{id}/runs":
		return strings.Replace(rt.path, "{id}", l.other.ID, 1)
	case "/api/v2/runs/{id}/policy-checks", "/api/v2/runs/{id}/task-stages":
		return strings.Replace(rt.path, "{id}", l.judged, 1)
	case "/api/v2/task-stages/{id}/policy-evaluations":
		return strings.Replace(rt.path, "{id}", strings.Replace(l.checks[0], "polchk-", "ts-", 1), 1)
	case "/api/v2/policy-evaluations/{id}/policy-set-outcomes":
		return strings.Replace(rt.path, "{id}", strings.Replace(l.checks[0], "polchk-", "poleval-", 1), 1)
	}
	return l.addressOf(rt)
}

// statementLog notes what the request log says that a request cost the database.
type statementLog struct {
	slog.Handler
	last int64
}

func (s *statementLog) Handle(_ context.Context, record slog.Record) error {
	record.Attrs(func(a slog.Attr) bool {
		if a.Key == "statements" {
			s.last = a.Value.Int64()
		}
		return true
	})
	return nil
}

func (s *statementLog) Enabled(context.Context, slog.Level) bool { return true }

// shownList is what a list answers.
type shownList struct {
	Data []struct{ Type, ID string }
	Meta struct {
		Pagination map[string]any
	}
	Pagination map[string]any // of the audit trail
	Links      map[string]any
}

// field gives a number of the pagination, which must be there, and 0 for null.
func (s shownList) field(name string) int {
	of := s.Meta.Pagination
	if s.Pagination != nil {
		of, name = s.Pagination, strings.ReplaceAll(name, "-", "_")
	}
	value, there := of[name]
	if number, is := value.(float64); is {
		return int(number)
	}
	if !there {
		return -1
	}
	return 0
}

func (s shownList) total() int { return s.field("total-count") }

func (s shownList) ids() (ids []string) {
	for _, item := range s.Data {
		ids = append(ids, item.ID)
	}
	return ids
}

// show gives a list, or false when the answer is none.
func (l *lists) show(path, address string) (list shownList, shown bool) {
	l.Helper()
	reply := l.ask(l.token(path), get, address, "")
	if reply.status != 200 || !strings.HasPrefix(reply.body, `{"data":[`) {
		return list, false
	}
	require.NoError(l, json.Unmarshal([]byte(reply.body), &list), reply.body)
	return list, true
}

// all gives the address of every list of the route table.
func (l *lists) all() map[string]string {
	l.Helper()
	found := map[string]string{}
	for _, rt := range (&server{Deps: l.deps}).routes() {
		if rt.method != get || rt.open {
			continue
		}
		address := l.address(rt)
		if list, shown := l.show(rt.path, address); shown {
			found[rt.path] = address
			if len(list.Data) < many-1 && few[rt.path] == "" {
				l.Errorf("%s shows %d things: let grow make more, or say in few why there are never many", rt.path, len(list.Data))
			}
			continue
		}
		// What is not there could be a list that this test does not see.
		last := rt.path[strings.LastIndex(rt.path, "/")+1:]
		if reply := l.ask(l.token(rt.path), get, address, ""); reply.status != 200 && !strings.HasSuffix(last, "}") && !slices.Contains(single, last) {
			l.Errorf("%s answers %d: give it a thing to show, or add %q to single", address, reply.status, last)
		}
	}
	return found
}

// single is how the addresses end of what is one thing, and is not there in this test.
var single = []string{"authentication-token", "output", "input", "download", "json-download", "json-output", "json-output-redacted", "emergency-state", "recovery", "outcomes"}

// everything is an include of all there is to include, and of something else.
const everything = "include=organization,project,plan,apply,created_by,configuration_version,configuration_version.ingress_attributes,cost_estimate,workspace,task_stages," +
	"current_run,oauth_tokens,owners,organizations,organization.owners,current_run.plan,current_run.apply,current_configuration_version,current_state_version,locked_by,outputs,readme,vars,effective_tag_bindings,agent_pool," +
	"user,teams,users,organization-memberships,workspaces,projects,policies,current_version,newest_version,workspace_tasks,workspace_tasks.workspace,sourceable," +
	"actor,comment,task_results,policy_evaluations,subscription,default_project,nonsense"

// joined is an address with a query more.
func joined(address, query string) string {
	if strings.Contains(address, "?") {
		return address + "&" + query
	}
	return address + "?" + query
}

// costs gives how many statements each list costs, plain and with all includes.
func (l *lists) costs(of map[string]string, token func(path string) string) map[string]int64 {
	l.Helper()
	counted := &statementLog{Handler: slog.DiscardHandler}
	deps := l.deps
	deps.Log = slog.New(counted)
	server, costs := New(deps), map[string]int64{}
	for path, address := range of {
		for _, query := range []string{"", everything} {
			address := address
			if query != "" && strings.HasSuffix(path, "/organization-memberships") {
				query = "include=user,teams" // which refuses what it does not know
			}
			if query != "" && path == "/api/v2/admin/runs" {
				query = "include=workspace,workspace.organization.owners" // the same
			}
			if query != "" {
				address = joined(address, query)
			}
			request := httptest.NewRequestWithContext(l.Context(), get, address, nil)
			request.Header.Set("Authorization", "Bearer "+token(path))
			reply := httptest.NewRecorder()
			server.ServeHTTP(reply, request)
			require.Contains(l, []int{200, 403, 404}, reply.Code, "%s: %s", address, reply.Body)
			require.Positive(l, counted.last, path)
			costs[path+" "+strings.SplitN(query, "=", 2)[0]] = counted.last
		}
	}
	return costs
}

// TestEveryListIsCutIntoPagesAndCostsTheSame walks all lists of the route table: each has
// complete pages, and the statements that it costs do not depend on how many things it shows.
func TestEveryListIsCutIntoPagesAndCostsTheSame(t *testing.T) {
	l := newLists(t)
	l.grow(1)
	first := map[string]string{}
	for _, rt := range (&server{Deps: l.deps}).routes() {
		if rt.method == get && !rt.open {
			if _, shown := l.show(rt.path, l.address(rt)); shown {
				first[rt.path] = l.address(rt)
			}
		}
	}
	member := l.roleToken("read") // sees what its team is given
	teams, err := l.client.Teams.List(t.Context(), "acme", &tfe.TeamListOptions{Names: []string{"of-role"}})
	require.NoError(t, err)
	l.team = teams.Items[0].ID
	ofMember := func(string) string { return member }
	short, shortOfMember := l.costs(first, l.token), l.costs(first, ofMember)
	l.grow(many)
	all := l.all()
	require.Equal(t, len(first), len(all))
	long, longOfMember := l.costs(all, l.token), l.costs(all, ofMember)
	for at, cost := range short {
		assert.Equal(t, cost, long[at], "statements of %s, with few things and with many", at)
		assert.Equal(t, shortOfMember[at], longOfMember[at], "statements of %s for a member, with few things and with many", at)
	}
	for path, address := range all {
		l.paged(path, address)
	}
	for _, rt := range (&server{Deps: l.deps}).routes() {
		if rt.method == get && !rt.open && all[rt.path] == "" && !strings.Contains(rt.path, "/organization-memberships/") {
			plain, with := l.ask(l.token(rt.path), get, l.address(rt), ""), l.ask(l.token(rt.path), get, joined(l.address(rt), everything), "")
			assert.Equal(t, plain.status, with.status, "%s, with includes: %s", rt.path, with.body)
		}
	}
	l.narrowed()
	l.readsItsParameters(all)
	for path := range few {
		assert.Contains(t, all, path, "few knows a list that is none")
	}
	for _, path := range append(slices.Clone(whole), uncounted...) {
		assert.Contains(t, all, path)
	}
	t.Logf("%d lists", len(all))
}

// narrowed asks some lists for a part of what they have, in an order.
func (l *lists) narrowed() {
	l.Helper()
	names := func(path string) (names []any) {
		for _, item := range l.list(l.ann, path) {
			names = append(names, item.Attributes["name"])
		}
		return names
	}
	resources := "workspaces/" + l.states.ID + "/resources"
	assert.Equal(l, []any{"x-07", "x-06"}, names(resources + "?sort=name:desc")[:2])
	assert.Equal(l, []any{"x-00", "x-01"}, names(resources + "?sort=name:asc")[:2])
	assert.Equal(l, []any{"x-03"}, names(resources+"?q=data.x-03"))
	assert.Equal(l, 400, l.ask(l.ann, get, "/api/v2/"+resources+"?sort=name", "").status)
	sets := "organizations/acme/varsets"
	l.post(sets, "varsets", `"name":"for all","global":true`, "")
	assert.Equal(l, []any{"for all"}, names(sets+"?filter[global]=true"))
	assert.Len(l, names(sets+"?filter[global]=false"), many+2)
	assert.Len(l, names(sets+"?scope=owned"), many+2, "not that of the project")
	assert.Len(l, names(sets), many+3)
	assert.Equal(l, 400, l.ask(l.ann, get, "/api/v2/"+sets+"?filter[global]=perhaps", "").status)
}

// paged holds one list against what all are like.
func (l *lists) paged(path, address string) {
	l.Helper()
	counts, trail := !slices.Contains(uncounted, path), path == "/api/v2/organization/audit-trail"
	with := func(query string) shownList {
		l.Helper()
		list, shown := l.show(path, address+map[bool]string{true: "&", false: "?"}[strings.Contains(address, "?")]+query)
		require.True(l, shown, "%s %s", address, query)
		return list
	}
	// What nobody asks for is a page of twenty, or all where clients know no pages.
	plain, _ := l.show(path, address)
	if slices.Contains(whole, path) {
		assert.Len(l, plain.Data, with("page[size]=100").total(), path)
	} else if !trail {
		assert.Equal(l, 20, plain.field("page-size"), path)
	}
	for query, size := range map[string]int{"page[size]=1000": 100, "page[size]=0": 20, "page[number]=-3": 20} {
		list := with(query)
		assert.Equal(l, 1, list.field("current-page"), "%s %s", path, query)
		if !trail {
			assert.Equal(l, size, list.field("page-size"), "%s %s", path, query)
		}
	}
	for _, query := range []string{"page[size]=many", "page[number]=99999999999999999999"} {
		refused := l.ask(l.token(path), get, address+map[bool]string{true: "&", false: "?"}[strings.Contains(address, "?")]+query, "")
		assert.Equal(l, 400, refused.status, "%s %s", path, query)
		assert.True(l, strings.Contains(refused.body, "must be a whole number"), "%s: the refusal says what is wrong", path)
	}
	// Page by page everything is shown once.
	total, size, seen := 0, 4, []string{}
	if counts {
		total = with("page[size]=4").total()
		size = min(100, max(size, (total+3)/4)) // the audit trail is long
	}
	pages := max(1, (total+size-1)/size)
	at := func(number int) string { return fmt.Sprintf("page[size]=%d&page[number]=%d", size, number) }
	for number := 1; ; number++ {
		list := with(at(number))
		seen = append(seen, list.ids()...)
		assert.Equal(l, number, list.field("current-page"), path)
		assert.Equal(l, number-1, list.field("prev-page"), path)
		if counts {
			assert.Equal(l, total, list.total(), path)
			assert.Equal(l, pages, list.field("total-pages"), path)
		}
		if list.field("next-page") == 0 {
			break
		}
		assert.Equal(l, number+1, list.field("next-page"), path)
		assert.Len(l, list.Data, size, path)
		if !trail && number == 1 {
			require.NotNil(l, list.Links["next"], path)
			next, shown := l.show(path, list.Links["next"].(string)[len(l.url):])
			require.True(l, shown, path)
			assert.Equal(l, with(at(number+1)).ids(), next.ids(), "%s: the link leads to the next page", path)
		}
	}
	once := slices.Compact(slices.Sorted(slices.Values(seen)))
	assert.Len(l, once, len(seen), "%s: a thing on two pages", path)
	if counts {
		assert.Len(l, seen, total, "%s: the pages together", path)
	}
	// Beyond the end is nothing, with the real total.
	beyond := with(at(999))
	assert.Empty(l, beyond.Data, path)
	assert.Equal(l, 999, beyond.field("current-page"), path)
	assert.Equal(l, 0, beyond.field("next-page"), path)
	if counts {
		assert.Equal(l, total, beyond.total(), path)
		assert.Equal(l, pages, beyond.field("total-pages"), path)
	}
}
