package terraform.lib

# The managed resources that the plan creates or changes, with what they are to become.
written contains change if {
	some change in input.plan.resource_changes
	change.mode == "managed"
	some action in change.change.actions
	action in {"create", "update"}
}

# The managed resources that the plan destroys, also to make them anew.
removed contains change if {
	some change in input.plan.resource_changes
	change.mode == "managed"
	"delete" in change.change.actions
}

# A parameter of the policy set, or what stands for it.
parameter(name, _) := input.params[name]

parameter(name, otherwise) := otherwise if not input.params[name]

# A parameter that lists something, separated by commas.
listed(name, otherwise) := {item |
	some part in split(parameter(name, otherwise), ",")
	item := trim_space(part)
	item != ""
}
