package terraform.policies.required_tags_test

import data.terraform.policies.required_tags.deny

plan(after, unknown, params) := {"params": params, "plan": {"resource_changes": [{"address": "a.b", "mode": "managed", "type": "t", "change": {"actions": ["create"], "before": null, "after": after, "after_unknown": unknown}}]}}

test_the_owner_is_required if count(deny) == 1 with input as plan({"tags": null}, {}, {})

test_what_is_required_can_be_said if {
	found := {v.msg | some v in deny} with input as plan({"tags": {"owner": "a"}}, {}, {"required_tags": "team, stage"})
	found == {"The tag \"team\" is missing.", "The tag \"stage\" is missing."}
}

test_all_there if count(deny) == 0 with input as plan({"tags": {"owner": "a"}}, {}, {})

test_tags_of_the_provider_count if count(deny) == 0 with input as plan({"tags": null, "tags_all": {"owner": "a"}}, {}, {})

test_not_known_yet_is_fine if {
	count(deny) == 0 with input as plan({"tags": {}}, {"tags": {"owner": true}}, {})
	count(deny) == 0 with input as plan({"tags": null}, {"tags": true}, {})
}

test_what_has_no_tags_needs_none if count(deny) == 0 with input as plan({"name": "a"}, {}, {})
