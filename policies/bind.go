package policies

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Bound is a set in the scope of a run, as it was when the run, or its round, was made.
type Bound struct {
	Set                ids.PolicySet
	Version            ids.PolicySetVersion
	Name               string
	Description        string
	Kind               Kind
	Overridable        bool
	Digest             string // of the bundle
	ParametersRevision int
	ParametersSealed   []byte // nil when it has none
}

// Scope is what has a say about a run. Digest is empty when nothing has.
type Scope struct {
	Sets   int
	Digest string
}

type scoped struct {
	Set                ids.PolicySet
	Name               string
	Description        string
	Kind               Kind
	Overridable        bool
	ParametersRevision int
	Version            ids.PolicySetVersion
	Digest             string
}

func scopeOf(sets []scoped) Scope {
	if len(sets) == 0 {
		return Scope{}
	}
	sum := sha256.New()
	for _, s := range sets {
		fmt.Fprintf(sum, "%s %s %s %s %d\n", s.Set, s.Kind, s.Version, s.Digest, s.ParametersRevision)
	}
	return Scope{Sets: len(sets), Digest: hex.EncodeToString(sum.Sum(nil))}
}

// ScopeOf tells which sets have a say about a workspace now.
func ScopeOf(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) (Scope, error) {
	sets, err := inScope(ctx, tx, workspace)
	return scopeOf(sets), err
}

func inScope(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) ([]scoped, error) {
	sets, err := postgres.All[scoped](ctx, tx, Queries.Get("InScope"), postgres.Args{"workspace_id": workspace})
	if err != nil {
		return nil, fmt.Errorf("find the policy sets in scope: %w", err)
	}
	return sets, nil
}

func boundLabel(run ids.Run, round int, set ids.PolicySet) string {
	return fmt.Sprintf("run-policy-parameters/%s/%d/%s", run, round, set)
}

// Bind fixes which versions of which sets, with which parameters, judge the plan of a run. What
// is changed afterwards counts for the next run.
func Bind(ctx context.Context, tx postgres.Tx, objects *artifacts.Service, org ids.Organization, workspace ids.Workspace, run ids.Run, round int) (Scope, error) {
	sets, err := inScope(ctx, tx, workspace)
	if err != nil {
		return Scope{}, err
	}
	for _, set := range sets {
		var sealed []byte
		given, err := parametersOf(ctx, tx, objects, org, set.Set)
		if err != nil {
			return Scope{}, err
		}
		if len(given) > 0 {
			values := map[string]string{}
			for _, p := range given {
				values[p.Key] = p.Value
			}
			encoded, err := json.Marshal(values)
			if err != nil {
				return Scope{}, err
			}
			if sealed, err = objects.SealValue(ctx, tx, org, boundLabel(run, round, set.Set), encoded); err != nil {
				return Scope{}, err
			}
		}
		_, err = postgres.Exec(ctx, tx, Queries.Get("BindSet"), postgres.Args{
			"organization_id": org, "run_id": run, "round": round, "policy_set_id": set.Set, "version_id": set.Version, "name": set.Name, "description": set.Description,
			"kind": string(set.Kind), "overridable": set.Overridable, "digest": set.Digest, "parameters_revision": set.ParametersRevision, "parameters_sealed": sealed,
		})
		if err != nil {
			return Scope{}, fmt.Errorf("bind policy set %s to %s: %w", set.Set, run, err)
		}
	}
	return scopeOf(sets), nil
}

// BoundTo gives the sets that Bind bound to a round of a run, by name.
func BoundTo(ctx context.Context, tx postgres.Tx, run ids.Run, round int) ([]Bound, error) {
	list, err := postgres.All[Bound](ctx, tx, Queries.Get("BoundSets"), postgres.Args{"run_id": run, "round": round})
	if err != nil {
		return nil, fmt.Errorf("read the policy sets of %s: %w", run, err)
	}
	return list, nil
}
