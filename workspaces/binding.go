package workspaces

import (
	"context"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// TagBinding is a pair of key and value on a workspace, which has a key once. Both
// are kept and compared exactly. ID is empty in a request or filter.
type TagBinding struct {
	ID         ids.TagBinding
	Key, Value string
}

const (
	maxBindings     = 10  // per workspace
	maxBindingKey   = 128 // bytes
	maxBindingValue = 256 // bytes
)

// Bindings gives the workspace's pairs by key.
func (s *Service) Bindings(ctx context.Context, actor authz.Actor, id ids.Workspace) (list []TagBinding, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.bindings", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceRead, id)
		if err != nil {
			return err
		}
		list, err = bindings(ctx, tx, w)
		return err
	})
	return list, err
}

func bindings(ctx context.Context, tx postgres.Tx, w Workspace) ([]TagBinding, error) {
	return postgres.All[TagBinding](ctx, tx, queries.Get("Bindings"), postgres.Args{"organization_id": w.Organization, "workspace_id": w.ID})
}

// SetBindings adds pairs, or changes the value where the key is there, and gives
// them in the order asked. More than 10 on a workspace are Invalid.
func (s *Service) SetBindings(ctx context.Context, actor authz.Actor, id ids.Workspace, wanted []TagBinding) (list []TagBinding, err error) {
	err = postgres.InTx(ctx, s.db, "workspaces.set-bindings", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		list, err = setBindings(ctx, tx, actor, w, wanted)
		return err
	})
	return list, err
}

func setBindings(ctx context.Context, tx postgres.Tx, actor authz.Actor, w Workspace, wanted []TagBinding) ([]TagBinding, error) {
	if len(wanted) == 0 {
		return nil, nil
	}
	set, keys := make([]TagBinding, 0, len(wanted)), make([]string, 0, len(wanted))
	for _, b := range wanted {
		if err := checkBinding(b); err != nil {
			return nil, err
		}
		args := postgres.Args{"id": ids.New[ids.TagBinding](), "organization_id": w.Organization, "workspace_id": w.ID, "key": b.Key, "value": b.Value}
		stored, err := postgres.One[TagBinding](ctx, tx, queries.Get("BindingSet"), args)
		if err != nil {
			return nil, err
		}
		set, keys = append(set, stored), append(keys, b.Key)
	}
	all, err := bindings(ctx, tx, w)
	if err != nil {
		return nil, err
	}
	if len(all) > maxBindings {
		return nil, fault.New(fault.Invalid, "too_many_tag_bindings", "A workspace cannot exceed %d tag bindings. Remove some first.", maxBindings)
	}
	return set, record(ctx, tx, actor, w, "workspace.bindings-set", map[string]any{"keys": keys})
}

// replaceBindings leaves the workspace with exactly the wanted pairs.
func replaceBindings(ctx context.Context, tx postgres.Tx, actor authz.Actor, w Workspace, wanted []TagBinding) error {
	if _, err := postgres.Exec(ctx, tx, queries.Get("BindingsClear"), postgres.Args{"organization_id": w.Organization, "workspace_id": w.ID}); err != nil {
		return err
	}
	if len(wanted) == 0 {
		return record(ctx, tx, actor, w, "workspace.bindings-cleared", nil)
	}
	_, err := setBindings(ctx, tx, actor, w, wanted)
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
