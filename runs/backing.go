package runs

import (
	"context"
	"errors"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// Archive gives up the bytes of a configuration version: no run can be made of it any
// more. The newest one of a workspace, and one that a run still needs, is a Conflict
// "transition_not_allowed".
func (s *Service) Archive(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion) error {
	return s.onConfiguration(ctx, actor, id, func(tx postgres.Tx, c Configuration) error {
		if err := s.mayLose(ctx, tx, c); err != nil {
			return err
		}
		return s.endConfiguration(ctx, tx, actor, c, "ConfigurationArchive", "configuration.archived")
	})
}

// HideConfiguration takes the bytes of a configuration version out of reach until
// RestoreConfiguration gives them back or DeleteConfiguration gives them up.
func (s *Service) HideConfiguration(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion) error {
	return s.onConfiguration(ctx, actor, id, func(tx postgres.Tx, c Configuration) error {
		if err := s.mayLose(ctx, tx, c); err != nil {
			return err
		}
		return s.configurationStep(ctx, tx, actor, c, "ConfigurationHide", "configuration.hidden")
	})
}

// RestoreConfiguration undoes HideConfiguration.
func (s *Service) RestoreConfiguration(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion) error {
	return s.onConfiguration(ctx, actor, id, func(tx postgres.Tx, c Configuration) error {
		return s.configurationStep(ctx, tx, actor, c, "ConfigurationRestore", "configuration.restored")
	})
}

// DeleteConfiguration gives up the bytes of a hidden configuration version.
func (s *Service) DeleteConfiguration(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion) error {
	return s.onConfiguration(ctx, actor, id, func(tx postgres.Tx, c Configuration) error {
		return s.endConfiguration(ctx, tx, actor, c, "ConfigurationDelete", "configuration.deleted")
	})
}

func (s *Service) onConfiguration(ctx context.Context, actor authz.Actor, id ids.ConfigurationVersion, fn func(tx postgres.Tx, c Configuration) error) error {
	return postgres.InTx(ctx, s.db, "runs.on-configuration", func(tx postgres.Tx) error {
		c, err := loadConfiguration(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.ConfigurationUpload, c.object()); err != nil {
			return err
		}
		if _, err := postgres.Value[ids.ConfigurationVersion](ctx, tx, Queries.Get("ConfigurationLock"), postgres.Args{"id": id}); err != nil {
			return err
		}
		if c, err = loadConfiguration(ctx, tx, id); err != nil {
			return err
		}
		return fn(tx, c)
	})
}

// mayLose refuses to give up what a run takes or has taken and still needs.
func (s *Service) mayLose(ctx context.Context, tx postgres.Tx, c Configuration) error {
	newest, err := postgres.Value[ids.ConfigurationVersion](ctx, tx, Queries.Get("ConfigurationNewest"), postgres.Args{"workspace_id": c.WorkspaceID})
	if err != nil && !postgres.NoRow(err) {
		return err
	}
	if newest == c.ID {
		return notAllowed("This is what the next run takes: configuration could not be archived because it is current.")
	}
	needed, err := postgres.Values[ids.Run](ctx, tx, Queries.Get("ConfigurationNeeded"), postgres.Args{"id": c.ID})
	if err == nil && len(needed) > 0 {
		err = notAllowed("%s still needs configuration version %s. Wait for its end, or cancel it.", needed[0], c.ID)
	}
	return err
}

func notAllowed(message string, args ...any) error {
	return fault.New(fault.Conflict, "transition_not_allowed", message, args...)
}

func (s *Service) configurationStep(ctx context.Context, tx postgres.Tx, actor authz.Actor, c Configuration, statement, action string) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get(statement), postgres.Args{"id": c.ID})
	if err != nil {
		return err
	}
	if n == 0 {
		return notAllowed("Configuration version %s is %s, so this cannot be done to its bytes now.", c.ID, c.Shown())
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: c.OrganizationID, Actor: actor, Action: action, ObjectKind: "configuration-version", ObjectID: string(c.ID), Details: map[string]any{"workspace": c.WorkspaceID},
	})
}

// endConfiguration takes the last step and gives the object up with it.
func (s *Service) endConfiguration(ctx context.Context, tx postgres.Tx, actor authz.Actor, c Configuration, statement, action string) error {
	if err := s.configurationStep(ctx, tx, actor, c, statement, action); err != nil || c.ObjectID == "" {
		return err
	}
	return s.objects.Discard(ctx, tx, c.OrganizationID, c.ObjectID)
}

// Retain gives up the bytes of versions that retention policies say are too old, a batch
// at a time. What is current, and what an unfinished run needs, stays.
func (s *Service) Retain(ctx context.Context) error {
	configurations := each(ctx, s, "runs.retain-configurations", Queries, "ConfigurationsTooOld", postgres.Args{}, func(tx postgres.Tx, id ids.ConfigurationVersion) error {
		if _, err := postgres.Value[ids.ConfigurationVersion](ctx, tx, Queries.Get("ConfigurationLock"), postgres.Args{"id": id}); err != nil {
			return err
		}
		c, err := loadConfiguration(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := s.mayLose(ctx, tx, c); err != nil {
			return unlessConflict(err)
		}
		return unlessConflict(s.endConfiguration(ctx, tx, authz.System(), c, "ConfigurationRetire", "configuration.retired"))
	})
	states := each(ctx, s, "runs.retain-states", state.Queries, "TooOld", postgres.Args{}, func(tx postgres.Tx, id ids.StateVersion) error {
		return unlessConflict(s.state.Retire(ctx, tx, authz.System(), id))
	})
	return errors.Join(configurations, states)
}

// unlessConflict leaves out that something is needed again by now.
func unlessConflict(err error) error {
	if fault.Is(err, fault.Conflict) {
		return nil
	}
	return err
}
