package terraform.policies.required_tags

import data.terraform.lib

deny contains violation if {
	some change in lib.written
	"tags" in object.keys(change.change.after)
	some tag in lib.listed("required_tags", "owner")
	not has(change.change, tag)
	violation := {"address": change.address, "msg": sprintf("The tag %q is missing.", [tag])}
}

has(change, tag) if change.after.tags[tag] != ""

has(change, tag) if change.after.tags_all[tag] != ""

# The value is known only at the apply.
has(change, tag) if change.after_unknown.tags[tag]

has(change, _) if change.after_unknown.tags == true
