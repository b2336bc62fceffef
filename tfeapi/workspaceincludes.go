package tfeapi

import (
	"encoding/json"
	"sync"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/workspaces"
)

// workspaceOutputView is an output of a workspace's current state as it is included with
// the workspace.
type workspaceOutputView struct {
	ID        string          `jsonapi:"primary,workspace-outputs"`
	Name      string          `jsonapi:"attr,name"`
	Sensitive bool            `jsonapi:"attr,sensitive"`
	Type      string          `jsonapi:"attr,output-type"`
	Value     json.RawMessage `jsonapi:"attr,value"`
}

func (*workspaceOutputView) relations() relations { return nil }

// workspaceViews draws workspaces and gives what the request asks to have in full beside
// them. How many statements that takes does not depend on how many workspaces there are.
func (s *server) workspaceViews(r *request, list []workspaces.Workspace) (items []*workspaceView, included []view, err error) {
	items = make([]*workspaceView, 0, len(list))
	byID := map[string]*workspaceView{}
	for _, w := range list {
		item := s.newWorkspaceView(r.actor, w)
		items, byID[item.ID] = append(items, item), item
	}
	if len(list) == 0 {
		return items, nil, nil
	}
	drawn := drawnWorkspaces{list: list, byID: byID, currentRuns: sync.OnceValues(func() ([]runs.Detail, error) {
		return s.Runs.Some(r.ctx, r.actor, each(list, func(w workspaces.Workspace) ids.Run { return w.CurrentRun }))
	})}
	asked := r.includes()
	for _, one := range []struct {
		name string
		add  func(r *request, drawn drawnWorkspaces) ([]view, error)
	}{
		{"organization", s.includeOrganizations}, {"project", s.includeProjects}, {"current-run", s.includeRuns}, {"current-run.plan", s.includePlans},
		{"current-run.configuration-version", s.includeRunConfigurations}, {"current-state-version", s.includeStates},
		{"current-configuration-version", s.includeConfigurations}, {"outputs", s.includeOutputs}, {"effective-tag-bindings", s.includeBindings}, {"locked-by", s.includeHolders},
	} {
		if !asked[one.name] {
			continue
		}
		more, err := one.add(r, drawn)
		if err != nil {
			return nil, nil, err
		}
		included = append(included, more...)
	}
	return items, included, nil
}

// drawnWorkspaces are those that something is included with.
type drawnWorkspaces struct {
	list        []workspaces.Workspace
	byID        map[string]*workspaceView
	currentRuns func() ([]runs.Detail, error) // those that the reader sees, read once
}

// includeOrganizations reads the one that all of a list are of.
func (s *server) includeOrganizations(r *request, drawn drawnWorkspaces) (included []view, err error) {
	seen := map[string]bool{}
	for _, w := range drawn.list {
		if seen[w.OrganizationName] {
			continue
		}
		seen[w.OrganizationName] = true
		o, err := s.Accounts.Organization(r.ctx, r.actor, w.OrganizationName)
		if err != nil {
			return nil, err
		}
		included = append(included, newOrganizationView(r.actor, o))
	}
	return included, nil
}

func (s *server) includeProjects(r *request, drawn drawnWorkspaces) (included []view, err error) {
	found, err := s.Workspaces.SomeProjects(r.ctx, r.actor, each(drawn.list, func(w workspaces.Workspace) ids.Project { return w.Project }))
	for _, p := range found {
		included = append(included, newProjectView(r.actor, p))
	}
	return included, err
}

func (s *server) includeRuns(r *request, drawn drawnWorkspaces) (included []view, err error) {
	found, err := drawn.currentRuns()
	if err != nil {
		return nil, err
	}
	documents, err := s.runDocuments(r, found)
	return views(documents), err
}

func (s *server) includePlans(r *request, drawn drawnWorkspaces) (included []view, err error) {
	found, err := drawn.currentRuns()
	for _, d := range found {
		included = append(included, s.newPlanView(r.actor, d))
	}
	return included, err
}

func (s *server) includeRunConfigurations(r *request, drawn drawnWorkspaces) ([]view, error) {
	found, err := drawn.currentRuns()
	if err != nil {
		return nil, err
	}
	wanted := make([]ids.ConfigurationVersion, 0, len(found))
	for _, d := range found {
		wanted = append(wanted, d.ConfigurationVersionID)
	}
	return s.configurationViews(r, wanted)
}

func (s *server) includeConfigurations(r *request, drawn drawnWorkspaces) ([]view, error) {
	return s.configurationViews(r, each(drawn.list, func(w workspaces.Workspace) ids.ConfigurationVersion { return w.Shown.CurrentConfiguration }))
}

func (s *server) configurationViews(r *request, wanted []ids.ConfigurationVersion) (included []view, err error) {
	found, err := s.Runs.SomeConfigurations(r.ctx, r.actor, wanted)
	for _, c := range found {
		included = append(included, newConfigurationView(c))
	}
	return included, err
}

func (s *server) includeStates(r *request, drawn drawnWorkspaces) (included []view, err error) {
	found, err := s.State.Some(r.ctx, r.actor, each(drawn.list, func(w workspaces.Workspace) ids.StateVersion { return w.Shown.CurrentState }))
	for _, v := range found {
		included = append(included, s.newStateVersionView(v, false))
	}
	return included, err
}

// includeOutputs hides the values of sensitive outputs.
func (s *server) includeOutputs(r *request, drawn drawnWorkspaces) (included []view, err error) {
	of := map[ids.StateVersion]*workspaceView{}
	for _, w := range drawn.list {
		item := drawn.byID[string(w.ID)]
		item.related["outputs"] = []ref{}
		if w.Shown.CurrentState != "" {
			of[w.Shown.CurrentState] = item
		}
	}
	found, err := s.State.OutputsOfSome(r.ctx, r.actor, each(drawn.list, func(w workspaces.Workspace) ids.StateVersion { return w.Shown.CurrentState }))
	if err != nil {
		return nil, err
	}
	for _, o := range found {
		full := newOutputView(o)
		v := &workspaceOutputView{ID: full.ID, Name: full.Name, Sensitive: full.Sensitive, Type: full.Type}
		if !o.Sensitive {
			v.Value = full.Value
		}
		item := of[o.Version]
		item.related["outputs"] = append(item.related["outputs"].([]ref), ref{"workspace-outputs", v.ID})
		included = append(included, v)
	}
	return included, nil
}

func (s *server) includeBindings(r *request, drawn drawnWorkspaces) (included []view, err error) {
	for _, item := range drawn.byID {
		item.related["effective-tag-bindings"] = []ref{}
	}
	found, err := s.Workspaces.EffectiveBindings(r.ctx, drawn.list)
	for _, b := range found {
		full, id := newEffectiveBindingView(b)
		item := drawn.byID[b.Owner]
		item.related["effective-tag-bindings"] = append(item.related["effective-tag-bindings"].([]ref), ref{"effective-tag-bindings", id})
		included = append(included, full)
	}
	return included, err
}

// includeHolders gives the runs and users that have locks. One whom the reader may not see
// is left out.
func (s *server) includeHolders(r *request, drawn drawnWorkspaces) (included []view, err error) {
	var holding []ids.Run
	users := map[ids.User]bool{}
	for _, w := range drawn.list {
		switch w.Fence.Holder.Kind {
		case fence.Run:
			holding = append(holding, ids.Run(w.Fence.Holder.ID))
		case fence.User:
			users[ids.User(w.Fence.Holder.ID)] = true
		}
	}
	found, err := s.Runs.Some(r.ctx, r.actor, holding)
	if err != nil {
		return nil, err
	}
	documents, err := s.runDocuments(r, found)
	if err != nil {
		return nil, err
	}
	included = views(documents)
	for user := range users { // few people lock at a time
		u, err := s.Accounts.User(r.ctx, r.actor, user)
		switch {
		case err == nil:
			included = append(included, newUserView(r.actor, u))
		case !fault.Is(err, fault.NotFound):
			return nil, err
		}
	}
	return included, nil
}

// each gives what of says of each workspace, without what is empty.
func each[T ~string](list []workspaces.Workspace, of func(w workspaces.Workspace) T) []T {
	out := make([]T, 0, len(list))
	for _, w := range list {
		if id := of(w); id != "" {
			out = append(out, id)
		}
	}
	return out
}
