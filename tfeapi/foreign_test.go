package tfeapi

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// foreign is a world in which somebody of another organization asks about acme's things.
type foreign struct {
	*rights
	token  string
	known  map[string]string // what acme has → what nobody has
	probes map[string]int    // by where the foreign id stood
}

func newForeign(t *testing.T) *foreign {
	w := newRights(t)
	f := &foreign{rights: w, token: w.roleToken("outsider"), probes: map[string]int{}}
	f.known = map[string]string{"acme": "acmf", w.values["{variable}"]: unknown(w.values["{variable}"])}
	for _, id := range w.things {
		f.known[id] = unknown(id)
	}
	for _, id := range []string{w.app.ID, w.other.ID, w.app.Project.ID, w.old, w.current, w.values["{task}"], w.values["{parameter}"], w.values["{set variable}"]} {
		f.known[id] = unknown(id)
	}
	return f
}

// changedAt is when a thing was changed: the two requests may stand on two sides of a second.
var changedAt = regexp.MustCompile(`"updated-at":"[^"]*",`)

// compare asks with a foreign id, or name, and with that of nothing: the answers are the same
// byte for byte, but for the id that was asked with.
func (f *foreign) compare(where, method, path, body string) {
	f.Helper()
	swap := func(text string) string {
		for thing, swapped := range f.known {
			text = strings.ReplaceAll(text, thing, swapped)
		}
		return text
	}
	otherPath, otherBody := swap(path), swap(body)
	if otherPath == path && otherBody == body {
		return
	}
	f.probes[where]++
	plain := func(r reply) string {
		text := r.body
		for thing, swapped := range f.known {
			text = strings.ReplaceAll(strings.ReplaceAll(text, swapped, "ID"), thing, "ID")
		}
		return fmt.Sprint(r.status, " ", changedAt.ReplaceAllString(text, ""))
	}
	nothing := plain(f.ask(f.token, method, otherPath, otherBody))
	assert.Equal(f, nothing, plain(f.ask(f.token, method, path, body)), "%s: %s %s %s", where, method, path, body)
	assert.False(f, strings.HasPrefix(nothing, "5"), "%s: %s %s %s: %s", where, method, path, body, nothing)
}

// contents is a digest of every row of acme, by table.
func (f *foreign) contents() map[string]string {
	f.Helper()
	org, err := f.deps.Accounts.Organization(f.Context(), authz.System(), "acme")
	require.NoError(f, err)
	found := map[string]string{}
	require.NoError(f, postgres.InSnapshot(f.Context(), f.db, "test", func(tx postgres.Tx) error {
		tables, err := postgres.Values[string](f.Context(), tx, `select c.table_name from information_schema.columns c join information_schema.tables t using (table_schema, table_name)
			where c.column_name = 'organization_id' and t.table_type = 'BASE TABLE' and c.table_schema = current_schema() order by 1`, nil)
		if err != nil {
			return err
		}
		for _, table := range tables {
			digest, err := postgres.Value[string](f.Context(), tx, "select count(*) || ' ' || coalesce(md5(string_agg(t::text, '|' order by t::text)), '') from "+table+" t where organization_id = @org", postgres.Args{"org": ids.Organization(org.ID)})
			if err != nil {
				return err
			}
			found[table] = digest
		}
		return nil
	}))
	require.Greater(f, len(found), 20)
	return found
}

// mine makes things of the other organization, for what takes a foreign id beside them.
func (f *foreign) mine() map[string]string {
	f.Helper()
	make := func(path, kind, attributes string) string {
		reply := f.ask(f.token, post, "/api/v2/"+path, fmt.Sprintf(`{"data":{"type":%q,"attributes":{%s}}}`, kind, attributes))
		require.Less(f, reply.status, 300, "%s: %s", path, reply.body)
		return decodeInto[struct{ Data shownResource }](f.T, reply.body).Data.ID
	}
	const org, name = "organizations/rival/", `"name":"mine"`
	own := map[string]string{"organizations": "rival"}
	own["workspaces"] = make(org+"workspaces", "workspaces", name)
	for kind, attributes := range map[string]string{
		"projects": name, "teams": name, "agent-pools": name, "varsets": name + `,"global":false`, "policy-sets": name + `,"kind":"opa"`,
		"policies": name + `,"kind":"opa","query":"data.p.deny","enforcement-level":"advisory"`,
		"tasks":    name + fmt.Sprintf(`,"url":%q,"category":"task"`, newSink(f.T).url),
	} {
		own[kind] = make(org+kind, kind, attributes)
	}
	workspace, err := f.as(f.token).Workspaces.ReadByID(f.Context(), own["workspaces"])
	require.NoError(f, err)
	own["runs"] = f.queueAsOther(workspace)
	require.NoError(f, f.as(f.token).Workspaces.AddTags(f.Context(), workspace.ID, tfe.WorkspaceAddTagsOptions{Tags: []*tfe.Tag{{Name: "mine"}}}))
	tags, err := f.as(f.token).OrganizationTags.List(f.Context(), "rival", nil)
	require.NoError(f, err)
	own["tags"] = tags.Items[0].ID
	return own
}

func (f *foreign) queueAsOther(workspace *tfe.Workspace) string {
	f.Helper()
	was := f.client
	defer func() { f.client = was }()
	f.client = f.as(f.token)
	return f.queue(workspace, tfe.RunCreateOptions{}).ID
}

// TestForeignThingsReadLikeUnknownOnes puts ids and names of another organization wherever a
// request can hold one: each answer equals the one for an id of nothing byte for byte, and
// nothing changed.
func TestForeignThingsReadLikeUnknownOnes(t *testing.T) {
	f := newForeign(t)
	own := f.mine()
	before, audited := f.contents(), f.audited()
	all := inOrder((&server{Deps: f.deps}).routes())
	for _, rt := range all {
		path := f.addressOf(rt)
		f.compare("path", rt.method, path, f.bodyOf(rt))
		if rt.method == get {
			joined := path + map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
			f.compare("include", get, joined+everything+"&sort=-name", "")
		}
	}
	relations := f.relations(own)
	for _, probe := range relations {
		method, path, _ := strings.Cut(probe.at, " ")
		f.compare("relationship", method, "/api/v2/"+path, probe.body)
	}
	reading := parameters(t)
	for _, rt := range all {
		if rt.method != get || strings.HasSuffix(rt.path, "}") {
			continue
		}
		path := strings.NewReplacer("{organization}", "rival", "{workspace}", "mine").Replace(rt.path)
		kind := strings.Split(strings.TrimPrefix(rt.path, "/api/v2/"), "/")[0]
		path = strings.Replace(path, "{id}", own[kind], 1)
		if strings.Contains(path, "{") || own[kind] == "" && strings.Contains(rt.path, "{id}") {
			continue
		}
		for _, parameter := range reading[handlerName(rt)] {
			query := parameter + "=" + f.valueFor(parameter)
			if strings.HasSuffix(path, "/run-triggers") && parameter != "filter[run-trigger][type]" {
				query += "&filter[run-trigger][type]=inbound"
			}
			f.compare(strings.SplitN(parameter, "[", 2)[0], get, path+"?"+query, "")
		}
	}
	f.compare("filter", get, "/api/v2/state-versions?filter[workspace][name]=app&filter[organization][name]=acme", "")
	f.compare("filter", get, "/api/v2/organizations/rival/workspaces?filter[tagged][0][key]="+f.app.ID, "")
	assert.Equal(t, before, f.contents(), "nothing of acme was changed")
	assert.Equal(t, audited, f.audited())
	total := 0
	for _, n := range f.probes {
		total += n
	}
	t.Logf("%d routes, %d probes: %v", len(all), total, f.probes)
}

// relationProbe is a request of a member of rival that names one thing of acme.
type relationProbe struct{ at, body string }

// relations has a probe for every relation that any request reads (TestEveryRelationIsProbed).
func (f *foreign) relations(own map[string]string) (probes []relationProbe) {
	one := func(name, kind, id string) string {
		return fmt.Sprintf(`%q:{"data":{"type":%q,"id":%q}}`, name, kind, id)
	}
	many := func(name, kind, id string) string {
		return fmt.Sprintf(`%q:{"data":[{"type":%q,"id":%q}]}`, name, kind, id)
	}
	list := func(at, kind, id string) {
		probes = append(probes, relationProbe{at, fmt.Sprintf(`{"data":[{"type":%q,"id":%q}]}`, kind, id)})
	}
	within := func(at, kind, attributes string, relations ...string) {
		probes = append(probes, relationProbe{at, fmt.Sprintf(`{"data":{"type":%q,"attributes":{%s},"relationships":{%s}}}`, kind, attributes, strings.Join(relations, ","))})
	}
	const org = "organizations/rival"
	name, project, workspace := `"name":"probe"`, f.app.Project.ID, f.app.ID
	ws, pool, set, varset, team := "workspaces/"+own["workspaces"], "agent-pools/"+own["agent-pools"], "policy-sets/"+own["policy-sets"], "varsets/"+own["varsets"], "teams/"+own["teams"]
	for _, at := range []string{"POST " + org + "/workspaces", "PATCH " + ws} {
		within(at, "workspaces", name, one("project", "projects", project))
		within(at, "workspaces", fmt.Sprintf(`%s,"execution-mode":"agent","agent-pool-id":%q`, name, f.things["agent-pools/"]))
		within(at, "workspaces", name, many("tags", "tags", f.things["tags/"]))
	}
	within("PATCH "+org, "organizations", "", one("default-agent-pool", "agent-pools", f.things["agent-pools/"]))
	for _, at := range []string{"POST " + org + "/projects", "PATCH projects/" + own["projects"]} {
		within(at, "projects", fmt.Sprintf(`%s,"default-execution-mode":"agent","default-agent-pool-id":%q`, name, f.things["agent-pools/"]))
	}
	for _, at := range []string{"POST " + org + "/agent-pools", "PATCH " + pool} {
		within(at, "agent-pools", name, many("allowed-workspaces", "workspaces", workspace))
		within(at, "agent-pools", name, many("excluded-workspaces", "workspaces", workspace))
		within(at, "agent-pools", name, many("allowed-projects", "projects", project))
	}
	within("POST plan-exports", "plan-exports", `"data-type":"sentinel-mock-bundle-v0"`, one("plan", "plans", f.run.Plan.ID))
	within("POST runs", "runs", "", one("workspace", "workspaces", workspace))
	within("POST runs", "runs", "", one("workspace", "workspaces", own["workspaces"]), one("configuration-version", "configuration-versions", f.run.ConfigurationVersion.ID))
	for _, at := range []string{"POST " + org + "/tasks", "PATCH tasks/" + own["tasks"]} {
		within(at, "tasks", `"name":"probe","url":"http://127.0.0.1:1","category":"task","enabled":false`, one("agent-pool", "agent-pools", f.things["agent-pools/"]))
	}
	within("POST "+ws+"/tasks", "workspace-tasks", `"enforcement-level":"advisory"`, one("task", "tasks", f.things["tasks/"]))
	within("POST "+ws+"/run-triggers", "run-triggers", "", one("sourceable", "workspaces", workspace))
	within("PATCH "+ws+"/state-versions", "state-versions", "", one("rollback-state-version", "state-versions", f.old))
	within("POST "+ws+"/state-versions", "state-versions", `"serial":1,"md5":"d41d8cd98f00b204e9800998ecf8427e"`, one("run", "runs", f.run.ID))
	within("PATCH "+ws+"/relationships/ssh-key", "workspaces", fmt.Sprintf(`"id":%q`, f.things["ssh-keys/"]))
	for _, access := range []string{"team-workspaces", "team-projects"} {
		kind := strings.TrimPrefix(access, "team-")
		foreignID := map[string]string{"workspaces": workspace, "projects": project}[kind]
		within("POST "+access, access, `"access":"read"`, one("team", "teams", own["teams"]), one(strings.TrimSuffix(kind, "s"), kind, foreignID))
		within("POST "+access, access, `"access":"read"`, one("team", "teams", f.things["teams/"]), one(strings.TrimSuffix(kind, "s"), kind, own[kind]))
	}
	for _, at := range []string{"POST ", "DELETE "} {
		list(at+team+"/relationships/users", "users", "bob")
		list(at+team+"/relationships/organization-memberships", "organization-memberships", f.things["organization-memberships/"])
		for kind, id := range map[string]string{"workspaces": workspace, "projects": project} {
			list(at+varset+"/relationships/"+kind, kind, id)
			list(at+set+"/relationships/"+kind, kind, id)
			list(at+set+"/relationships/"+strings.TrimSuffix(kind, "s")+"-exclusions", kind, id)
		}
		list(at+set+"/relationships/policies", "policies", f.things["policies/"])
		list(at+ws+"/relationships/remote-state-consumers", "workspaces", workspace)
		list(at+ws+"/relationships/tags", "tags", f.things["tags/"])
	}
	list("PATCH "+ws+"/relationships/remote-state-consumers", "workspaces", workspace)
	list("POST tags/"+own["tags"]+"/relationships/workspaces", "workspaces", workspace)
	list("DELETE "+org+"/tags", "tags", f.things["tags/"])
	within("POST "+org+"/organization-memberships", "organization-memberships", `"email":"probe@acme.test"`, many("teams", "teams", f.things["teams/"]))
	for _, at := range []string{"POST " + org + "/varsets", "PATCH " + varset} {
		within(at, "varsets", `"name":"probe","global":false`, one("parent", "projects", project))
		within(at, "varsets", `"name":"probe","global":false`, one("parent", "organizations", "acme"))
		within(at, "varsets", `"name":"probe","global":false`, many("workspaces", "workspaces", workspace))
		within(at, "varsets", `"name":"probe","global":false`, many("projects", "projects", project))
	}
	for _, at := range []string{"POST " + org + "/policy-sets", "PATCH " + set} {
		for relation, kind := range memberKinds {
			id := map[string]string{"workspaces": workspace, "projects": project, "policies": f.things["policies/"]}[kind]
			within(at, "policy-sets", `"name":"probe","kind":"opa"`, many(string(relation), kind, id))
		}
	}
	within("POST "+ws+"/notification-configurations", "notification-configurations", `"name":"probe","destination-type":"email","enabled":false`, many("users", "users", f.things["users/"]))
	return probes
}

// valueFor is what a query parameter is probed with: an id where it takes one, else names and ids.
func (f *foreign) valueFor(parameter string) string {
	for part, id := range map[string]string{"[project][id]": f.app.Project.ID, "[workspace][id]": f.app.ID, "[taggable][id]": f.app.ID, "[team][id]": f.things["teams/"]} {
		if strings.HasSuffix(parameter, part) {
			return id
		}
	}
	switch {
	case parameter == "sort":
		return f.app.ID
	case parameter == "search[user]":
		return "bob,acme"
	}
	return "acme," + f.app.ID + "," + f.app.Project.ID + "," + f.things["teams/"]
}

var parameterName = regexp.MustCompile(`"((?:filter|search)(?:\[[a-z_-]+\])+|q|sort)"`)

// sources gives the text of each file of this package.
func sources(t *testing.T) (texts []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		texts = append(texts, string(content))
	}
	return texts
}

var (
	declaration = regexp.MustCompile(`(?m)^func \(s \*server\) (\w+)\(`)
	onServer    = regexp.MustCompile(`\(\*server\)\.(\w+)`)
)

// handlerName is the name of the method that answers a route.
func handlerName(rt route) string {
	found := onServer.FindStringSubmatch(runtime.FuncForPC(reflect.ValueOf(rt.handle).Pointer()).Name())
	if found == nil {
		return ""
	}
	return found[1]
}

// parameters are the query parameters that can hold an id or a name, by the handlers that may
// read them: those of the file in which a parameter stands.
func parameters(t *testing.T) map[string][]string {
	reading, all := map[string][]string{}, map[string]bool{}
	for _, text := range sources(t) {
		names := []string{"filter[tagged][0][key]", "filter[tagged][0][value]"} // read by a function of another file
		for _, found := range parameterName.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
		slices.Sort(names)
		names = slices.DeleteFunc(slices.Compact(names), func(name string) bool {
			return slices.ContainsFunc([]string{"status]", "[status_group]", "[kind]", "[operation]", "[source]", "[last-ping-since]", "[version]"}, func(end string) bool { return strings.HasSuffix(name, end) })
		})
		for _, name := range names {
			all[name] = true
		}
		if len(names) == 2 {
			continue // none of its own
		}
		for _, found := range declaration.FindAllStringSubmatch(text, -1) {
			reading[found[1]] = names
		}
	}
	require.Greater(t, len(all), 15)
	return reading
}

var relationName = regexp.MustCompile(`\(in, "([a-z-]+)", "|in\.(?:related|required|relatedAny)\("([a-z-]+)"`)

// TestEveryRelationIsProbed reads which relations requests have out of this package.
func TestEveryRelationIsProbed(t *testing.T) {
	f := &foreign{rights: &rights{leak: &leak{
		app: &tfe.Workspace{ID: "ws", Project: &tfe.Project{ID: "prj"}}, run: &tfe.Run{Plan: &tfe.Plan{}, ConfigurationVersion: &tfe.ConfigurationVersion{}},
	}}}
	bodies := ""
	for _, probe := range f.relations(map[string]string{}) {
		bodies += probe.body
	}
	elsewhere := []string{"tag-bindings", "outcomes", "feature-set"} // the first two name nothing by its id; that is the site's
	relations := 0
	for _, found := range relationName.FindAllStringSubmatch(strings.Join(sources(t), "\n"), -1) {
		name := found[1] + found[2]
		relations++
		assert.True(t, strings.Contains(bodies, fmt.Sprintf(`%q:{"data"`, name)) || slices.Contains(elsewhere, name), "no foreign id is put into the relation %q: add a probe to relations", name)
	}
	require.Greater(t, relations, 10)
}
