package tfeapi

import (
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// variableView is a workspace variable on the wire. A sensitive one has no value.
type variableView struct {
	ID          string  `jsonapi:"primary,vars"`
	Key         string  `jsonapi:"attr,key"`
	Value       *string `jsonapi:"attr,value"`
	Description string  `jsonapi:"attr,description"`
	Category    string  `jsonapi:"attr,category"`
	HCL         bool    `jsonapi:"attr,hcl"`
	Sensitive   bool    `jsonapi:"attr,sensitive"`
	VersionID   string  `jsonapi:"attr,version-id"`
	related     relations
}

func (v *variableView) relations() relations { return v.related }

func newVariableView(v workspaces.Variable) *variableView {
	view := &variableView{
		ID: string(v.ID), Key: v.Key, Description: v.Description, Category: string(v.Category), HCL: v.HCL, Sensitive: v.Sensitive, VersionID: v.VersionID,
		related: relations{"configurable": ref{"workspaces", string(v.Workspace)}},
	}
	if v.Set != "" {
		view.related = relations{"varset": ref{"varsets", string(v.Set)}}
	}
	if !v.Sensitive {
		view.Value = &v.Value
	}
	return view
}

// listVariables answers with all of them: the client reads one page only.
func (s *server) listVariables(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.ListVariables(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, variableViews(list))
}

func variableViews(list []workspaces.Variable) []*variableView {
	items := make([]*variableView, 0, len(list))
	for _, v := range list {
		items = append(items, newVariableView(v))
	}
	return items
}

// listAllVariables answers with what runs get, the variables of sets included.
func (s *server) listAllVariables(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.AllVariables(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	return pageOf(r, variableViews(list))
}

// variableOf reads workspace and variable out of the path.
func variableOf(r *request) (ids.Workspace, ids.Variable, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return "", "", err
	}
	variable, err := ids.Parse[ids.Variable](r.vars["variable"])
	return workspace, variable, err
}

func (s *server) readVariable(r *request) (answer, error) {
	workspace, variable, err := variableOf(r)
	if err != nil {
		return answer{}, err
	}
	list, err := s.Workspaces.ListVariables(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	return oneVariable(list, variable)
}

// oneVariable answers with one of a list.
func oneVariable(list []workspaces.Variable, id ids.Variable) (answer, error) {
	for _, v := range list {
		if v.ID == id {
			return ok(newVariableView(v)), nil
		}
	}
	return answer{}, fault.Missing("variable", string(id))
}

type variableAttributes struct {
	Key         Opt[string] `json:"key"`
	Value       Opt[string] `json:"value"`
	Description Opt[string] `json:"description"`
	Category    Opt[string] `json:"category"`
	HCL         Opt[bool]   `json:"hcl"`
	Sensitive   Opt[bool]   `json:"sensitive"`
}

// variable is a new one as a request describes it.
func (a variableAttributes) variable() workspaces.Variable {
	return workspaces.Variable{
		Key: a.Key.Or(""), Value: a.Value.Or(""), Category: workspaces.Category(a.Category.Or("")),
		HCL: a.HCL.Or(false), Sensitive: a.Sensitive.Or(false), Description: a.Description.Or(""),
	}
}

func (a variableAttributes) changes() workspaces.VariableChanges {
	return workspaces.VariableChanges{
		Key: a.Key.Pointer(), Value: textOrEmpty(a.Value), Category: (*workspaces.Category)(a.Category.Pointer()), HCL: a.HCL.Pointer(), Sensitive: a.Sensitive.Pointer(),
		Description: textOrEmpty(a.Description),
	}
}

func variableInput(r *request) (variableAttributes, error) {
	body, err := r.body()
	if err != nil {
		return variableAttributes{}, err
	}
	in, err := decode[variableAttributes](body, "vars")
	return in.Attributes, err
}

func (s *server) createVariable(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	a, err := variableInput(r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.CreateVariable(r.ctx, r.actor, workspace, a.variable())
	if err != nil {
		return answer{}, err
	}
	return created(newVariableView(v)), nil
}

func (s *server) updateVariable(r *request) (answer, error) {
	workspace, variable, err := variableOf(r)
	if err != nil {
		return answer{}, err
	}
	a, err := variableInput(r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.Workspaces.UpdateVariable(r.ctx, r.actor, workspace, variable, a.changes())
	if err != nil {
		return answer{}, err
	}
	return ok(newVariableView(v)), nil
}

func (s *server) deleteVariable(r *request) (answer, error) {
	workspace, variable, err := variableOf(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.DeleteVariable(r.ctx, r.actor, workspace, variable)
}
