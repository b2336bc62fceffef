package tfeapi

import (
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/registry"
)

// gpgKeyView is a public key on the wire.
type gpgKeyView struct {
	ID             string    `jsonapi:"primary,gpg-keys"`
	ASCIIArmor     string    `jsonapi:"attr,ascii-armor"`
	KeyID          string    `jsonapi:"attr,key-id"`
	Namespace      string    `jsonapi:"attr,namespace"`
	Source         string    `jsonapi:"attr,source"`
	SourceURL      *string   `jsonapi:"attr,source-url"`
	TrustSignature string    `jsonapi:"attr,trust-signature"`
	CreatedAt      time.Time `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt      time.Time `jsonapi:"attr,updated-at,iso8601"`
}

func (*gpgKeyView) relations() relations { return nil }

func newGPGKeyView(k registry.GPGKey) *gpgKeyView {
	return &gpgKeyView{ID: string(k.ID), ASCIIArmor: k.ASCIIArmor, KeyID: k.KeyID, Namespace: k.OrganizationName, CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt}
}

// privateOnly refuses the keys of another registry: it is not here.
func privateOnly(r *request) error {
	if registry.Name(r.vars["registry"]) != registry.Private {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address. The keys of this server are at /api/registry/private/v2/gpg-keys.")
	}
	return nil
}

func (s *server) listGPGKeys(r *request) (answer, error) {
	if err := privateOnly(r); err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	var namespaces []string
	for _, value := range r.query["filter[namespace]"] {
		for _, name := range strings.Split(value, ",") {
			if name != "" {
				namespaces = append(namespaces, name)
			}
		}
	}
	list, total, err := s.Registry.Keys(r.ctx, r.actor, namespaces, registry.Page{Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items := make([]*gpgKeyView, 0, len(list))
	for _, k := range list {
		items = append(items, newGPGKeyView(k))
	}
	return registryPage(items, p, total), nil
}

type gpgKeyAttributes struct {
	Namespace  Opt[string] `json:"namespace"`
	ASCIIArmor Opt[string] `json:"ascii-armor"`
}

func gpgKeyInput(r *request) (a gpgKeyAttributes, err error) {
	if err := privateOnly(r); err != nil {
		return a, err
	}
	body, err := r.body()
	if err != nil {
		return a, err
	}
	in, err := decode[gpgKeyAttributes](body, "gpg-keys")
	if err == nil && in.Attributes.Namespace.Or("") == "" {
		err = malformed("/data/attributes/namespace", "The attribute namespace is missing. It is the name of the organization that the key belongs to.")
	}
	return in.Attributes, err
}

func (s *server) createGPGKey(r *request) (answer, error) {
	a, err := gpgKeyInput(r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Registry.AddKey(r.ctx, r.actor, a.Namespace.Value, a.ASCIIArmor.Or(""))
	if err != nil {
		return answer{}, err
	}
	return created(newGPGKeyView(k)), nil
}

func (s *server) readGPGKey(r *request) (answer, error) {
	if err := privateOnly(r); err != nil {
		return answer{}, err
	}
	k, err := s.Registry.Key(r.ctx, r.actor, r.vars["namespace"], r.vars["key"])
	if err != nil {
		return answer{}, err
	}
	return ok(newGPGKeyView(k)), nil
}

func (s *server) moveGPGKey(r *request) (answer, error) {
	a, err := gpgKeyInput(r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Registry.MoveKey(r.ctx, r.actor, r.vars["namespace"], r.vars["key"], a.Namespace.Value)
	if err != nil {
		return answer{}, err
	}
	return ok(newGPGKeyView(k)), nil
}

func (s *server) deleteGPGKey(r *request) (answer, error) {
	if err := privateOnly(r); err != nil {
		return answer{}, err
	}
	return noContent(), s.Registry.DeleteKey(r.ctx, r.actor, r.vars["namespace"], r.vars["key"])
}
