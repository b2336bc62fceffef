package state

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Rollback makes an earlier version current again as a new version with the same
// bytes, under the user's lock. The earlier one and all others stay. The epoch
// grows: an upload begun before is fenced off, and the same create made again is
// not answered by a version that this rollback has replaced.
// Errors: those of Begin about the lock; NotFound for a version of another
// workspace; Conflict "not_finalized"; Invalid "state_not_encrypted".
func (s *Service) Rollback(ctx context.Context, actor authz.Actor, workspace ids.Workspace, to ids.StateVersion) (v Version, err error) {
	err = postgres.InTx(ctx, s.db, "state.rollback", func(tx postgres.Tx) error {
		w, err := workspaces.Allowed(ctx, tx, actor, authz.StateWrite, workspace)
		if err != nil {
			return err
		}
		if actor.Kind != authz.UserActor && actor.Kind != authz.TeamActor {
			return fault.New(fault.Forbidden, "forbidden", "Only a user or a team may roll a state back.")
		}
		status, err := fence.Lock(ctx, tx, workspace)
		if err != nil {
			return err
		}
		if err := mayPublish(actor, status); err != nil {
			return err
		}
		current, err := current(ctx, tx, workspace)
		if err != nil {
			return err
		}
		old, err := s.load(ctx, tx, to)
		if err != nil {
			return err
		}
		if old.Workspace != workspace {
			return fault.Missing("state version", string(to))
		}
		if old.Status != Finalized {
			return fault.New(fault.Conflict, "not_finalized", "State version %s was never current, so nothing can be rolled back to it.", to)
		}
		if old.HiddenAt != nil {
			return fault.New(fault.Conflict, "bytes_hidden", "The bytes of state version %s are deleted, so nothing can be rolled back to it.", to)
		}
		if w.ClientEncrypted && !old.ClientEncrypted {
			return notEncrypted()
		}
		if old, err = s.withResources(ctx, tx, old); err != nil {
			return err
		}
		sealer, err := s.objects.Sealer(ctx, tx, old.Organization)
		if err != nil {
			return err
		}
		id := ids.New[ids.StateVersion]()
		resources, err := sealResources(sealer, id, old.Resources)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("InsertRollback"), postgres.Args{
			"id": id, "resources_sealed": resources, "epoch": status.Epoch, "holder_kind": string(status.Holder.Kind), "holder_id": status.Holder.ID,
			"base_version_id": current.ID, "created_by": actor.User, "rollback_of_id": to, "workspace_id": workspace,
			"with_json": !w.ClientEncrypted,
		})
		if err != nil {
			return fmt.Errorf("copy %s: %w", to, err)
		}
		if n != 1 {
			return fmt.Errorf("copy %s: it has changed", to) // a finalized version never does
		}
		outputs, err := s.outputs(ctx, tx, old)
		if err != nil {
			return err
		}
		files := make([]FileOutput, len(outputs))
		for i, o := range outputs {
			files[i] = o.FileOutput
		}
		if w.ClientEncrypted {
			files = unknownOutputs()
		}
		if v, err = s.load(ctx, tx, id); err != nil {
			return err
		}
		v.Resources = old.Resources
		rows, err := sealOutputs(sealer, files)
		if err != nil {
			return err
		}
		if err := rows.insert(ctx, tx, v); err != nil {
			return err
		}
		if err := s.movePointer(ctx, tx, w.Organization, workspace, id, current.ID); err != nil {
			return err
		}
		if _, err := fence.Grow(ctx, tx, status.Token()); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: w.Organization, Actor: actor, Action: "state.rolled-back", ObjectKind: "state-version", ObjectID: string(id),
			Details: map[string]any{"workspace": workspace, "to": to, "from": current.ID, "serial": v.Serial, "lineage": v.Lineage},
		})
	})
	return v, err
}
