package runs

import (
	"slices"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/workspaces"
)

// Operation is what a run is for (OP-01). It is fixed when the run is made.
type Operation string

// The operations.
const (
	OperationPlan     Operation = "plan"      // a plan that is kept, to be applied or promoted later (OP-02)
	OperationApply    Operation = "apply"     // plan and apply, or the apply of a promoted plan (OP-03)
	OperationDestroy  Operation = "destroy"   // the same, of a plan that removes everything (OP-04)
	OperationPlanOnly Operation = "plan-only" // a plan to look at; nothing of it can be applied (OP-05)
	OperationPreview  Operation = "preview"   // the same, of a configuration that is not meant to be applied (OP-06)
	OperationTeardown Operation = "teardown"  // destroy, and then the workspace goes (OP-07)
)

// operationExecute runs a playbook. The name is reserved, and no workspace here has one (OP-08).
const operationExecute Operation = "execute"

var operations = []Operation{OperationPlan, OperationApply, OperationDestroy, OperationPlanOnly, OperationPreview, OperationTeardown}

// settleOperation makes the operation and the attributes of native clients agree:
// whichever is given says what the other is, and a contradiction is Invalid.
func (n *NewRun) settleOperation(speculative bool) error {
	refuse := func(text string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_attribute", text, args...).At("/data/attributes/operation")
	}
	asked := n.Operation
	switch {
	case asked == operationExecute:
		return refuse("The operation execute is for playbooks. This workspace holds an OpenTofu configuration: plan it, or apply it.")
	case asked != "" && !slices.Contains(operations, asked):
		return refuse("There is no operation %q. The operations are %v.", asked, operations)
	}
	n.PlanOnly = n.PlanOnly || speculative || asked == OperationPlanOnly || asked == OperationPreview
	n.Teardown = n.Teardown || asked == OperationTeardown
	n.IsDestroy = n.IsDestroy || n.Teardown || asked == OperationDestroy
	switch {
	case n.PlanOnly && (asked == OperationPreview || (speculative && asked != OperationPlanOnly)):
		n.Operation = OperationPreview
	case n.PlanOnly:
		n.Operation = OperationPlanOnly
	case n.SavePlan || asked == OperationPlan:
		n.Operation = OperationPlan
	case n.Teardown:
		n.Operation = OperationTeardown
	case n.IsDestroy:
		n.Operation = OperationDestroy
	default:
		n.Operation = OperationApply
	}
	switch {
	case asked != "" && asked != n.Operation:
		return refuse("The run is asked for as %s, but its other attributes, or its configuration version, make it a %s.", asked, n.Operation)
	case n.Teardown && n.Operation != OperationTeardown:
		return refuse("A teardown destroys and cleans up; it cannot be a %s as well.", n.Operation)
	case n.Teardown && len(n.TargetAddrs) > 0:
		return refuse("A teardown removes everything, so it takes no targets.")
	}
	return nil
}

// waitsForWorkspace tells whether the run plans under the workspace's fence, which it
// gets by its turn. The others plan at once, and take the fence, if ever, when their
// plan is confirmed (QP-04).
func (r Run) waitsForWorkspace() bool {
	return !r.PlanOnly && r.Operation != OperationPlan && r.SourceRunID == ""
}

// endsPlanned tells whether a finished plan is the end of the run: nobody is to
// confirm it. A plan saved by a native client is confirmed in the run that made it.
func (r Run) endsPlanned() bool {
	return r.PlanOnly || (r.Operation == OperationPlan && !r.SavePlan)
}

// checkExecutable refuses runs in a workspace whose runs happen on the user's machine.
func checkExecutable(w workspaces.Workspace) error {
	if w.ExecutionMode != workspaces.Local {
		return nil
	}
	return fault.New(fault.Invalid, "execution_mode_local",
		"Workspace %q has the execution mode local: tofu plans and applies on your machine, and only its state is kept here. Run tofu there, or set the workspace's execution-mode to remote.", w.Name).At("/data/relationships/workspace")
}
