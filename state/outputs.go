package state

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Output is one root output of a version.
type Output struct {
	ID      ids.Output
	Version ids.StateVersion
	FileOutput
}

// shownOutputs are those that the file shows.
func (f File) shownOutputs() []FileOutput {
	if f.OutputsLeftOut {
		return unknownOutputs()
	}
	return f.Outputs
}

// declaredOutputs are those of a state that the client encrypted: what it sent in
// plain beside it, unless the workspace does not keep that.
func (s *Service) declaredOutputs(ctx context.Context, tx postgres.Tx, v Version) ([]FileOutput, error) {
	if v.mustBeEncrypted {
		return unknownOutputs(), nil
	}
	sealed, err := postgres.Value[[]byte](ctx, tx, Queries.Get("DeclaredOutputsSealed"), postgres.Args{"id": v.ID})
	if err != nil {
		return nil, fmt.Errorf("read the declared outputs of %s: %w", v.ID, err)
	}
	if sealed == nil {
		return unknownOutputs(), nil
	}
	plain, err := s.objects.OpenValue(ctx, tx, v.Organization, outputsLabel(v.ID), sealed)
	if err != nil {
		return nil, err
	}
	var declared map[string]FileOutput
	if json.Unmarshal(plain, &declared) != nil {
		return unknownOutputs(), nil
	}
	list := make([]FileOutput, 0, len(declared))
	for name, o := range declared {
		o.Name = name
		list = append(list, o)
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name < list[j].Name })
	return list, nil
}

// unknownOutputs stands for outputs that are in the state only. An empty list would
// say that there are none; a client that is shown an output without a type reads the
// state by itself. No output can have this name.
func unknownOutputs() []FileOutput {
	return []FileOutput{{Name: "(in the state only)", Sensitive: true}}
}

func outputLabel(id ids.Output) string { return "state-output/" + string(id) }

// sealedOutputs are the rows of the outputs of a version, in their order.
type sealedOutputs struct {
	ids    []string
	sealed [][]byte
}

func sealOutputs(sealer artifacts.Sealer, outputs []FileOutput) (rows sealedOutputs, err error) {
	for _, o := range outputs {
		encoded, err := json.Marshal(o)
		if err != nil {
			return sealedOutputs{}, err
		}
		id := ids.New[ids.Output]()
		rows.ids = append(rows.ids, string(id))
		rows.sealed = append(rows.sealed, sealer.Seal(outputLabel(id), encoded))
	}
	return rows, nil
}

func (o sealedOutputs) insert(ctx context.Context, tx postgres.Tx, v Version) error {
	if len(o.ids) == 0 {
		return nil
	}
	return postgres.Later(ctx, tx, Queries.Get("InsertOutputs"), postgres.Args{
		"organization_id": v.Organization, "state_version_id": v.ID, "ids": o.ids, "sealed": o.sealed,
	}, nil)
}

type outputRow struct {
	ID             ids.Output
	OrganizationID ids.Organization
	StateVersionID ids.StateVersion
	Position       int
	Sealed         []byte
}

func (s *Service) openOutput(ctx context.Context, tx postgres.Tx, r outputRow) (Output, error) {
	plain, err := s.objects.OpenValue(ctx, tx, r.OrganizationID, outputLabel(r.ID), r.Sealed)
	if err != nil {
		return Output{}, err
	}
	o := Output{ID: r.ID, Version: r.StateVersionID}
	if err := json.Unmarshal(plain, &o.FileOutput); err != nil {
		return Output{}, fmt.Errorf("read output %s: %w", r.ID, err)
	}
	return o, nil
}

func (s *Service) outputs(ctx context.Context, tx postgres.Tx, v Version) ([]Output, error) {
	rows, err := postgres.All[outputRow](ctx, tx, Queries.Get("Outputs"), postgres.Args{"state_version_id": v.ID})
	if err != nil {
		return nil, err
	}
	list := make([]Output, 0, len(rows))
	for _, r := range rows {
		o, err := s.openOutput(ctx, tx, r)
		if err != nil {
			return nil, err
		}
		list = append(list, o)
	}
	return list, nil
}

// Outputs lists the outputs of a version with their values; whoever shows the list
// hides the sensitive ones.
func (s *Service) Outputs(ctx context.Context, actor authz.Actor, id ids.StateVersion) (list []Output, err error) {
	err = postgres.InSnapshot(ctx, s.db, "state.outputs", func(tx postgres.Tx) error {
		v, err := s.visible(ctx, tx, actor, authz.StateReadOutputs, id)
		if err != nil {
			return err
		}
		list, err = s.outputs(ctx, tx, v)
		return err
	})
	return list, err
}

// CurrentOutputs lists the outputs of the version that Current gives; an empty list
// when there is none.
func (s *Service) CurrentOutputs(ctx context.Context, actor authz.Actor, workspace ids.Workspace) (list []Output, err error) {
	err = postgres.InSnapshot(ctx, s.db, "state.current-outputs", func(tx postgres.Tx) error {
		if _, err := workspaces.Allowed(ctx, tx, actor, authz.StateReadOutputs, workspace); err != nil {
			return err
		}
		id, err := currentFor(ctx, tx, actor, workspace)
		if err != nil || id == "" {
			return err
		}
		list, err = s.outputs(ctx, tx, Version{ID: id})
		return err
	})
	return list, err
}

// Output gives one output with its value, sensitive or not.
func (s *Service) Output(ctx context.Context, actor authz.Actor, id ids.Output) (o Output, err error) {
	err = postgres.InSnapshot(ctx, s.db, "state.output", func(tx postgres.Tx) error {
		row, err := postgres.One[struct {
			outputRow
			WorkspaceID ids.Workspace
			ProjectID   ids.Project
			Gone        bool
		}](ctx, tx, Queries.Get("Output"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return fault.Missing("state version output", string(id))
		}
		if err != nil {
			return err
		}
		object := authz.Object{Organization: row.OrganizationID, Project: row.ProjectID, Workspace: row.WorkspaceID, Noun: "state version output", Name: string(id)}
		if err := authz.Allow(actor, authz.StateReadOutputs, object); err != nil {
			return err
		}
		if row.Gone {
			return fault.Missing(object.Noun, object.Name)
		}
		o, err = s.openOutput(ctx, tx, row.outputRow)
		return err
	})
	return o, err
}

// OutputsOfSome gives the outputs of versions that the actor may see, by version, with
// their values; whoever shows them hides the sensitive ones. It takes two statements.
func (s *Service) OutputsOfSome(ctx context.Context, actor authz.Actor, versions []ids.StateVersion) (list []Output, err error) {
	seen, err := s.some(ctx, actor, authz.StateReadOutputs, versions)
	if err != nil || len(seen) == 0 {
		return nil, err
	}
	wanted := make([]string, 0, len(seen))
	for _, v := range seen {
		wanted = append(wanted, string(v.ID))
	}
	err = postgres.InSnapshot(ctx, s.db, "state.outputs-of-some", func(tx postgres.Tx) error {
		rows, err := postgres.All[outputRow](ctx, tx, Queries.Get("OutputsOfSome"), postgres.Args{"ids": wanted})
		if err != nil {
			return err
		}
		for _, r := range rows {
			o, err := s.openOutput(ctx, tx, r)
			if err != nil {
				return err
			}
			list = append(list, o)
		}
		return nil
	})
	return list, err
}

// Some gives those of the versions that the actor sees, with one statement and without
// their resources, for showing them beside what names them.
func (s *Service) Some(ctx context.Context, actor authz.Actor, versions []ids.StateVersion) ([]Version, error) {
	return s.some(ctx, actor, authz.StateRead, versions)
}

func (s *Service) some(ctx context.Context, actor authz.Actor, action authz.Action, versions []ids.StateVersion) (seen []Version, err error) {
	if len(versions) == 0 {
		return nil, nil
	}
	wanted := make([]string, 0, len(versions))
	for _, id := range versions {
		wanted = append(wanted, string(id))
	}
	err = postgres.InOneStatement(ctx, s.db, "state.some", func(tx postgres.Tx) error {
		rows, err := postgres.All[versionRow](ctx, tx, Queries.Get("VersionsSome"), postgres.Args{"ids": wanted})
		for _, r := range rows {
			v := r.version()
			foreign := actor.Kind == authz.AttemptActor && v.ID != actor.Predecessor && v.Run != actor.Run // ST-01
			if !v.gone && !foreign && authz.Can(actor, action, authz.Object{Organization: v.Organization, Project: v.Project, Workspace: v.Workspace}) {
				seen = append(seen, v)
			}
		}
		return err
	})
	return seen, err
}
