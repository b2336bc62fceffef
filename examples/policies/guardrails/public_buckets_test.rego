package terraform.policies.public_buckets_test

import data.terraform.policies.public_buckets.deny

plan(type, after) := {"plan": {"resource_changes": [{"address": "x.y", "mode": "managed", "type": type, "change": {"actions": ["create"], "before": null, "after": after}}]}}

test_a_public_bucket_is_denied_with_its_address if {
	some violation in deny with input as plan("aws_s3_bucket", {"acl": "public-read"})
	violation.address == "x.y"
	contains(violation.msg, "public-read")
}

test_a_private_bucket_is_fine if count(deny) == 0 with input as plan("aws_s3_bucket", {"acl": "private"})

test_a_bucket_without_an_acl_is_fine if count(deny) == 0 with input as plan("aws_s3_bucket", {})

test_the_block_must_not_be_off if count(deny) == 1 with input as plan("aws_s3_bucket_public_access_block", {"block_public_acls": false, "block_public_policy": true})

test_all_users_are_denied if count(deny) == 1 with input as plan("google_storage_bucket_iam_member", {"member": "allUsers"})

test_a_list_with_all_users_is_denied if count(deny) == 1 with input as plan("google_storage_bucket_iam_binding", {"members": ["user:a@b.c", "allAuthenticatedUsers"]})

test_azure if {
	count(deny) == 1 with input as plan("azurerm_storage_container", {"container_access_type": "blob"})
	count(deny) == 0 with input as plan("azurerm_storage_container", {"container_access_type": "private"})
}

test_what_goes_is_no_matter if count(deny) == 0 with input as {"plan": {"resource_changes": [{"address": "x.y", "mode": "managed", "type": "aws_s3_bucket", "change": {"actions": ["delete"], "before": {"acl": "public-read"}, "after": null}}]}}
