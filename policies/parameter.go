package policies

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Parameter is a value that the policies of a set read as input.params.KEY.
type Parameter struct {
	ID        ids.Variable
	Set       ids.PolicySet
	Key       string
	Value     string // empty when it is sensitive and only shown
	Sensitive bool
}

// ParameterChanges are what an update says; what is absent stays.
type ParameterChanges struct {
	Key, Value *string
	Sensitive  *bool
}

type parameterRow struct {
	ID          ids.Variable
	Set         ids.PolicySet
	Key         string
	ValueSealed []byte
	Sensitive   bool
}

func parameterLabel(id ids.Variable) string { return "policy-parameter/" + string(id) }

func (p Parameter) check() error {
	if p.Key == "" {
		return accounts.Invalid("key", "Key can't be blank")
	}
	if err := accounts.CheckText("key", "Key", p.Key, 256); err != nil {
		return err
	}
	return accounts.CheckText("value", "Value", p.Value, 64<<10)
}

func (p Parameter) shown() Parameter {
	if p.Sensitive {
		p.Value = ""
	}
	return p
}

func (p Parameter) args(org ids.Organization, sealed []byte) postgres.Args {
	return postgres.Args{"id": p.ID, "organization_id": org, "policy_set_id": p.Set, "key": p.Key, "value_sealed": sealed, "sensitive": p.Sensitive}
}

// Parameters gives the parameters of a set by key. Values of sensitive ones are empty.
func (s *Service) Parameters(ctx context.Context, actor authz.Actor, id ids.PolicySet) (list []Parameter, err error) {
	err = postgres.InSnapshot(ctx, s.db, "policies.parameters", func(tx postgres.Tx) error {
		set, err := allowedSet(ctx, tx, actor, authz.PoliciesRead, id)
		if err != nil {
			return err
		}
		if list, err = parametersOf(ctx, tx, s.objects, set.Organization, id); err != nil {
			return err
		}
		for i, p := range list {
			list[i] = p.shown()
		}
		return nil
	})
	return list, err
}

func parametersOf(ctx context.Context, tx postgres.Tx, objects *artifacts.Service, org ids.Organization, id ids.PolicySet) ([]Parameter, error) {
	rows, err := postgres.All[parameterRow](ctx, tx, Queries.Get("ParameterList"), postgres.Args{"policy_set_id": id})
	if err != nil {
		return nil, err
	}
	list := make([]Parameter, len(rows))
	for i, r := range rows {
		value, err := objects.OpenValue(ctx, tx, org, parameterLabel(r.ID), r.ValueSealed)
		if err != nil {
			return nil, err
		}
		list[i] = Parameter{ID: r.ID, Set: r.Set, Key: r.Key, Value: string(value), Sensitive: r.Sensitive}
	}
	return list, nil
}

// CreateParameter adds a parameter; id and set of p are ignored.
func (s *Service) CreateParameter(ctx context.Context, actor authz.Actor, id ids.PolicySet, p Parameter) (Parameter, error) {
	err := s.changeParameters(ctx, "policies.create-parameter", "created", actor, id, func(tx postgres.Tx, set Set) (Parameter, error) {
		p.ID, p.Set = ids.New[ids.Variable](), id
		return p, s.writeParameter(ctx, tx, "ParameterInsert", set.Organization, p)
	})
	return p.shown(), err
}

func (s *Service) writeParameter(ctx context.Context, tx postgres.Tx, query string, org ids.Organization, p Parameter) error {
	if err := p.check(); err != nil {
		return err
	}
	sealed, err := s.objects.SealValue(ctx, tx, org, parameterLabel(p.ID), []byte(p.Value))
	if err != nil {
		return err
	}
	if _, err = postgres.Exec(ctx, tx, Queries.Get(query), p.args(org, sealed)); err != nil {
		if _, got := postgres.Violation(err); got == "policy_set_parameters_key" {
			return accounts.Taken("key", "Key")
		}
	}
	return err
}

// UpdateParameter changes what is said; a sensitive parameter stays sensitive.
func (s *Service) UpdateParameter(ctx context.Context, actor authz.Actor, set ids.PolicySet, id ids.Variable, c ParameterChanges) (p Parameter, err error) {
	err = s.changeParameters(ctx, "policies.update-parameter", "updated", actor, set, func(tx postgres.Tx, owner Set) (Parameter, error) {
		r, err := postgres.One[parameterRow](ctx, tx, Queries.Get("ParameterLock"), postgres.Args{"policy_set_id": set, "id": id})
		if postgres.NoRow(err) {
			return p, fault.Missing("parameter", string(id))
		}
		if err != nil {
			return p, err
		}
		if r.Sensitive && c.Sensitive != nil && !*c.Sensitive {
			return p, accounts.Invalid("sensitive", "Sensitive cannot be taken back: delete the parameter and create it again")
		}
		value, err := s.objects.OpenValue(ctx, tx, owner.Organization, parameterLabel(id), r.ValueSealed)
		if err != nil {
			return p, err
		}
		p = Parameter{ID: id, Set: set, Key: r.Key, Value: string(value), Sensitive: r.Sensitive}
		assign(&p.Key, c.Key)
		assign(&p.Value, c.Value)
		assign(&p.Sensitive, c.Sensitive)
		return p, s.writeParameter(ctx, tx, "ParameterUpdate", owner.Organization, p)
	})
	return p.shown(), err
}

// DeleteParameter removes a parameter. Runs that are bound to the set keep what they were given.
func (s *Service) DeleteParameter(ctx context.Context, actor authz.Actor, set ids.PolicySet, id ids.Variable) error {
	return s.changeParameters(ctx, "policies.delete-parameter", "deleted", actor, set, func(tx postgres.Tx, _ Set) (Parameter, error) {
		n, err := postgres.Exec(ctx, tx, Queries.Get("ParameterDelete"), postgres.Args{"policy_set_id": set, "id": id})
		if err == nil && n == 0 {
			err = fault.Missing("parameter", string(id))
		}
		return Parameter{ID: id, Set: set}, err
	})
}

func (s *Service) changeParameters(ctx context.Context, name, what string, actor authz.Actor, id ids.PolicySet, fn func(tx postgres.Tx, set Set) (Parameter, error)) error {
	_, err := s.changeSet(ctx, name, actor, id, func(tx postgres.Tx, set Set) error {
		p, err := fn(tx, set)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ParametersChanged"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return record(ctx, tx, actor, set.Organization, "policy-set-parameter."+what, "policy-set", string(id), map[string]any{"parameter": p.ID, "key": p.Key, "sensitive": p.Sensitive})
	})
	return err
}
