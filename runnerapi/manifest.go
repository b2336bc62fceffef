package runnerapi

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
	"github.com/holdfast-run/holdfast/runs"
)

// manifest writes what an attempt does, all of it: its digest is that of everything that
// the outcome depends on (PL-03). It holds no secret: variables are an input.
func manifest(f runs.Facts) ([]byte, error) {
	r, a := f.Run, f.Attempt
	m := wire.Manifest{
		AttemptID: string(a.ID), RunID: string(r.ID), Phase: string(a.Phase), ExecutionNonce: a.ExecutionNonce, OrganizationName: r.OrganizationName,
		WorkspaceID: string(r.WorkspaceID), WorkspaceName: r.WorkspaceName, WorkingDirectory: r.WorkingDirectory, TofuVersion: a.TofuVersion,
		Destroy: r.IsDestroy, Refresh: r.Refresh, RefreshOnly: r.RefreshOnly, TargetAddrs: r.TargetAddrs, ReplaceAddrs: r.ReplaceAddrs, GenerateConfig: r.GenerateConfig, EncryptedState: r.ClientEncrypted,
		LogLimit: dispatch.Human.Limit(f.Settings.LogLimit), JSONLogLimit: dispatch.JSON.Limit(f.Settings.LogLimit),
		MaxSeconds: int(f.Settings.RunTTL / time.Second), InterruptSeconds: int(f.Settings.InterruptGrace / time.Second),
		VariablesDigest: sha256Of(r.VariablesSealed),
		Inputs:          []wire.Transfer{input(a.ID, wire.KindConfiguration, f.Configuration), {Kind: wire.KindVariables, Method: "proxy", URL: path(wire.PathInput, a.ID, wire.KindVariables)}},
		Outputs:         []wire.Transfer{},
	}
	if a.Phase == authz.Apply {
		m.TofuDigest = r.PlanTofuDigest
		m.Inputs = append(m.Inputs, input(a.ID, wire.KindPlan, f.Plan))
		if f.LockFile.ID != "" {
			m.Inputs = append(m.Inputs, input(a.ID, wire.KindLockFile, f.LockFile))
		}
	} else {
		kinds := []string{wire.KindPlanJSON, wire.KindPlanJSONRedacted, wire.KindLockFile, wire.KindCostEstimate}
		if !r.PlanOnly {
			kinds = append(kinds, wire.KindPlan)
		}
		for _, kind := range kinds {
			m.Outputs = append(m.Outputs, wire.Transfer{Kind: kind, Method: "proxy", URL: path(wire.PathArtifact, a.ID, kind)})
		}
	}
	return json.Marshal(m)
}

func input(id ids.Attempt, kind string, o artifacts.Object) wire.Transfer {
	return wire.Transfer{Kind: kind, Method: "proxy", URL: path(wire.PathInput, id, kind), SHA256: o.SHA256, Size: o.Size}
}

func path(template string, id ids.Attempt, kind string) string {
	return strings.NewReplacer("{id}", string(id), "{kind}", kind).Replace(template)
}

func variables(list []runs.Variable) wire.Variables {
	v := wire.Variables{Terraform: []wire.Variable{}, Environment: []wire.Variable{}}
	for _, one := range list {
		w := wire.Variable{Key: one.Key, Value: one.Value, HCL: one.HCL}
		if one.SSH {
			v.SSHKey = one.Value
			continue
		}
		if one.Env {
			v.Environment = append(v.Environment, w)
		} else {
			v.Terraform = append(v.Terraform, w)
		}
	}
	return v
}

// done takes a report as it is, but for text that could not be stored: a report that
// is refused would never be accepted, and the run would never end.
func done(in wire.Done) runs.Done {
	d := runs.Done{
		Outcome: runs.Outcome(storable(in.Outcome)), ExitCode: in.ExitCode, TofuStarted: in.TofuStarted, TofuVersion: storable(in.TofuVersion),
		TofuDigest: storable(in.TofuDigest), Message: storable(in.Message), Reason: runs.FailureReason(storable(in.Reason)), ErroredState: in.ErroredState, GeneratedConfig: in.GeneratedConfig,
		LogSize: in.LogSize, JSONLogSize: in.JSONLogSize, LogTruncated: in.LogTruncated,
	}
	if in.Plan != nil {
		d.Plan = &runs.PlanSummary{HasChanges: in.Plan.HasChanges, Additions: in.Plan.Additions, Changes: in.Plan.Changes, Destructions: in.Plan.Destructions, Imports: in.Plan.Imports}
	}
	if c := in.Cost; c != nil {
		d.Cost = &runs.CostReport{
			Currency: storable(c.Currency), Prior: storable(c.Prior), Proposed: storable(c.Proposed), Delta: storable(c.Delta), Resources: c.Resources, Matched: c.Matched, Error: storable(c.Error),
		}
	}
	if in.Confirmed != nil {
		d.Confirmed = ids.StateVersion(in.Confirmed.StateVersionID)
	}
	return d
}

// checkNumbers refuses a report whose numbers no column holds.
func checkNumbers(in wire.Done) error {
	numbers := []int{in.ExitCode}
	if p := in.Plan; p != nil {
		numbers = append(numbers, p.Additions, p.Changes, p.Destructions, p.Imports)
	}
	if c := in.Cost; c != nil {
		numbers = append(numbers, c.Resources, c.Matched)
	}
	for _, n := range numbers {
		if n < math.MinInt32 || n > math.MaxInt32 {
			return fault.New(fault.Invalid, "number_too_large", "%d is no exit code and no count of resources.", n)
		}
	}
	return nil
}

const longestText = 4 << 10 // bytes kept of a text in a report

func storable(text string) string {
	text = strings.ReplaceAll(text, "\x00", "\uFFFD")
	if len(text) > longestText {
		text = text[:longestText] + "…"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func sha256Of(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func checkDigest(data []byte, want string) error {
	if sha256Of(data) != want {
		return fault.New(fault.Invalid, "digest_mismatch", "The bytes do not have the SHA-256 %q. Send them again.", want)
	}
	return nil
}
