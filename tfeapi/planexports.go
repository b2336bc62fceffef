package tfeapi

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// planExportView is an export of a plan on the wire. It is finished at once: its bytes are
// made when they are asked for.
type planExportView struct {
	ID               string            `jsonapi:"primary,plan-exports"`
	DataType         string            `jsonapi:"attr,data-type"`
	Status           string            `jsonapi:"attr,status"`
	StatusTimestamps map[string]string `jsonapi:"attr,status-timestamps"`
	plan             string
}

func (v *planExportView) relations() relations { return relations{"plan": ref{"plans", v.plan}} }

func newPlanExportView(e runs.PlanExport) *planExportView {
	at := rfc3339(e.CreatedAt)
	v := &planExportView{ID: string(e.ID), DataType: e.DataType, Status: "finished", plan: string(e.PlanID), StatusTimestamps: map[string]string{"queued-at": at, "finished-at": at}}
	if e.Over {
		v.Status = "expired"
		v.StatusTimestamps["expired-at"] = rfc3339(e.ExpiresAt)
	}
	return v
}

func (s *server) createPlanExport(r *request) (answer, error) {
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		DataType Opt[string] `json:"data-type"`
	}](body, "plan-exports")
	if err != nil {
		return answer{}, err
	}
	text, err := in.required("plan", "plans")
	if err != nil {
		return answer{}, err
	}
	plan, err := ids.Parse[ids.Plan](text)
	if err != nil {
		return answer{}, err
	}
	e, err := s.Runs.ExportPlan(r.ctx, r.actor, plan, in.Attributes.DataType.Or(""))
	if err != nil {
		return answer{}, err
	}
	return created(newPlanExportView(e)), nil
}

func (s *server) planExportOfPath(r *request) (runs.PlanExport, error) {
	export, err := id[ids.PlanExport](r)
	if err != nil {
		return runs.PlanExport{}, err
	}
	return s.Runs.PlanExport(r.ctx, r.actor, export)
}

func (s *server) readPlanExport(r *request) (answer, error) {
	e, err := s.planExportOfPath(r)
	if err != nil {
		return answer{}, err
	}
	return ok(newPlanExportView(e)), nil
}

func (s *server) deletePlanExport(r *request) (answer, error) {
	export, err := id[ids.PlanExport](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Runs.DeletePlanExport(r.ctx, r.actor, export)
}

// mostExport bounds the plan that is held in memory to be written anew.
const mostExport = 64 << 20

func (s *server) downloadPlanExport(r *request) (answer, error) {
	e, err := s.planExportOfPath(r)
	if err == nil && e.Over {
		err = fault.New(fault.NotFound, "export_expired", "This export has expired. Make a new one.")
	}
	if err != nil {
		return answer{}, err
	}
	body, object, err := s.Runs.PlanJSON(r.ctx, r.actor, e.PlanID)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = body.Close() }() // only read
	if object.Size > mostExport {
		return answer{}, fault.New(fault.TooLarge, "plan_too_large", "A plan of more than %d bytes cannot be exported. Read its JSON form instead.", int64(mostExport))
	}
	plan, err := io.ReadAll(body)
	if err != nil {
		return answer{}, err
	}
	bundle, err := sentinelMocks(plan)
	if err != nil {
		return answer{}, err
	}
	return download(io.NopCloser(bytes.NewReader(bundle)), int64(len(bundle))), nil
}

// sentinelMocks makes the bundle of mock data that policies are tried out with: files that
// assign what the imports tfplan/v2, tfconfig/v2 and tfstate/v2 would give for the plan.
func sentinelMocks(planJSON []byte) ([]byte, error) {
	var plan map[string]any
	decoder := json.NewDecoder(bytes.NewReader(planJSON))
	decoder.UseNumber()
	if err := decoder.Decode(&plan); err != nil {
		return nil, fmt.Errorf("read the plan: %w", err)
	}
	prior, _ := plan["prior_state"].(map[string]any)
	files := []struct {
		name   string
		values map[string]any
	}{
		{"mock-tfplan-v2.sentinel", map[string]any{
			"terraform_version": plan["terraform_version"], "variables": plan["variables"], "planned_values": plan["planned_values"],
			"resource_changes": byAddress(plan["resource_changes"]), "output_changes": plan["output_changes"], "raw": plan,
		}},
		{"mock-tfconfig-v2.sentinel", map[string]any{"terraform_version": plan["terraform_version"], "configuration": plan["configuration"]}},
		{"mock-tfstate-v2.sentinel", map[string]any{"terraform_version": prior["terraform_version"], "values": prior["values"]}},
	}
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	archive := tar.NewWriter(packed)
	for _, f := range files {
		text := sentinelFile(f.values)
		if err := archive.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := archive.Write(text); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), packed.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// byAddress turns the list of changes into the map that policies read.
func byAddress(changes any) any {
	list, _ := changes.([]any)
	byAddress := map[string]any{}
	for _, change := range list {
		if c, ok := change.(map[string]any); ok {
			byAddress[fmt.Sprint(c["address"])] = c
		}
	}
	return byAddress
}

// sentinelFile assigns each value to its name, in order. JSON is Sentinel but for a comma
// after each last element and for its word for nothing, which is the same.
func sentinelFile(values map[string]any) []byte {
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	var text strings.Builder
	for _, name := range names {
		text.WriteString(name + " = ")
		writeSentinel(&text, values[name], 0)
		text.WriteString("\n\n")
	}
	return []byte(text.String())
}

func writeSentinel(text *strings.Builder, value any, depth int) {
	indent := strings.Repeat("\t", depth+1)
	switch v := value.(type) {
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		text.WriteString("{\n")
		for _, name := range names {
			key, _ := json.Marshal(name) // a string always can be
			text.WriteString(indent + string(key) + ": ")
			writeSentinel(text, v[name], depth+1)
			text.WriteString(",\n")
		}
		text.WriteString(indent[1:] + "}")
	case []any:
		text.WriteString("[\n")
		for _, item := range v {
			text.WriteString(indent)
			writeSentinel(text, item, depth+1)
			text.WriteString(",\n")
		}
		text.WriteString(indent[1:] + "]")
	default:
		plain, _ := json.Marshal(v) // what was read from JSON can be written
		text.Write(plain)
	}
}
