package tfeapi

import (
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// The two sorts of data retention policies are two types on the wire.
const (
	deletesOlder = "data-retention-policy-delete-olders"
	deletesNone  = "data-retention-policy-dont-deletes"
)

// deleteOlderView is a policy that deletes the bytes of old versions.
type deleteOlderView struct {
	ID   string `jsonapi:"primary,data-retention-policy-delete-olders"`
	Days int    `jsonapi:"attr,delete-older-than-n-days"`
}

func (*deleteOlderView) relations() relations { return nil }

// dontDeleteView is a policy that keeps them whatever the organization says.
type dontDeleteView struct {
	ID string `jsonapi:"primary,data-retention-policy-dont-deletes"`
}

func (*dontDeleteView) relations() relations { return nil }

func newRetentionView(p workspaces.Retention) view {
	if p.Days == nil {
		return &dontDeleteView{ID: string(p.ID)}
	}
	return &deleteOlderView{ID: string(p.ID), Days: *p.Days}
}

// retentionRef is the relation to a policy, or none.
func retentionRef(id ids.RetentionPolicy, days *int) any {
	switch {
	case id == "":
		return nil
	case days == nil:
		return ref{deletesNone, string(id)}
	default:
		return ref{deletesOlder, string(id)}
	}
}

// retentionInput reads the days of a policy; nil keeps everything. The oldest clients
// send a type of their own.
func retentionInput(r *request) (*int, error) {
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	var doc resource
	if err := unmarshal(body, &doc, ""); err != nil {
		return nil, err
	}
	if doc.Data != nil && doc.Data.Type == deletesNone {
		return nil, nil
	}
	kind := deletesOlder
	if doc.Data != nil && doc.Data.Type == "data-retention-policies" {
		kind = doc.Data.Type
	}
	in, err := decode[struct {
		Days Opt[int] `json:"delete-older-than-n-days"`
	}](body, kind)
	if err != nil {
		return nil, err
	}
	if !in.Attributes.Days.Set() {
		return nil, fault.New(fault.Invalid, "invalid_attribute", "Delete older than n days can't be blank").At("/data/attributes/delete-older-than-n-days")
	}
	return &in.Attributes.Days.Value, nil
}

// retentionAnswer answers with a policy, or with null data when there is none.
func retentionAnswer(p *workspaces.Retention, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	if p == nil {
		return answer{status: 200, json: map[string]any{"data": nil}, mediaType: mediaType}, nil
	}
	return ok(newRetentionView(*p)), nil
}

func (s *server) readRetention(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	return retentionAnswer(s.Workspaces.Retention(r.ctx, r.actor, workspace))
}

func (s *server) setRetention(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	days, err := retentionInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.SetRetention(r.ctx, r.actor, workspace, days)
	return retentionAnswer(&p, err)
}

func (s *server) clearRetention(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.ClearRetention(r.ctx, r.actor, workspace)
}

func (s *server) readOrganizationRetention(r *request) (answer, error) {
	return retentionAnswer(s.Workspaces.OrganizationRetention(r.ctx, r.actor, r.vars["organization"]))
}

func (s *server) setOrganizationRetention(r *request) (answer, error) {
	days, err := retentionInput(r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.SetOrganizationRetention(r.ctx, r.actor, r.vars["organization"], days)
	return retentionAnswer(&p, err)
}

func (s *server) clearOrganizationRetention(r *request) (answer, error) {
	return noContent(), s.Workspaces.ClearOrganizationRetention(r.ctx, r.actor, r.vars["organization"])
}
