package workspaces

import (
	"context"
	"regexp"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
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
	Workspace   ids.Workspace   // whose it is, or
	Set         ids.VariableSet // the set that it is of
	Key         string
	Value       string // taken literally; empty when it is sensitive and only shown
	Category    Category
	HCL         bool // the value is an expression and not a string
	Sensitive   bool
	Description string
	VersionID   string // another one after each change
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
	terraformKey = regexp.MustCompile(`^[\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}-]+$`)
	envKey       = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)
	declarable   = regexp.MustCompile(`^[\p{L}\p{Nl}_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}-]*$`)
)

// Declarable tells whether a configuration can have an input variable of the name. One
// that none can have reaches no run: tofu would leave it aside.
func Declarable(key string) bool { return declarable.MatchString(key) }

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
		return accounts.Invalid("key", "Key may only contain letters, numbers, _ and -")
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

// variableRow is a row of a table of variables.
type variableRow struct {
	ID          ids.Variable
	Key         string
	Category    Category
	ValueSealed []byte
	HCL         bool
	Sensitive   bool
	Description string
	VersionID   string
}

// variableOwner is what has variables: a workspace or a set.
type variableOwner struct {
	statements   string // what the names of its statements begin with
	kind         string // as the audit names it
	organization ids.Organization
	workspace    ids.Workspace
	set          ids.VariableSet
}

func variablesOf(w Workspace) variableOwner {
	return variableOwner{kind: "workspace", organization: w.Organization, workspace: w.ID}
}

func (o variableOwner) id() string { return string(o.workspace) + string(o.set) }

func (o variableOwner) args() postgres.Args {
	return postgres.Args{"organization_id": o.organization, "owner_id": o.id()}
}

// variable gives the row with its value unopened.
func (o variableOwner) variable(r variableRow) Variable {
	return Variable{
		ID: r.ID, Workspace: o.workspace, Set: o.set, Key: r.Key, Category: r.Category, HCL: r.HCL, Sensitive: r.Sensitive,
		Description: r.Description, VersionID: r.VersionID,
	}
}

func (o variableOwner) argsFor(v Variable, sealed []byte) postgres.Args {
	args := o.args()
	args["id"], args["key"], args["category"], args["value_sealed"] = v.ID, v.Key, string(v.Category), sealed
	args["hcl"], args["sensitive"], args["description"] = v.HCL, v.Sensitive, v.Description
	return args
}

func (o variableOwner) record(ctx context.Context, tx postgres.Tx, actor authz.Actor, action string, details map[string]any) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: o.organization, Actor: actor, Action: action, ObjectKind: o.kind, ObjectID: o.id(), Details: details,
	})
}

func label(id ids.Variable) string { return "variable/" + string(id) }

// ListVariables gives the workspace's own variables by category and key. Values of
// sensitive ones are empty.
func (s *Service) ListVariables(ctx context.Context, actor authz.Actor, workspace ids.Workspace) ([]Variable, error) {
	var variables []Variable
	err := postgres.InSnapshot(ctx, s.db, "workspaces.variables", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesRead, workspace)
		if err != nil {
			return err
		}
		variables, err = s.variables(ctx, tx, variablesOf(w), notSensitive)
		return err
	})
	return variables, err
}

func notSensitive(r variableRow) bool { return !r.Sensitive }
func everyValue(variableRow) bool     { return true }

func (s *Service) variables(ctx context.Context, tx postgres.Tx, o variableOwner, wanted func(variableRow) bool) ([]Variable, error) {
	rows, err := postgres.All[variableRow](ctx, tx, queries.Get(o.statements+"Variables"), o.args())
	if err != nil {
		return nil, err
	}
	variables := make([]Variable, 0, len(rows))
	for _, r := range rows {
		v, err := s.open(ctx, tx, o, r, wanted)
		if err != nil {
			return nil, err
		}
		variables = append(variables, v)
	}
	return variables, nil
}

// open gives the variable of a row, with its value where it is wanted.
func (s *Service) open(ctx context.Context, tx postgres.Tx, o variableOwner, r variableRow, wanted func(variableRow) bool) (Variable, error) {
	v := o.variable(r)
	if !wanted(r) {
		return v, nil
	}
	plain, err := s.sealer.OpenValue(ctx, tx, o.organization, label(r.ID), r.ValueSealed)
	v.Value = string(plain)
	return v, err
}

// CreateVariable adds a variable; id and workspace of v are ignored. A key in use,
// a reserved key ("reserved_variable") or a value against its rule is Invalid.
func (s *Service) CreateVariable(ctx context.Context, actor authz.Actor, workspace ids.Workspace, v Variable) (Variable, error) {
	var made Variable
	err := postgres.InTx(ctx, s.db, "workspaces.create-variable", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.VariablesWrite, workspace)
		if err != nil {
			return err
		}
		made, err = s.createVariable(ctx, tx, actor, variablesOf(w), v)
		return err
	})
	return made, err
}

func (s *Service) createVariable(ctx context.Context, tx postgres.Tx, actor authz.Actor, o variableOwner, v Variable) (Variable, error) {
	if err := v.check(); err != nil {
		return Variable{}, err
	}
	v.ID = ids.New[ids.Variable]()
	sealed, err := s.sealer.SealValue(ctx, tx, o.organization, label(v.ID), []byte(v.Value))
	if err != nil {
		return Variable{}, err
	}
	r, err := postgres.One[variableRow](ctx, tx, queries.Get(o.statements+"VariableInsert"), o.argsFor(v, sealed))
	if err != nil {
		return Variable{}, keyTaken(err)
	}
	made := o.variable(r)
	made.Value = v.Value
	return made.shown(), o.record(ctx, tx, actor, "variable.created", variableDetails(made))
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
		v, err = s.updateVariable(ctx, tx, actor, variablesOf(w), id, c)
		return err
	})
	return v, err
}

func (s *Service) updateVariable(ctx context.Context, tx postgres.Tx, actor authz.Actor, o variableOwner, id ids.Variable, c VariableChanges) (Variable, error) {
	args := o.args()
	args["id"] = id
	r, err := postgres.One[variableRow](ctx, tx, queries.Get(o.statements+"VariableLock"), args)
	if postgres.NoRow(err) {
		return Variable{}, fault.Missing("variable", string(id))
	}
	if err != nil {
		return Variable{}, err
	}
	if r.Sensitive && c.Sensitive != nil && !*c.Sensitive {
		return Variable{}, accounts.Invalid("sensitive", "Sensitive cannot be taken back: delete the variable and create it again")
	}
	v, err := s.open(ctx, tx, o, r, everyValue)
	if err != nil {
		return Variable{}, err
	}
	c.applyTo(&v)
	if err := v.check(); err != nil {
		return Variable{}, err
	}
	sealed, err := s.sealer.SealValue(ctx, tx, o.organization, label(id), []byte(v.Value))
	if err != nil {
		return Variable{}, err
	}
	r, err = postgres.One[variableRow](ctx, tx, queries.Get(o.statements+"VariableUpdate"), o.argsFor(v, sealed))
	if err != nil {
		return Variable{}, keyTaken(err) // a row must be there: it was locked above
	}
	v.VersionID = r.VersionID
	return v.shown(), o.record(ctx, tx, actor, "variable.updated", variableDetails(v))
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
		return deleteVariable(ctx, tx, actor, variablesOf(w), id)
	})
}

func deleteVariable(ctx context.Context, tx postgres.Tx, actor authz.Actor, o variableOwner, id ids.Variable) error {
	args := o.args()
	args["id"] = id
	n, err := postgres.Exec(ctx, tx, queries.Get(o.statements+"VariableDelete"), args)
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.Missing("variable", string(id))
	}
	return o.record(ctx, tx, actor, "variable.deleted", map[string]any{"variable": id})
}

func keyTaken(err error) error {
	if violates(err, "variables_key") || violates(err, "variable_set_variables_key") {
		return accounts.Taken("key", "Key")
	}
	return err
}

// variableDetails names a variable for the audit, never its value.
func variableDetails(v Variable) map[string]any {
	return map[string]any{"variable": v.ID, "key": v.Key, "category": v.Category, "sensitive": v.Sensitive, "hcl": v.HCL}
}
