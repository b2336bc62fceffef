package workspaces

import (
	"context"
	"slices"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// SetVariables gives the variables of a set by category and key. Values of sensitive ones
// are empty.
func (s *Service) SetVariables(ctx context.Context, actor authz.Actor, id ids.VariableSet) (list []Variable, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.set-variables", func(tx postgres.Tx) error {
		v, err := allowedSet(ctx, tx, actor, authz.VariableSetsRead, id)
		if err != nil {
			return err
		}
		list, err = s.variables(ctx, tx, variablesOfSet(v), notSensitive)
		return err
	})
	return list, err
}

// CreateSetVariable, UpdateSetVariable and DeleteSetVariable do to a set what
// CreateVariable and its neighbours do to a workspace.
func (s *Service) CreateSetVariable(ctx context.Context, actor authz.Actor, id ids.VariableSet, v Variable) (made Variable, err error) {
	err = s.onSet(ctx, actor, id, func(tx postgres.Tx, o variableOwner) error {
		made, err = s.createVariable(ctx, tx, actor, o, v)
		return err
	})
	return made, err
}

// UpdateSetVariable changes a variable of a set.
func (s *Service) UpdateSetVariable(ctx context.Context, actor authz.Actor, id ids.VariableSet, variable ids.Variable, c VariableChanges) (v Variable, err error) {
	err = s.onSet(ctx, actor, id, func(tx postgres.Tx, o variableOwner) error {
		v, err = s.updateVariable(ctx, tx, actor, o, variable, c)
		return err
	})
	return v, err
}

// DeleteSetVariable removes a variable from a set.
func (s *Service) DeleteSetVariable(ctx context.Context, actor authz.Actor, id ids.VariableSet, variable ids.Variable) error {
	return s.onSet(ctx, actor, id, func(tx postgres.Tx, o variableOwner) error {
		return deleteVariable(ctx, tx, actor, o, variable)
	})
}

func (s *Service) onSet(ctx context.Context, actor authz.Actor, id ids.VariableSet, fn func(tx postgres.Tx, o variableOwner) error) error {
	return postgres.InTx(ctx, s.db, "workspaces.change-set-variable", func(tx postgres.Tx) error {
		v, err := allowedSet(ctx, tx, actor, authz.VariableSetsWrite, id)
		if err != nil {
			return err
		}
		return fn(tx, variablesOfSet(v))
	})
}

// AllVariables gives what the workspace's runs get, its sets included, by category and
// key. Values of sensitive ones are empty.
func (s *Service) AllVariables(ctx context.Context, actor authz.Actor, workspace ids.Workspace) (list []Variable, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.all-variables", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesRead, workspace)
		if err != nil {
			return err
		}
		own, above, err := s.resolve(ctx, tx, w.Organization, w.ID, notSensitive)
		list = strongest(slices.Concat(own, above))
		return err
	})
	return list, err
}

// ResolveVariables gives all variables with their plain values, for the snapshot of a run:
// those that the run's own go before, and those of sets with priority, which go before the
// run's own. Each list has a key of a category once. It asks no authz: callers show the
// values to nobody.
func (s *Service) ResolveVariables(ctx context.Context, tx postgres.Tx, org ids.Organization, workspace ids.Workspace) (own, above []Variable, err error) {
	own, above, err = s.resolve(ctx, tx, org, workspace, everyValue)
	return strongest(own), strongest(above), err
}

// resolve gives the two lists with the weaker first.
func (s *Service) resolve(ctx context.Context, tx postgres.Tx, org ids.Organization, workspace ids.Workspace, wanted func(variableRow) bool) (own, above []Variable, err error) {
	type row struct {
		variableRow
		SetID    ids.VariableSet
		Priority bool
	}
	rows, err := postgres.All[row](ctx, tx, queries.Get("VariablesOfSets"), postgres.Args{"workspace_id": workspace})
	if err != nil {
		return nil, nil, err
	}
	for _, r := range rows {
		v, err := s.open(ctx, tx, variableOwner{organization: org, set: r.SetID}, r.variableRow, wanted)
		if err != nil {
			return nil, nil, err
		}
		if r.Priority {
			above = append(above, v)
		} else {
			own = append(own, v)
		}
	}
	ofWorkspace, err := s.variables(ctx, tx, variableOwner{organization: org, workspace: workspace}, wanted)
	return append(own, ofWorkspace...), above, err
}

// strongest leaves the last of those with the same category and key, in their order.
func strongest(list []Variable) []Variable {
	type name struct {
		Category Category
		key      string
	}
	last := map[name]int{}
	for i, v := range list {
		last[name{v.Category, v.Key}] = i
	}
	out := make([]Variable, 0, len(last))
	for i, v := range list {
		if last[name{v.Category, v.Key}] == i {
			out = append(out, v)
		}
	}
	slices.SortStableFunc(out, func(a, b Variable) int {
		if a.Category != b.Category {
			if a.Category < b.Category {
				return -1
			}
			return 1
		}
		if a.Key < b.Key {
			return -1
		}
		if a.Key > b.Key {
			return 1
		}
		return 0
	})
	return out
}
