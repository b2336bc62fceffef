package scimapi

import (
	"encoding/json"
	"maps"
	"net/http"

	protocol "github.com/elimity-com/scim"
	"github.com/elimity-com/scim/optional"
	"github.com/elimity-com/scim/schema"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/scim"
)

// people are the resources of /scim/v2/Users.
type people struct{ *server }

// attributesOf is the document of a person.
func attributesOf(p scim.Person) (protocol.ResourceAttributes, error) {
	attributes := protocol.ResourceAttributes{}
	if err := json.Unmarshal(p.Attributes, &attributes); err != nil {
		return nil, err
	}
	attributes["userName"], attributes["active"] = p.UserName, p.Active
	return attributes, nil
}

// personOf reads a document. What it does not say of active stays as it is.
func personOf(attributes protocol.ResourceAttributes, active bool) (scim.Person, error) {
	p := scim.Person{Active: active, Email: primary(attributes["emails"])}
	rest := maps.Clone(attributes)
	p.UserName, _ = rest["userName"].(string)
	p.ExternalID, _ = rest["externalId"].(string)
	if said, ok := rest["active"].(bool); ok {
		p.Active = said
	}
	for _, name := range []string{"userName", "externalId", "active", "password"} { // a password is nobody's business here
		delete(rest, name)
	}
	kept, err := json.Marshal(rest)
	p.Attributes = kept
	return p, err
}

// primary is the address that a document calls so, else its first.
func primary(emails any) string {
	list, _ := emails.([]any)
	first := ""
	for _, one := range list {
		email, _ := one.(map[string]any)
		value, _ := email["value"].(string)
		if yes, _ := email["primary"].(bool); yes {
			return value
		}
		if first == "" {
			first = value
		}
	}
	return first
}

func (h people) resource(r *http.Request, p scim.Person, err error) (protocol.Resource, error) {
	if err != nil {
		return protocol.Resource{}, callOf(r).answerTo(err)
	}
	attributes, err := attributesOf(p)
	if err != nil {
		return protocol.Resource{}, callOf(r).answerTo(err)
	}
	resource := protocol.Resource{ID: string(p.ID), Attributes: shown(r, attributes), Meta: protocol.Meta{Created: &p.CreatedAt, LastModified: &p.UpdatedAt}}
	if p.ExternalID != "" {
		resource.ExternalID = optional.NewString(p.ExternalID)
	}
	return resource, nil
}

// Create makes a person, who is active unless the document says otherwise.
func (h people) Create(r *http.Request, attributes protocol.ResourceAttributes) (protocol.Resource, error) {
	p, err := personOf(attributes, true)
	if err == nil {
		p, err = h.SCIM.CreatePerson(r.Context(), callOf(r).actor, p)
	}
	return h.resource(r, p, err)
}

// Get reads one person.
func (h people) Get(r *http.Request, id string) (protocol.Resource, error) {
	user, err := ids.Parse[ids.User](id)
	if err != nil {
		return h.resource(r, scim.Person{}, err)
	}
	p, err := h.SCIM.Person(r.Context(), callOf(r).actor, user)
	return h.resource(r, p, err)
}

// GetAll reads a part of the list.
func (h people) GetAll(r *http.Request, params protocol.ListRequestParams) (protocol.Page, error) {
	m, err := matchOf(params)
	if err != nil {
		return protocol.Page{}, err
	}
	list, total, err := h.SCIM.People(r.Context(), callOf(r).actor, m, pageOf(params))
	if err != nil {
		return protocol.Page{}, callOf(r).answerTo(err)
	}
	page := protocol.Page{TotalResults: total, Resources: []protocol.Resource{}}
	for _, p := range list {
		resource, err := h.resource(r, p, nil)
		if err != nil {
			return protocol.Page{}, err
		}
		page.Resources = append(page.Resources, resource)
	}
	return page, nil
}

// change lets the document become what next makes of it.
func (h people) change(r *http.Request, id string, next func(protocol.ResourceAttributes) (protocol.ResourceAttributes, error)) (protocol.Resource, error) {
	user, err := ids.Parse[ids.User](id)
	if err != nil {
		return h.resource(r, scim.Person{}, err)
	}
	p, err := h.SCIM.ChangePerson(r.Context(), callOf(r).actor, user, func(before scim.Person) (scim.Person, error) {
		attributes, err := attributesOf(before)
		if err != nil {
			return before, err
		}
		if before.ExternalID != "" {
			attributes["externalId"] = before.ExternalID
		}
		if attributes, err = next(attributes); err != nil {
			return before, err
		}
		return personOf(attributes, before.Active)
	})
	return h.resource(r, p, err)
}

// Replace puts a new document in the place of the old one.
func (h people) Replace(r *http.Request, id string, attributes protocol.ResourceAttributes) (protocol.Resource, error) {
	return h.change(r, id, func(protocol.ResourceAttributes) (protocol.ResourceAttributes, error) { return attributes, nil })
}

// Patch changes parts of the document.
func (h people) Patch(r *http.Request, id string, operations []protocol.PatchOperation) (protocol.Resource, error) {
	return h.change(r, id, func(attributes protocol.ResourceAttributes) (protocol.ResourceAttributes, error) {
		return attributes, patched(attributes, operations, schema.CoreUserSchema(), schema.ExtensionEnterpriseUser())
	})
}

// Delete forgets the person.
func (h people) Delete(r *http.Request, id string) error {
	user, err := ids.Parse[ids.User](id)
	if err == nil {
		err = h.SCIM.DeletePerson(r.Context(), callOf(r).actor, user)
	}
	if err != nil {
		return callOf(r).answerTo(err)
	}
	return nil
}
