package terraform.policies.open_ports

import data.terraform.lib

everywhere := {"0.0.0.0/0", "::/0"}

administration := {22, 3389, 5985, 5986}

deny contains violation if {
	some change in lib.written
	some rule in rules(change)
	some network in rule.networks
	network in everywhere
	some port in administration
	within(port, rule)
	violation := {"address": change.address, "msg": sprintf("Port %d is open to %s. Name the networks that need it.", [port, network])}
}

rules(change) := [open_rule(rule) | some rule in object.get(change.change.after, "ingress", [])] if change.type == "aws_security_group"

rules(change) := [open_rule(change.change.after)] if {
	change.type == "aws_security_group_rule"
	change.change.after.type == "ingress"
}

rules(change) := [{"from": after.from_port, "to": after.to_port, "protocol": object.get(after, "ip_protocol", "-1"), "networks": [object.get(after, "cidr_ipv4", ""), object.get(after, "cidr_ipv6", "")]}] if {
	change.type == "aws_vpc_security_group_ingress_rule"
	after := change.change.after
}

open_rule(rule) := {
	"from": rule.from_port, "to": rule.to_port, "protocol": object.get(rule, "protocol", "-1"),
	"networks": array.concat(listed(rule, "cidr_blocks"), listed(rule, "ipv6_cidr_blocks")),
}

listed(rule, name) := [item | some item in object.get(rule, name, [])]

within(_, rule) if rule.protocol in {"-1", "all"}

within(port, rule) if {
	rule.from <= port
	port <= rule.to
}
