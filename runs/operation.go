package runs

// Operation is what a run was asked to do.
type Operation string

// The operations.
const (
	OperationApply    Operation = "apply"     // plan, and apply what is approved
	OperationDestroy  Operation = "destroy"   // the same, to remove everything
	OperationPlan     Operation = "plan"      // a plan that is kept and may be applied later
	OperationPlanOnly Operation = "plan-only" // look, and keep nothing that could be applied
	OperationPreview  Operation = "preview"   // the same for a configuration that is only tried out
)

// OperationOf gives what a run was asked to do. What it may never do counts first: a
// run that only plans the removal of everything removes nothing.
func OperationOf(r Run) Operation {
	switch {
	case r.Speculative:
		return OperationPreview
	case r.PlanOnly:
		return OperationPlanOnly
	case r.SavePlan:
		return OperationPlan
	case r.IsDestroy:
		return OperationDestroy
	default:
		return OperationApply
	}
}
