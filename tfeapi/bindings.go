package tfeapi

import (
	"regexp"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// bindingView is a pair of key and value on a workspace.
type bindingView struct {
	ID    string `jsonapi:"primary,tag-bindings"`
	Key   string `jsonapi:"attr,key"`
	Value string `jsonapi:"attr,value"`
}

func (*bindingView) relations() relations { return nil }

// effectiveBindingView is the same as a workspace has it in the end. Nothing is
// inherited here, so both lists are equal.
type effectiveBindingView struct {
	ID    string `jsonapi:"primary,effective-tag-bindings"`
	Key   string `jsonapi:"attr,key"`
	Value string `jsonapi:"attr,value"`
}

func (*effectiveBindingView) relations() relations { return nil }

func bindingViews(list []workspaces.TagBinding) []*bindingView {
	items := make([]*bindingView, 0, len(list))
	for _, b := range list {
		items = append(items, &bindingView{ID: string(b.ID), Key: b.Key, Value: b.Value})
	}
	return items
}

type bindingAttributes struct {
	Key   Opt[string] `json:"key"`
	Value Opt[string] `json:"value"`
}

func bindingsOf(list []listed[bindingAttributes]) []workspaces.TagBinding {
	wanted := make([]workspaces.TagBinding, 0, len(list))
	for _, item := range list {
		wanted = append(wanted, workspaces.TagBinding{Key: item.Attributes.Key.Or(""), Value: item.Attributes.Value.Or("")})
	}
	return wanted
}

func (s *server) listBindings(r *request) (answer, error) {
	list, err := s.bindings(r)
	if err != nil {
		return answer{}, err
	}
	return all(bindingViews(list)), nil
}

func (s *server) listEffectiveBindings(r *request) (answer, error) {
	list, err := s.bindings(r)
	if err != nil {
		return answer{}, err
	}
	items := make([]*effectiveBindingView, 0, len(list))
	for _, b := range list {
		items = append(items, &effectiveBindingView{ID: string(b.ID), Key: b.Key, Value: b.Value})
	}
	return all(items), nil
}

func (s *server) bindings(r *request) ([]workspaces.TagBinding, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return nil, err
	}
	return s.Workspaces.Bindings(r.ctx, r.actor, workspace)
}

func (s *server) setBindings(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	list, err := decodeMany[bindingAttributes](body, "tag-bindings", "")
	if err != nil {
		return answer{}, err
	}
	set, err := s.Workspaces.SetBindings(r.ctx, r.actor, workspace, bindingsOf(list))
	if err != nil {
		return answer{}, err
	}
	return all(bindingViews(set)), nil
}

var taggedParameter = regexp.MustCompile(`^filter\[tagged\]\[([0-9]{1,3})\]\[(key|value)\]$`)

// taggedFilter reads filter[tagged][i][key] and filter[tagged][i][value].
func taggedFilter(query map[string][]string) ([]workspaces.TagBinding, error) {
	pairs := map[string]workspaces.TagBinding{}
	for name, values := range query {
		at := taggedParameter.FindStringSubmatch(name)
		if at == nil {
			continue
		}
		pair := pairs[at[1]]
		if at[2] == "key" {
			pair.Key = values[0]
		} else {
			pair.Value = values[0]
		}
		pairs[at[1]] = pair
	}
	list := make([]workspaces.TagBinding, 0, len(pairs))
	for i, pair := range pairs {
		if pair.Key == "" {
			return nil, fault.New(fault.Malformed, "invalid_parameter", "The query parameter filter[tagged][%s][key] is missing or empty.", i)
		}
		list = append(list, pair)
	}
	return list, nil
}
