package tfeapi

import (
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// sshKeyView is an SSH key on the wire. Its value is never shown.
type sshKeyView struct {
	ID   string `jsonapi:"primary,ssh-keys"`
	Name string `jsonapi:"attr,name"`
}

func (*sshKeyView) relations() relations { return nil }

func newSSHKeyView(k workspaces.SSHKey) *sshKeyView {
	return &sshKeyView{ID: string(k.ID), Name: k.Name}
}

func (s *server) listSSHKeys(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Workspaces.SSHKeys(r.ctx, r.actor, r.vars["organization"], p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*sshKeyView, 0, len(list))
	for _, k := range list {
		items = append(items, newSSHKeyView(k))
	}
	return page(items, p, total), nil
}

type sshKeyAttributes struct {
	Name  Opt[string] `json:"name"`
	Value Opt[string] `json:"value"`
}

func sshKeyInput(r *request) (sshKeyAttributes, error) {
	body, err := r.body()
	if err != nil {
		return sshKeyAttributes{}, err
	}
	in, err := decode[sshKeyAttributes](body, "ssh-keys")
	return in.Attributes, err
}

func (s *server) createSSHKey(r *request) (answer, error) {
	a, err := sshKeyInput(r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Workspaces.CreateSSHKey(r.ctx, r.actor, r.vars["organization"], a.Name.Or(""), a.Value.Or(""))
	if err != nil {
		return answer{}, err
	}
	return created(newSSHKeyView(k)), nil
}

func (s *server) readSSHKey(r *request) (answer, error) {
	key, err := id[ids.SSHKey](r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Workspaces.SSHKey(r.ctx, r.actor, key)
	if err != nil {
		return answer{}, err
	}
	return ok(newSSHKeyView(k)), nil
}

func (s *server) updateSSHKey(r *request) (answer, error) {
	key, err := id[ids.SSHKey](r)
	if err != nil {
		return answer{}, err
	}
	a, err := sshKeyInput(r)
	if err != nil {
		return answer{}, err
	}
	k, err := s.Workspaces.UpdateSSHKey(r.ctx, r.actor, key, a.Name.Pointer(), a.Value.Pointer())
	if err != nil {
		return answer{}, err
	}
	return ok(newSSHKeyView(k)), nil
}

func (s *server) deleteSSHKey(r *request) (answer, error) {
	key, err := id[ids.SSHKey](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.DeleteSSHKey(r.ctx, r.actor, key)
}

// assignSSHKey gives a workspace a key, or with null takes it away.
func (s *server) assignSSHKey(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		ID Opt[string] `json:"id"`
	}](body, "workspaces")
	if err != nil {
		return answer{}, err
	}
	var key ids.SSHKey
	if text := in.Attributes.ID.Or(""); text != "" {
		if key, err = ids.Parse[ids.SSHKey](text); err != nil {
			return answer{}, err
		}
	}
	w, err := s.Workspaces.AssignSSHKey(r.ctx, r.actor, workspace, key)
	return s.workspaceAnswer(r, w, err)
}
