package tfeapi

import (
	"net/url"
	"strconv"

	"github.com/google/jsonapi"
)

// addressed are the types whose things have an address of their own, by their id.
var addressed = map[string]bool{
	"agent-pools": true, "agents": true, "applies": true, "authentication-tokens": true, "comments": true, "configuration-versions": true,
	"cost-estimates": true, "notification-configurations": true, "organization-memberships": true, "organizations": true, "plan-exports": true,
	"plans": true, "policies": true, "policy-checks": true, "policy-evaluations": true, "policy-set-outcomes": true, "policy-set-versions": true,
	"policy-sets": true, "projects": true, "run-events": true, "run-triggers": true, "runs": true, "ssh-keys": true, "state-version-outputs": true,
	"state-versions": true, "task-results": true, "task-stages": true, "tasks": true, "team-projects": true, "team-workspaces": true, "teams": true,
	"varsets": true, "workspaces": true,
}

// below are the types whose things are addressed below another: by the relation that names it.
var below = map[string]map[string]string{
	"vars":            {"workspaces": "/vars/", "varsets": "/relationships/vars/", "policy-sets": "/parameters/"},
	"workspace-tasks": {"workspaces": "/tasks/"},
}

// selfLink gives the address of a thing, or "" when it has none.
func selfLink(kind, id string, related relations) string {
	if addressed[kind] {
		return "/api/v2/" + kind + "/" + url.PathEscape(id)
	}
	for _, target := range related {
		if owner, one := target.(ref); one && below[kind][owner.kind] != "" {
			return selfLink(owner.kind, owner.id, nil) + below[kind][owner.kind] + id
		}
	}
	return ""
}

// related is the address that a relation to one thing has beside its id.
func (r ref) related() *jsonapi.Links {
	if address := selfLink(r.kind, r.id, nil); address != "" {
		return &jsonapi.Links{"related": address}
	}
	return nil
}

// pageLinks are the addresses of a list and of the pages around the one shown. A whole list is its own
// only page; the last page of one that is not counted is not known.
func pageLinks(base string, asked *url.URL, p *pagination, whole bool) *jsonapi.Links {
	at := func(number int) string {
		query := asked.Query()
		query.Set("page[number]", strconv.Itoa(number))
		query.Set("page[size]", strconv.Itoa(p.PageSize))
		return base + asked.EscapedPath() + "?" + query.Encode()
	}
	if whole {
		self := base + asked.RequestURI()
		return &jsonapi.Links{"self": self, "first": self, "prev": nil, "next": nil, "last": self}
	}
	links := jsonapi.Links{"self": at(p.CurrentPage), "first": at(1), "prev": nil, "next": nil}
	if p.PreviousPage != nil {
		links["prev"] = at(*p.PreviousPage)
	}
	if p.NextPage != nil {
		links["next"] = at(*p.NextPage)
	}
	if !p.uncounted {
		links["last"] = at(p.TotalPages)
	}
	return &links
}
