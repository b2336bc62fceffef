package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// reservedTagKeyView is a reserved key of tag bindings on the wire.
type reservedTagKeyView struct {
	ID               string    `jsonapi:"primary,reserved-tag-keys"`
	Key              string    `jsonapi:"attr,key"`
	DisableOverrides bool      `jsonapi:"attr,disable-overrides"`
	CreatedAt        time.Time `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt        time.Time `jsonapi:"attr,updated-at,iso8601"`
}

func (*reservedTagKeyView) relations() relations { return nil }

func newReservedTagKeyView(k workspaces.ReservedKey) *reservedTagKeyView {
	return &reservedTagKeyView{ID: string(k.ID), Key: k.Key, DisableOverrides: k.DisableOverrides, CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt}
}

func (s *server) listReservedTagKeys(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.ReservedKeys(r.ctx, r.actor, r.vars["organization"], p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*reservedTagKeyView, 0, len(list))
	for _, k := range list {
		items = append(items, newReservedTagKeyView(k))
	}
	return page(items, p, total), nil
}

type reservedTagKeyAttributes struct {
	Key              Opt[string] `json:"key"`
	DisableOverrides Opt[bool]   `json:"disable-overrides"`
}

func reservedTagKeyInput(r *request) (reservedTagKeyAttributes, error) {
	body, err := r.body()
	if err != nil {
		return reservedTagKeyAttributes{}, err
	}
	in, err := decode[reservedTagKeyAttributes](body, "reserved-tag-keys")
	return in.Attributes, err
}

func (s *server) createReservedTagKey(r *request) (answer, error) {
	a, err := reservedTagKeyInput(r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Workspaces.ReserveKey(r.ctx, r.actor, r.vars["organization"], a.Key.Or(""), a.DisableOverrides.Or(false))
	if err != nil {
		return answer{}, err
	}
	return created(newReservedTagKeyView(k)), nil
}

func (s *server) updateReservedTagKey(r *request) (answer, error) {
	key, err := id[ids.ReservedTagKey](r)
	if err != nil {
		return answer{}, err
	}
	a, err := reservedTagKeyInput(r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Workspaces.UpdateReservedKey(r.ctx, r.actor, key, a.Key.Pointer(), a.DisableOverrides.Pointer())
	if err != nil {
		return answer{}, err
	}
	return ok(newReservedTagKeyView(k)), nil
}

func (s *server) deleteReservedTagKey(r *request) (answer, error) {
	key, err := id[ids.ReservedTagKey](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.FreeKey(r.ctx, r.actor, key)
}
