package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// finish ends a run well. A teardown takes its workspace with it (OP-07, G-34), when
// nothing is managed there any more: the runs that wait are canceled, variables and
// configuration versions are purged, and the workspace becomes a tombstone. Runs, states
// and audit stay. Where that cannot be, the run has succeeded all the same and says why
// the workspace is still there.
func (s *Service) finish(ctx context.Context, tx postgres.Tx, r *Run, m move) error {
	if r.Operation != OperationTeardown {
		return step(ctx, tx, r, m)
	}
	requester, kept, err := s.mayTearDown(ctx, tx, *r)
	if err != nil {
		return err
	}
	if kept != nil {
		m.Reason, m.Message = "workspace_kept", kept.Error()
		return step(ctx, tx, r, m)
	}
	if err := s.endRuns(ctx, tx, requester, r.WorkspaceID, r.ID); err != nil {
		return err
	}
	m.Message = fmt.Sprintf("Workspace %q was torn down.", r.WorkspaceName)
	if err := step(ctx, tx, r, m); err != nil {
		return err
	}
	status, err := fence.Lock(ctx, tx, r.WorkspaceID) // free: nobody waits any more
	if err != nil {
		return err
	}
	if _, err := fence.Revoke(ctx, tx, status); err != nil {
		return err
	}
	if err := s.purge(ctx, tx, requester, *r); err != nil {
		return err
	}
	if err := workspaces.Tombstone(ctx, tx, requester, r.WorkspaceID); err != nil {
		return err
	}
	*r, err = load(ctx, tx, r.ID)
	return err
}

// mayTearDown looks once more, when the destroy is done, at what was asked for: kept
// says why the workspace has to stay.
func (s *Service) mayTearDown(ctx context.Context, tx postgres.Tx, r Run) (requester authz.Actor, kept, err error) {
	if requester, err = accounts.ActorOf(ctx, tx, r.CreatedBy); err != nil {
		return requester, nil, err
	}
	w, err := workspaces.Load(ctx, tx, r.WorkspaceID)
	if err != nil {
		return requester, nil, err
	}
	kept = authz.Allow(requester, authz.WorkspaceDelete, workspaces.Object(w))
	if kept == nil {
		kept = s.checkUnmanaged(ctx, tx, w)
	}
	switch {
	case kept == nil, fault.Is(kept, fault.Conflict), fault.Is(kept, fault.Forbidden), fault.Is(kept, fault.NotFound):
		return requester, kept, nil
	}
	return requester, nil, kept
}

// purge gives up what only future runs would need.
func (s *Service) purge(ctx context.Context, tx postgres.Tx, actor authz.Actor, r Run) error {
	if err := workspaces.PurgeVariables(ctx, tx, actor, r.WorkspaceID); err != nil {
		return err
	}
	objects, err := postgres.Values[ids.Object](ctx, tx, Queries.Get("ConfigurationObjects"), postgres.Args{"workspace_id": r.WorkspaceID})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := s.objects.Discard(ctx, tx, r.OrganizationID, object); err != nil {
			return err
		}
	}
	_, err = postgres.Exec(ctx, tx, Queries.Get("ConfigurationsArchive"), postgres.Args{"workspace_id": r.WorkspaceID})
	return err
}
