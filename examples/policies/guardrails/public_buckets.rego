package terraform.policies.public_buckets

import data.terraform.lib

public_acls := {"public-read", "public-read-write", "authenticated-read", "website"}

deny contains violation if {
	some change in lib.written
	change.type in {"aws_s3_bucket", "aws_s3_bucket_acl"}
	acl := change.change.after.acl
	acl in public_acls
	violation := {"address": change.address, "msg": sprintf("The ACL %q lets everybody read. Use \"private\".", [acl])}
}

deny contains violation if {
	some change in lib.written
	change.type == "aws_s3_bucket_public_access_block"
	some switch in ["block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"]
	change.change.after[switch] == false
	violation := {"address": change.address, "msg": sprintf("%s is off. Leave public access blocked.", [switch])}
}

deny contains violation if {
	some change in lib.written
	change.type in {"google_storage_bucket_iam_member", "google_storage_bucket_iam_binding"}
	some member in array.concat([object.get(change.change.after, "member", "")], object.get(change.change.after, "members", []))
	member in {"allUsers", "allAuthenticatedUsers"}
	violation := {"address": change.address, "msg": sprintf("%s may use the bucket. Name who may.", [member])}
}

deny contains violation if {
	some change in lib.written
	change.type == "azurerm_storage_container"
	kind := change.change.after.container_access_type
	kind in {"blob", "container"}
	violation := {"address": change.address, "msg": sprintf("The access type %q lets everybody read. Use \"private\".", [kind])}
}
