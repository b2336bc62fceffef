package terraform.policies.protected_resources_test

import data.terraform.policies.protected_resources.deny

plan(address, actions, before) := {"params": {"protected": "module.data, terraform_data.keep"}, "plan": {"resource_changes": [{"address": address, "mode": "managed", "type": "t", "change": {"actions": actions, "before": before, "after": null}}]}}

test_a_tag_protects if count(deny) == 1 with input as plan("a.b", ["delete"], {"tags": {"protected": "true"}})

test_a_label_protects_from_replacement if count(deny) == 1 with input as plan("a.b", ["delete", "create"], {"labels": {"protected": "true"}})

test_a_parameter_protects if {
	some violation in deny with input as plan("terraform_data.keep", ["delete"], {})
	violation.address == "terraform_data.keep"
}

test_instances_are_protected_too if count(deny) == 1 with input as plan("terraform_data.keep[0]", ["delete"], {})

test_what_is_in_a_module_is_protected if count(deny) == 1 with input as plan("module.data.a.b", ["create", "delete"], {})

test_a_longer_name_is_another if count(deny) == 0 with input as plan("terraform_data.keeper", ["delete"], {"tags": null})

test_a_change_is_fine if count(deny) == 0 with input as plan("terraform_data.keep", ["update"], {})
