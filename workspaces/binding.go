package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// TagBinding is a pair of key and value on a workspace or project, which has a key once.
// Both are kept and compared exactly. ID is empty in a request or filter.
type TagBinding struct {
	ID         ids.TagBinding
	Key, Value string
}

// EffectiveBinding is a pair as its owner, a workspace or project, has it in the end. A
// workspace has those of its project too, except for keys of its own.
type EffectiveBinding struct {
	Owner         string
	InheritedFrom ids.Project // empty: its own
	TagBinding
}

const (
	maxBindings     = 10  // per workspace or project
	maxBindingKey   = 128 // bytes
	maxBindingValue = 256 // bytes
)

// bindingOwner is what has pairs.
type bindingOwner struct {
	noun         string // workspace or project
	statements   string // what the names of its statements begin with
	organization ids.Organization
	id           string
}

func bindingsOf(w Workspace) bindingOwner {
	return bindingOwner{noun: "workspace", organization: w.Organization, id: string(w.ID)}
}

func bindingsOfProject(p Project) bindingOwner {
	return bindingOwner{noun: "project", statements: "Project", organization: p.Organization, id: string(p.ID)}
}

func (o bindingOwner) args() postgres.Args {
	return postgres.Args{"organization_id": o.organization, "owner_id": o.id}
}

func (o bindingOwner) record(ctx context.Context, tx postgres.Tx, actor authz.Actor, action string, details map[string]any) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: o.organization, Actor: actor, Action: o.noun + "." + action, ObjectKind: o.noun, ObjectID: o.id, Details: details,
	})
}

// Bindings gives the workspace's own pairs by key.
func (s *Service) Bindings(ctx context.Context, actor authz.Actor, id ids.Workspace) (list []TagBinding, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.bindings", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceRead, id)
		if err != nil {
			return err
		}
		list, err = bindings(ctx, tx, bindingsOf(w))
		return err
	})
	return list, err
}

// ProjectBindings gives the project's pairs by key.
func (s *Service) ProjectBindings(ctx context.Context, actor authz.Actor, id ids.Project) (list []TagBinding, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.project-bindings", func(tx postgres.Tx) error {
		p, err := loadProject(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := seesProject(ctx, tx, actor, p); err != nil {
			return err
		}
		list, err = bindings(ctx, tx, bindingsOfProject(p))
		return err
	})
	return list, err
}

func bindings(ctx context.Context, tx postgres.Tx, o bindingOwner) ([]TagBinding, error) {
	return postgres.All[TagBinding](ctx, tx, queries.Get(o.statements+"Bindings"), o.args())
}

// EffectiveBindings gives the pairs that workspaces have in the end, by workspace and key.
// The caller has read the workspaces for somebody who may.
func (s *Service) EffectiveBindings(ctx context.Context, of []Workspace) ([]EffectiveBinding, error) {
	list := make([]string, 0, len(of))
	for _, w := range of {
		list = append(list, string(w.ID))
	}
	return s.effective(ctx, "EffectiveBindings", list)
}

// ProjectsBindings gives the pairs of projects, by project and key. The caller has read
// the projects for somebody who may.
func (s *Service) ProjectsBindings(ctx context.Context, of []Project) ([]EffectiveBinding, error) {
	list := make([]string, 0, len(of))
	for _, p := range of {
		list = append(list, string(p.ID))
	}
	return s.effective(ctx, "ProjectsBindings", list)
}

func (s *Service) effective(ctx context.Context, statement string, of []string) (list []EffectiveBinding, err error) {
	err = postgres.InOneStatement(ctx, s.db, "workspaces.effective-bindings", func(tx postgres.Tx) (err error) {
		list, err = postgres.All[EffectiveBinding](ctx, tx, queries.Get(statement), postgres.Args{"ids": of})
		return err
	})
	return list, err
}

// SetBindings adds pairs, or changes the value where the key is there, and gives
// them in the order asked. More than 10 on a workspace are Invalid, and so is a key that
// is reserved and fixed by the project.
func (s *Service) SetBindings(ctx context.Context, actor authz.Actor, id ids.Workspace, wanted []TagBinding) (list []TagBinding, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.set-bindings", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		list, err = setBindings(ctx, tx, actor, bindingsOf(w), wanted)
		return err
	})
	return list, err
}

// SetProjectBindings is SetBindings for a project.
func (s *Service) SetProjectBindings(ctx context.Context, actor authz.Actor, id ids.Project, wanted []TagBinding) (list []TagBinding, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.set-project-bindings", func(tx postgres.Tx) error {
		p, err := AllowedProject(ctx, tx, actor, authz.ProjectUpdate, id)
		if err != nil {
			return err
		}
		list, err = setBindings(ctx, tx, actor, bindingsOfProject(p), wanted)
		return err
	})
	return list, err
}

func setBindings(ctx context.Context, tx postgres.Tx, actor authz.Actor, o bindingOwner, wanted []TagBinding) ([]TagBinding, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	set, keys := make([]TagBinding, 0, len(wanted)), make([]string, 0, len(wanted))
	for _, b := range wanted {
		if err := checkBinding(b); err != nil {
			return nil, err
		}
		args := o.args()
		args["id"], args["key"], args["value"] = ids.New[ids.TagBinding](), b.Key, b.Value
		stored, err := postgres.One[TagBinding](ctx, tx, queries.Get(o.statements+"BindingSet"), args)
		if err != nil {
			return nil, err
		}
		set, keys = append(set, stored), append(keys, b.Key)
	}
	all, err := bindings(ctx, tx, o)
	if err != nil {
		return nil, err
	}
	if len(all) > maxBindings {
		return nil, fault.New(fault.Invalid, "too_many_tag_bindings", "A %s cannot exceed %d tag bindings. Remove some first.", o.noun, maxBindings)
	}
	if err := o.checkFixed(ctx, tx, keys); err != nil {
		return nil, err
	}
	return set, o.record(ctx, tx, actor, "bindings-set", map[string]any{"keys": keys})
}

// checkFixed refuses that a workspace has a reserved key otherwise than its project, where
// that is not allowed, from whichever side it comes.
func (o bindingOwner) checkFixed(ctx context.Context, tx postgres.Tx, keys []string) error {
	statement, args := "FixedKeys", postgres.Args{"workspace_id": o.id, "keys": keys}
	if o.noun == "project" {
		statement, args = "OverriddenKeys", postgres.Args{"organization_id": o.organization, "project_id": o.id, "keys": keys}
	}
	fixed, err := postgres.Values[string](ctx, tx, queries.Get(statement), args)
	if err != nil || len(fixed) == 0 {
		return err
	}
	return fault.New(fault.Invalid, "reserved_tag_key", "The tag key %q is reserved, and what a project says of it cannot be overridden by its workspaces.", fixed[0])
}

// replaceBindings leaves the owner with exactly the wanted pairs.
func replaceBindings(ctx context.Context, tx postgres.Tx, actor authz.Actor, o bindingOwner, wanted []TagBinding) error {
	if _, err := postgres.Exec(ctx, tx, queries.Get(o.statements+"BindingsClear"), o.args()); err != nil {
		return err
	}
	if len(wanted) == 0 {
		return o.record(ctx, tx, actor, "bindings-cleared", nil)
	}
	_, err := setBindings(ctx, tx, actor, o, wanted)
	return err
}

func checkBinding(b TagBinding) error {
	if b.Key == "" {
		return accounts.Invalid("key", "Key can't be blank")
	}
	if err := accounts.CheckText("key", "Key", b.Key, maxBindingKey); err != nil {
		return err
	}
	return accounts.CheckText("value", "Value", b.Value, maxBindingValue)
}

func splitBindings(list []TagBinding) (keys, values []string) {
	keys, values = make([]string, 0, len(list)), make([]string, 0, len(list))
	for _, b := range list {
		keys, values = append(keys, b.Key), append(values, b.Value)
	}
	return keys, values
}
