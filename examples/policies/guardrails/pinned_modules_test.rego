package terraform.policies.pinned_modules_test

import data.terraform.policies.pinned_modules.deny

plan(call) := {"plan": {"configuration": {"root_module": {"module_calls": {"a": {"source": "./a", "module": {"module_calls": {"b": call}}}}}}}}

test_a_range_is_no_version if {
	some violation in deny with input as plan({"source": "terraform-aws-modules/vpc/aws", "version_constraint": "~> 5.0"})
	violation.address == "module.b"
}

test_none_is_no_version if count(deny) == 1 with input as plan({"source": "app.example.com/acme/vpc/aws"})

test_exact_is_fine if count(deny) == 0 with input as plan({"source": "terraform-aws-modules/vpc/aws", "version_constraint": "5.1.2"})

test_git_needs_a_ref if {
	count(deny) == 1 with input as plan({"source": "git::https://example.com/vpc.git"})
	count(deny) == 0 with input as plan({"source": "git::https://example.com/vpc.git?ref=v1.2.0"})
}

test_a_folder_is_fine if count(deny) == 0 with input as plan({"source": "../b"})
