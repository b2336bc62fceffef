package tfeapi

import "github.com/holdfast-run/holdfast/ids"

// What was deleted is kept as a tombstone, and a site admin can have it back (ST-23).

func (s *server) undeleteWorkspace(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	if err := s.Workspaces.Undelete(r.ctx, r.actor, workspace); err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Get(r.ctx, r.actor, workspace)
	return s.workspaceAnswer(r, w, err)
}

func (s *server) undeleteOrganization(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	if err := s.Accounts.UndeleteOrganization(r.ctx, r.actor, r.vars["organization"]); err != nil {
		return answer{}, err
	}
	return s.readOrganization(r)
}
