package terraform.policies.protected_resources

import data.terraform.lib

# Marked by a tag or label protected = "true", or by an address in the parameter protected; a
# module's address stands for all that is in it.
deny contains violation if {
	some change in lib.removed
	why := marked(change)
	violation := {"address": change.address, "msg": sprintf("It is protected (%s) and would be destroyed. Take the mark away in a run of its own first.", [why])}
}

marked(change) := sprintf("%s protected", [name]) if {
	some name in ["tags", "labels"]
	change.change.before[name].protected == "true"
} else := sprintf("parameter protected: %s", [address]) if {
	some address in lib.listed("protected", "")
	covers(address, change.address)
}

covers(address, whole) if address == whole

covers(address, whole) if startswith(whole, concat("", [address, "."]))

covers(address, whole) if startswith(whole, concat("", [address, "["]))
