package tfeapi

import (
	"regexp"

	"github.com/google/jsonapi"

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

// effectiveBindingView is a pair as its owner has it in the end.
type effectiveBindingView struct {
	ID    string `jsonapi:"primary,effective-tag-bindings"`
	Key   string `jsonapi:"attr,key"`
	Value string `jsonapi:"attr,value"`
}

func (*effectiveBindingView) relations() relations { return nil }

// inheritedBindingView is the same with a link to the project that the pair comes from.
type inheritedBindingView struct {
	ID    string `jsonapi:"primary,effective-tag-bindings"`
	Key   string `jsonapi:"attr,key"`
	Value string `jsonapi:"attr,value"`
	from  ids.Project
}

func (*inheritedBindingView) relations() relations { return nil }

// JSONAPILinks are the links of the resource.
func (v *inheritedBindingView) JSONAPILinks() *jsonapi.Links {
	return &jsonapi.Links{"inherited-from": "/api/v2/projects/" + string(v.from)}
}

// newEffectiveBindingView draws b. What is inherited is another thing in each of its owners.
func newEffectiveBindingView(b workspaces.EffectiveBinding) (drawn view, id string) {
	if b.InheritedFrom == "" {
		return &effectiveBindingView{ID: string(b.ID), Key: b.Key, Value: b.Value}, string(b.ID)
	}
	id = string(b.ID) + "-" + b.Owner
	return &inheritedBindingView{ID: id, Key: b.Key, Value: b.Value, from: b.InheritedFrom}, id
}

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
	return pageOf(r, bindingViews(list))
}

func (s *server) listEffectiveBindings(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Get(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.EffectiveBindings(r.ctx, []workspaces.Workspace{w})
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, effectiveBindingViews(list))
}

func effectiveBindingViews(list []workspaces.EffectiveBinding) []view {
	items := make([]view, 0, len(list))
	for _, b := range list {
		drawn, _ := newEffectiveBindingView(b)
		items = append(items, drawn)
	}
	return items
}

// listProjectBindings gives the pairs of a project. It inherits none, so those that are
// effective are the same.
func (s *server) listProjectBindings(r *request) (answer, error) {
	project, err := id[ids.Project](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.ProjectBindings(r.ctx, r.actor, project)
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, bindingViews(list))
}

func (s *server) listEffectiveProjectBindings(r *request) (answer, error) {
	project, err := id[ids.Project](r)
	if err != nil {
		return answer{}, err
	}
	p, err := s.Workspaces.Project(r.ctx, r.actor, project)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.ProjectsBindings(r.ctx, []workspaces.Project{p})
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, effectiveBindingViews(list))
}

func (s *server) setProjectBindings(r *request) (answer, error) {
	project, err := id[ids.Project](r)
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
	set, err := s.Workspaces.SetProjectBindings(r.ctx, r.actor, project, bindingsOf(list))
	if err != nil {
		return answer{}, err
	}
	return all(bindingViews(set)), nil
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
