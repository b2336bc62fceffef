package terraform.policies.open_ports_test

import data.terraform.policies.open_ports.deny

plan(type, after) := {"plan": {"resource_changes": [{"address": "x.y", "mode": "managed", "type": type, "change": {"actions": ["update"], "before": {}, "after": after}}]}}

test_ssh_for_everybody if {
	some violation in deny with input as plan("aws_security_group", {"ingress": [{"from_port": 20, "to_port": 30, "protocol": "tcp", "cidr_blocks": ["0.0.0.0/0"], "ipv6_cidr_blocks": null}]})
	contains(violation.msg, "22")
}

test_https_for_everybody_is_fine if count(deny) == 0 with input as plan("aws_security_group", {"ingress": [{"from_port": 443, "to_port": 443, "protocol": "tcp", "cidr_blocks": ["0.0.0.0/0"]}]})

test_ssh_for_some_is_fine if count(deny) == 0 with input as plan("aws_security_group_rule", {"type": "ingress", "from_port": 22, "to_port": 22, "protocol": "tcp", "cidr_blocks": ["10.0.0.0/8"]})

test_every_port_includes_them if count(deny) == 4 with input as plan("aws_vpc_security_group_ingress_rule", {"from_port": null, "to_port": null, "ip_protocol": "-1", "cidr_ipv6": "::/0"})

test_what_goes_out_is_no_matter if count(deny) == 0 with input as plan("aws_security_group_rule", {"type": "egress", "from_port": 0, "to_port": 65535, "protocol": "tcp", "cidr_blocks": ["0.0.0.0/0"]})
