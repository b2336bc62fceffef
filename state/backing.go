package state

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Hide takes the bytes of a version out of reach until Restore gives them back or Delete
// gives them up; its row and digests stay. For those who may force a state. The current
// version, and one that a run still needs, is a Conflict "transition_not_allowed".
func (s *Service) Hide(ctx context.Context, actor authz.Actor, id ids.StateVersion) error {
	return s.onBacking(ctx, actor, id, func(tx postgres.Tx, v Version) error {
		if err := mayLose(ctx, tx, v); err != nil {
			return err
		}
		return backingStep(ctx, tx, actor, v, "BackingHide", "state.hidden")
	})
}

// Restore undoes Hide.
func (s *Service) Restore(ctx context.Context, actor authz.Actor, id ids.StateVersion) error {
	return s.onBacking(ctx, actor, id, func(tx postgres.Tx, v Version) error {
		return backingStep(ctx, tx, actor, v, "BackingRestore", "state.restored")
	})
}

// Delete gives up the bytes of a hidden version, its outputs and its resources.
func (s *Service) Delete(ctx context.Context, actor authz.Actor, id ids.StateVersion) error {
	return s.onBacking(ctx, actor, id, func(tx postgres.Tx, v Version) error {
		return s.endBacking(ctx, tx, actor, v, "BackingDelete", "state.deleted")
	})
}

// Retire gives up the bytes of a version, hidden or not, in the caller's transaction. It
// is refused like Hide.
func (s *Service) Retire(ctx context.Context, tx postgres.Tx, actor authz.Actor, id ids.StateVersion) error {
	v, err := s.load(ctx, tx, id)
	if err != nil {
		return err
	}
	if _, err := fence.Lock(ctx, tx, v.Workspace); err != nil {
		return err
	}
	if v, err = readVersion(ctx, tx, "Lock", postgres.Args{"id": id}, fault.Missing("state version", string(id))); err != nil {
		return err
	}
	if err := mayLose(ctx, tx, v); err != nil {
		return err
	}
	return s.endBacking(ctx, tx, actor, v, "BackingRetire", "state.retired")
}

func (s *Service) onBacking(ctx context.Context, actor authz.Actor, id ids.StateVersion, fn func(tx postgres.Tx, v Version) error) error {
	return postgres.InTx(ctx, s.db, "state.on-backing", func(tx postgres.Tx) error {
		v, err := s.visible(ctx, tx, actor, authz.StateForce, id)
		if err != nil {
			return err
		}
		if _, err := fence.Lock(ctx, tx, v.Workspace); err != nil { // no rollback begins meanwhile
			return err
		}
		v, err = readVersion(ctx, tx, "Lock", postgres.Args{"id": id}, fault.Missing("state version", string(id)))
		if err != nil {
			return err
		}
		return fn(tx, v)
	})
}

func mayLose(ctx context.Context, tx postgres.Tx, v Version) error {
	needed, err := postgres.Value[string](ctx, tx, Queries.Get("BackingNeeded"), postgres.Args{"id": v.ID, "workspace_id": v.Workspace})
	if err == nil && needed != "" {
		err = fault.New(fault.Conflict, "transition_not_allowed", "The bytes of state version %s are needed: %s.", v.ID, needed)
	}
	return err
}

func backingStep(ctx context.Context, tx postgres.Tx, actor authz.Actor, v Version, statement, action string) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get(statement), postgres.Args{"id": v.ID})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(fault.Conflict, "transition_not_allowed", "This cannot be done to the bytes of state version %s as they are now: hide them before you give them up, and restore only what is hidden.", v.ID)
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: v.Organization, Actor: actor, Action: action, ObjectKind: "state-version", ObjectID: string(v.ID), Details: map[string]any{"workspace": v.Workspace},
	})
}

// endBacking takes the last step. An object that another version has too, after a
// rollback, stays for that one.
func (s *Service) endBacking(ctx context.Context, tx postgres.Tx, actor authz.Actor, v Version, statement, action string) error {
	if err := backingStep(ctx, tx, actor, v, statement, action); err != nil {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("OutputsDelete"), postgres.Args{"id": v.ID}); err != nil {
		return err
	}
	unshared, err := postgres.Values[ids.Object](ctx, tx, Queries.Get("BackingUnshared"), postgres.Args{"id": v.ID})
	if err != nil {
		return err
	}
	for _, object := range unshared {
		if err := s.objects.Discard(ctx, tx, v.Organization, object); err != nil {
			return err
		}
	}
	return nil
}
