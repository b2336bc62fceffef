package terraform.policies.deletion_limit

import data.terraform.lib

deny contains violation if {
	not input.run.is_destroy
	most := to_number(lib.parameter("max_deletions", "10"))
	found := count(lib.removed)
	found > most
	violation := {"msg": sprintf("The plan destroys %d resources, and at most %d may go in one run. Do it in parts, or as a destroy.", [found, most])}
}
