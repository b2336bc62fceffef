package scimapi

import (
	"net/http"
	"slices"

	protocol "github.com/elimity-com/scim"
	"github.com/elimity-com/scim/optional"
	"github.com/elimity-com/scim/schema"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/scim"
)

// groups are the resources of /scim/v2/Groups.
type groups struct{ *server }

// groupOf reads a document.
func groupOf(attributes protocol.ResourceAttributes) (g scim.Group, err error) {
	g.DisplayName, _ = attributes["displayName"].(string)
	g.ExternalID, _ = attributes["externalId"].(string)
	members, _ := attributes["members"].([]any)
	for _, one := range members {
		member, _ := one.(map[string]any)
		value, _ := member["value"].(string)
		user, err := ids.Parse[ids.User](value)
		if err != nil {
			return g, accounts.Invalid("members", "%q is no user of /scim/v2/Users, so it cannot be a member. A group in a group cannot be kept", value)
		}
		g.Members = append(g.Members, user)
	}
	slices.Sort(g.Members)
	g.Members = slices.Compact(g.Members)
	return g, nil
}

func documentOf(g scim.Group) protocol.ResourceAttributes {
	members := make([]any, 0, len(g.Members))
	for i, user := range g.Members {
		member := map[string]any{"value": string(user), "type": "User"}
		if i < len(g.Names) {
			member["display"] = g.Names[i]
		}
		members = append(members, member)
	}
	return protocol.ResourceAttributes{"displayName": g.DisplayName, "members": members}
}

func (h groups) resource(r *http.Request, g scim.Group, err error) (protocol.Resource, error) {
	if err != nil {
		return protocol.Resource{}, callOf(r).answerTo(err)
	}
	resource := protocol.Resource{ID: string(g.ID), Attributes: shown(r, documentOf(g)), Meta: protocol.Meta{Created: &g.CreatedAt, LastModified: &g.UpdatedAt}}
	if g.ExternalID != "" {
		resource.ExternalID = optional.NewString(g.ExternalID)
	}
	return resource, nil
}

// Create makes a group.
func (h groups) Create(r *http.Request, attributes protocol.ResourceAttributes) (protocol.Resource, error) {
	g, err := groupOf(attributes)
	if err == nil {
		g, err = h.SCIM.CreateGroup(r.Context(), callOf(r).actor, g)
	}
	return h.resource(r, g, err)
}

// Get reads one group.
func (h groups) Get(r *http.Request, id string) (protocol.Resource, error) {
	g, err := h.SCIM.Group(r.Context(), callOf(r).actor, ids.SCIMGroup(id))
	return h.resource(r, g, err)
}

// GetAll reads a part of the list.
func (h groups) GetAll(r *http.Request, params protocol.ListRequestParams) (protocol.Page, error) {
	m, err := matchOf(params)
	if err != nil {
		return protocol.Page{}, err
	}
	members := len(shown(r, protocol.ResourceAttributes{"members": nil})) > 0
	list, total, err := h.SCIM.Groups(r.Context(), callOf(r).actor, m, pageOf(params), members)
	if err != nil {
		return protocol.Page{}, callOf(r).answerTo(err)
	}
	page := protocol.Page{TotalResults: total, Resources: []protocol.Resource{}}
	for _, g := range list {
		resource, err := h.resource(r, g, nil)
		if err != nil {
			return protocol.Page{}, err
		}
		page.Resources = append(page.Resources, resource)
	}
	return page, nil
}

// Replace puts a new document in the place of the old one.
func (h groups) Replace(r *http.Request, id string, attributes protocol.ResourceAttributes) (protocol.Resource, error) {
	g, err := h.SCIM.ChangeGroup(r.Context(), callOf(r).actor, ids.SCIMGroup(id), func(scim.Group) (scim.Group, error) { return groupOf(attributes) })
	return h.resource(r, g, err)
}

// Patch changes parts of the document.
func (h groups) Patch(r *http.Request, id string, operations []protocol.PatchOperation) (protocol.Resource, error) {
	g, err := h.SCIM.ChangeGroup(r.Context(), callOf(r).actor, ids.SCIMGroup(id), func(before scim.Group) (scim.Group, error) {
		attributes := documentOf(before)
		if before.ExternalID != "" {
			attributes["externalId"] = before.ExternalID
		}
		if err := patched(attributes, operations, schema.CoreGroupSchema()); err != nil {
			return before, err
		}
		return groupOf(attributes)
	})
	return h.resource(r, g, err)
}

// Delete takes the group away.
func (h groups) Delete(r *http.Request, id string) error {
	if err := h.SCIM.DeleteGroup(r.Context(), callOf(r).actor, ids.SCIMGroup(id)); err != nil {
		return callOf(r).answerTo(err)
	}
	return nil
}
