package runner

import (
	"slices"

	tfjson "github.com/hashicorp/terraform-json"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// summarize counts as tofu's own last line does: a replacement is an addition and a
// destruction, data sources count for nothing (RL-35).
func summarize(plan *tfjson.Plan, changes bool) *wire.PlanSummary {
	sum := &wire.PlanSummary{HasChanges: changes}
	for _, resource := range plan.ResourceChanges {
		if resource.Change == nil || resource.Mode != tfjson.ManagedResourceMode {
			continue
		}
		actions := resource.Change.Actions
		if slices.Contains(actions, tfjson.ActionCreate) {
			sum.Additions++
		}
		if slices.Contains(actions, tfjson.ActionUpdate) {
			sum.Changes++
		}
		if slices.Contains(actions, tfjson.ActionDelete) {
			sum.Destructions++
		}
		if resource.Change.Importing != nil {
			sum.Imports++
		}
	}
	return sum
}
