package tfeapi

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/stretchr/testify/assert"
)

// narrowing is what each list is narrowed or ordered by, beside its page and what it includes.
var narrowing = map[string][]string{
	"/api/v2/organizations": {"q", "q[name]", "q[email]"},
	"/api/v2/organizations/{organization}/runs": {
		"filter[operation]", "filter[status]", "filter[status_group]", "filter[source]", "filter[timeframe]", "filter[workspace_names]", "filter[agent_pool_names]",
		"search[user]", "search[commit]", "search[basic]",
	},
	"/api/v2/workspaces/{id}/runs": {"filter[operation]", "filter[status]", "filter[source]", "search[user]", "search[commit]", "search[basic]"},
	"/api/v2/organizations/{organization}/projects": {
		"q", "sort", "filter[names]", "filter[permissions][create-workspace]", "filter[permissions][update]", "filter[tagged][0][key]",
	},
	"/api/v2/organizations/{organization}/workspaces": {
		"search[name]", "search[wildcard-name]", "search[tags]", "filter[current-run][status]", "filter[project][id]", "filter[tagged][0][key]",
		"filter[tag-union]", "filter[tag-value-default-null]", "sort",
	},
	"/api/v2/organizations/{organization}/agent-pools": {
		"q", "sort",
	},
	"/api/v2/agent-pools/{id}/agents":                               {"sort", "filter[last-ping-since]"},
	"/api/v2/organizations/{organization}/teams":                    {"q", "filter[names]"},
	"/api/v2/organizations/{organization}/organization-memberships": {"q", "filter[status]", "filter[email]"},
	"/api/v2/organizations/{organization}/team-tokens":              {"q", "sort", "filter[expiry_status]"},
	"/api/v2/team-workspaces":                                       {"filter[team][id]"},
	"/api/v2/team-projects":                                         {"filter[team][id]"},
	"/api/v2/organizations/{organization}/policies":                 {"search[name]", "filter[kind]", "sort"},
	"/api/v2/organizations/{organization}/policy-sets":              {"search[name]", "filter[kind]", "filter[versioned]"},
	"/api/v2/organizations/{organization}/varsets":                  {"q", "filter[global]", "scope"},
	"/api/v2/projects/{id}/varsets":                                 {"q", "filter[global]", "scope"},
	"/api/v2/workspaces/{id}/varsets":                               {"q", "filter[global]"},
	"/api/v2/organizations/{organization}/tags":                     {"q"},
	"/api/v2/workspaces/{id}/relationships/tags":                    {"name"},
	"/api/v2/workspaces/{id}/relationships/remote-state-consumers":  {"show_only_configured"},
	"/api/v2/workspaces/{id}/resources":                             {"q", "sort"},
	"/api/v2/workspaces/{id}/state-versions":                        {"filter[status]"},
	"/api/v2/state-versions":                                        {"filter[status]"},
	"/api/v2/organizations/{organization}/oauth-tokens":             {"filter[provider]"},
	"/api/v2/organization/audit-trail":                              {"since"},
	"/api/v2/organizations/{organization}/registry-modules":         {"q", "filter[provider]", "filter[registry_name]", "filter[organization_name]"},
	"/api/v2/organizations/{organization}/registry-providers":       {"q", "filter[registry_name]", "filter[organization_name]"},
	"/api/v2/admin/organizations":                                   {"q"},
	"/api/v2/admin/users":                                           {"q", "filter[admin]", "filter[suspended]"},
	"/api/v2/admin/runs":                                            {"q", "filter[status]", "filter[from]", "filter[to]"},
	"/api/v2/admin/workspaces":                                      {"q", "filter[current_run][status]", "sort"},
	"/api/v2/admin/terraform-versions":                              {"filter[version]", "search[version]"},
}

// readElsewhere are parameters that nonsense does not show, and the test that does.
var readElsewhere = map[string]string{
	"/api/v2/organizations/{organization}/authentication-token token":                   "TestWhatListsAreNarrowedBy",
	"/api/v2/organizations/{organization}/agent-pools filter[allowed-workspaces][name]": "TestWhatListsAreNarrowedBy",
}

// readsItsParameters asks each list with nonsense for each of its parameters: that is refused, or
// selects less. A list that answered as before would not have read it. Where there is an OpenAPI
// document, each parameter that it tells of is among them, or kept as not read.
func (l *lists) readsItsParameters(all map[string]string) {
	l.Helper()
	for path, names := range narrowing {
		address, is := all[path]
		if !assert.True(l, is, "%s is no list", path) {
			continue
		}
		plain, _ := l.show(path, address)
		for _, name := range names {
			at := joined(address, url.QueryEscape(name)+"=nonsense")
			list, shown := l.show(path, at)
			assert.True(l, !shown || len(list.Data) < len(plain.Data), "%s does not read %s", path, name)
			assert.Less(l, l.ask(l.token(path), get, at, "").status, 500, at)
		}
	}
	record := openAPI()
	if record == nil {
		return
	}
	for _, rt := range (&server{Deps: l.deps}).routes() {
		address := l.address(rt)
		within, api := strings.CutPrefix(strings.SplitN(address, "?", 2)[0], "/api/v2")
		if !api {
			continue
		}
		operation, names := record.document.Parameters(rt.method, within)
		for _, name := range names {
			asked := strings.Contains(address, name+"=") // the list is not there without it
			if name == "include" || strings.HasPrefix(name, "page[") || asked || readElsewhere[rt.path+" "+name] != "" ||
				rt.method == get && slices.Contains(narrowing[rt.path], name) {
				continue
			}
			deviation := fmt.Sprintf("%s?%s: not read", operation, name)
			record.unread = append(record.unread, deviation)
			assert.True(l, record.kept.Covers(deviation), "the OpenAPI document has a parameter that nothing here reads: %s", deviation)
		}
	}
}
