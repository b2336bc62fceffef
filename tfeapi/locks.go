package tfeapi

import (
	"github.com/holdfast-run/holdfast/ids"
)

// Lock, unlock and force-unlock answer with the workspace: the client takes an
// answer without a document for a failure.

func (s *server) lockWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct {
		Reason Opt[string] `json:"reason"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Runs.Lock(r.ctx, r.actor, workspace, in.Attributes.Reason.Or(""))
	return s.workspaceAnswer(r, w, err)
}

func (s *server) unlockWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Runs.Unlock(r.ctx, r.actor, workspace)
	return s.workspaceAnswer(r, w, err)
}

func (s *server) forceUnlockWorkspace(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Runs.ForceUnlock(r.ctx, r.actor, workspace)
	return s.workspaceAnswer(r, w, err)
}

func (s *server) deleteWorkspace(r *request) (answer, error) { return s.removeWorkspace(r, false) }

func (s *server) safeDeleteWorkspace(r *request) (answer, error) { return s.removeWorkspace(r, true) }

func (s *server) removeWorkspace(r *request, safe bool) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Runs.DeleteWorkspace(r.ctx, r.actor, workspace, safe)
}

func (s *server) deleteWorkspaceByName(r *request) (answer, error) {
	return s.removeNamedWorkspace(r, false)
}

func (s *server) safeDeleteWorkspaceByName(r *request) (answer, error) {
	return s.removeNamedWorkspace(r, true)
}

func (s *server) removeNamedWorkspace(r *request, safe bool) (answer, error) {
	w, err := s.namedWorkspace(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Runs.DeleteWorkspace(r.ctx, r.actor, w.ID, safe)
}
