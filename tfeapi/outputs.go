package tfeapi

import (
	"encoding/json"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/state"
)

// outputView is one output of a state. The client reads the whole state instead
// unless every output has its detailed type.
type outputView struct {
	ID           string          `jsonapi:"primary,state-version-outputs"`
	Name         string          `jsonapi:"attr,name"`
	Sensitive    bool            `jsonapi:"attr,sensitive"`
	Type         string          `jsonapi:"attr,type"`
	DetailedType json.RawMessage `jsonapi:"attr,detailed-type"`
	Value        json.RawMessage `jsonapi:"attr,value"`
}

func (*outputView) relations() relations { return nil }

// newOutputViews draws outputs in their order; hide leaves the values of sensitive
// ones out.
func newOutputViews(outputs []state.Output, hide bool) ([]*outputView, []ref) {
	drawn, refs := make([]*outputView, 0, len(outputs)), make([]ref, 0, len(outputs))
	for _, o := range outputs {
		v := newOutputView(o)
		if hide && o.Sensitive {
			v.Value = nil
		}
		drawn, refs = append(drawn, v), append(refs, ref{"state-version-outputs", v.ID})
	}
	return drawn, refs
}

func newOutputView(o state.Output) *outputView {
	return &outputView{
		ID: string(o.ID), Name: o.Name, Sensitive: o.Sensitive, Type: shortType(o.FileOutput.Type), DetailedType: o.FileOutput.Type, Value: o.Value,
	}
}

// shortType names the JSON form of a cty type such as "string" or ["list","string"].
func shortType(detailed json.RawMessage) string {
	var name string
	if json.Unmarshal(detailed, &name) != nil {
		var compound []json.RawMessage
		if json.Unmarshal(detailed, &compound) != nil || len(compound) == 0 || json.Unmarshal(compound[0], &name) != nil {
			return "dynamic"
		}
	}
	switch name {
	case "": // the type is not known
		return "dynamic"
	case "list", "set", "tuple":
		return "array"
	case "map", "object":
		return "object"
	case "bool":
		return "boolean"
	default:
		return name
	}
}

// listOutputs shows the values of sensitive outputs too; the list of a workspace does not.
func (s *server) listOutputs(r *request) (answer, error) {
	version, err := id[ids.StateVersion](r)
	if err != nil {
		return answer{}, err
	}
	outputs, err := s.State.Outputs(r.ctx, r.actor, version)
	if err != nil {
		return answer{}, err
	}
	drawn, _ := newOutputViews(outputs, false)
	return pageOf(r, drawn)
}

// currentOutputs is what `tofu output` reads; an empty list when there is no state.
func (s *server) currentOutputs(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	outputs, err := s.State.CurrentOutputs(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	drawn, _ := newOutputViews(outputs, true)
	return pageOf(r, drawn)
}

// readOutput gives one output with its real value.
func (s *server) readOutput(r *request) (answer, error) {
	output, err := id[ids.Output](r)
	if err != nil {
		return answer{}, err
	}
	o, err := s.State.Output(r.ctx, r.actor, output)
	if err != nil {
		return answer{}, err
	}
	return ok(newOutputView(o)), nil
}
