package workspaces

import (
	"context"
	"regexp"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Category says how a variable reaches tofu.
type Category string

// The categories.
const (
	Terraform Category = "terraform" // an input variable of the configuration
	Env       Category = "env"       // an environment variable of tofu and its providers
)

// Variable is a value given to every run of a workspace.
type Variable struct {
	ID          ids.Variable
	Workspace   ids.Workspace
	Key         string
	Value       string // taken literally; empty when it is sensitive and only shown
	Category    Category
	HCL         bool // the value is an expression and not a string
	Sensitive   bool
	Description string
}

// VariableChanges are what an update says; what is absent stays.
type VariableChanges struct {
	Key         *string
	Value       *string
	Category    *Category
	HCL         *bool
	Sensitive   *bool
	Description *string
}

const (
	maxVariableKey         = 256
	maxVariableValue       = 256 << 10
	maxVariableDescription = 512
)

var (
	terraformKey = regexp.MustCompile(`^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}-]*$`)
	envKey       = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

func (v Variable) check() error {
	key := envKey
	switch v.Category {
	case Terraform:
		key = terraformKey
	case Env:
	default:
		return accounts.Invalid("category", "Category must be %s or %s", Terraform, Env)
	}
	if err := accounts.CheckText("key", "Key", v.Key, maxVariableKey); err != nil {
		return err
	}
	if !key.MatchString(v.Key) {
		return accounts.Invalid("key", "Key may only contain letters, numbers and _ (and - in category terraform), and must not begin with a number")
	}
	if v.Category == Env && Reserved(v.Key) {
		return fault.New(fault.Invalid, "reserved_variable", "The environment variable %s is reserved: it would change how the runner itself works. Choose another key, or use the workspace's settings.", v.Key).At("/data/attributes/key")
	}
	if err := accounts.CheckText("value", "Value", v.Value, maxVariableValue); err != nil {
		return err
	}
	return accounts.CheckText("description", "Description", v.Description, maxVariableDescription)
}

// shown hides the value that nobody is to read again.
func (v Variable) shown() Variable {
	if v.Sensitive {
		v.Value = ""
	}
	return v
}

// variableRow is a row of variables.
type variableRow struct {
	ID          ids.Variable
	Workspace   ids.Workspace
	Key         string
	Category    Category
	ValueSealed []byte
	HCL         bool
	Sensitive   bool
	Description string
}

// variable gives the row with its value unopened.
func (r variableRow) variable() Variable {
	return Variable{ID: r.ID, Workspace: r.Workspace, Key: r.Key, Category: r.Category, HCL: r.HCL, Sensitive: r.Sensitive, Description: r.Description}
}

func (v Variable) args(org ids.Organization, sealed []byte) postgres.Args {
	return postgres.Args{
		"id": v.ID, "organization_id": org, "workspace_id": v.Workspace, "key": v.Key, "category": string(v.Category),
		"value_sealed": sealed, "hcl": v.HCL, "sensitive": v.Sensitive, "description": v.Description,
	}
}

func label(id ids.Variable) string { return "variable/" + string(id) }

// ListVariables gives the workspace's variables by category and key. Values of
// sensitive ones are empty.
func (s *Service) ListVariables(ctx context.Context, actor authz.Actor, workspace ids.Workspace) ([]Variable, error) {
	var variables []Variable
	err := postgres.InSnapshot(ctx, s.db, "workspaces.variables", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesRead, workspace)
		if err != nil {
			return err
		}
		variables, err = s.open(ctx, tx, w.Organization, w.ID, func(r variableRow) bool { return !r.Sensitive })
		return err
	})
	return variables, err
}

// ResolveVariables gives all variables with their plain values, for the snapshot of
// a run. It asks no authz: callers show the values to nobody.
func (s *Service) ResolveVariables(ctx context.Context, tx postgres.Tx, org ids.Organization, workspace ids.Workspace) ([]Variable, error) {
	return s.open(ctx, tx, org, workspace, func(variableRow) bool { return true })
}

func (s *Service) open(ctx context.Context, tx postgres.Tx, org ids.Organization, workspace ids.Workspace, wanted func(variableRow) bool) ([]Variable, error) {
	rows, err := postgres.All[variableRow](ctx, tx, queries.Get("Variables"), postgres.Args{"organization_id": org, "workspace_id": workspace})
	if err != nil {
		return nil, err
	}
	variables := make([]Variable, 0, len(rows))
	for _, r := range rows {
		v := r.variable()
		if wanted(r) {
			plain, err := s.sealer.OpenValue(ctx, tx, org, label(r.ID), r.ValueSealed)
			if err != nil {
				return nil, err
			}
			v.Value = string(plain)
		}
		variables = append(variables, v)
	}
	return variables, nil
}

// CreateVariable adds a variable; id and workspace of v are ignored. A key in use,
// a reserved key ("reserved_variable") or a value against its rule is Invalid.
func (s *Service) CreateVariable(ctx context.Context, actor authz.Actor, workspace ids.Workspace, v Variable) (Variable, error) {
	err := postgres.InTx(ctx, s.db, "workspaces.create-variable", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesWrite, workspace)
		if err != nil {
			return err
		}
		if err := v.check(); err != nil {
			return err
		}
		v.ID, v.Workspace = ids.New[ids.Variable](), w.ID
		sealed, err := s.sealer.SealValue(ctx, tx, w.Organization, label(v.ID), []byte(v.Value))
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("VariableInsert"), v.args(w.Organization, sealed)); err != nil {
			return keyTaken(err)
		}
		return record(ctx, tx, actor, w, "variable.created", variableDetails(v))
	})
	if err != nil {
		return Variable{}, err
	}
	return v.shown(), nil
}

// UpdateVariable changes what is said. It is refused like CreateVariable; a
// sensitive variable stays sensitive.
func (s *Service) UpdateVariable(ctx context.Context, actor authz.Actor, workspace ids.Workspace, id ids.Variable, c VariableChanges) (Variable, error) {
	var v Variable
	err := postgres.InTx(ctx, s.db, "workspaces.update-variable", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesWrite, workspace)
		if err != nil {
			return err
		}
		r, err := postgres.One[variableRow](ctx, tx, queries.Get("VariableLock"), postgres.Args{"id": id, "organization_id": w.Organization, "workspace_id": w.ID})
		if postgres.NoRow(err) {
			return fault.Missing("variable", string(id))
		}
		if err != nil {
			return err
		}
		if r.Sensitive && c.Sensitive != nil && !*c.Sensitive {
			return accounts.Invalid("sensitive", "Sensitive cannot be taken back: delete the variable and create it again")
		}
		plain, err := s.sealer.OpenValue(ctx, tx, w.Organization, label(id), r.ValueSealed)
		if err != nil {
			return err
		}
		v = r.variable()
		v.Value = string(plain)
		c.applyTo(&v)
		if err := v.check(); err != nil {
			return err
		}
		sealed, err := s.sealer.SealValue(ctx, tx, w.Organization, label(id), []byte(v.Value))
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("VariableUpdate"), v.args(w.Organization, sealed)); err != nil {
			return keyTaken(err) // a row must be there: it was locked above
		}
		return record(ctx, tx, actor, w, "variable.updated", variableDetails(v))
	})
	if err != nil {
		return Variable{}, err
	}
	return v.shown(), nil
}

func (c VariableChanges) applyTo(v *Variable) {
	set(&v.Key, c.Key)
	set(&v.Value, c.Value)
	set(&v.Category, c.Category)
	set(&v.HCL, c.HCL)
	set(&v.Sensitive, c.Sensitive)
	set(&v.Description, c.Description)
}

func set[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// DeleteVariable removes a variable. Runs that have begun keep what they were given.
func (s *Service) DeleteVariable(ctx context.Context, actor authz.Actor, workspace ids.Workspace, id ids.Variable) error {
	return postgres.InTx(ctx, s.db, "workspaces.delete-variable", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesWrite, workspace)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("VariableDelete"), postgres.Args{"id": id, "organization_id": w.Organization, "workspace_id": w.ID})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("variable", string(id))
		}
		return record(ctx, tx, actor, w, "variable.deleted", map[string]any{"variable": id})
	})
}

func keyTaken(err error) error {
	if violates(err, "variables_key") {
		return accounts.Taken("key", "Key")
	}
	return err
}

// variableDetails names a variable for the audit, never its value.
func variableDetails(v Variable) map[string]any {
	return map[string]any{"variable": v.ID, "key": v.Key, "category": v.Category, "sensitive": v.Sensitive, "hcl": v.HCL}
}
