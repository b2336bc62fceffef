package terraform.policies.pinned_modules

exact := `^=?\s*v?[0-9]+\.[0-9]+\.[0-9]+`

deny contains violation if {
	some [path, call] in calls
	registry(call.source)
	not regex.match(exact, object.get(call, "version_constraint", ""))
	violation := {"address": path, "msg": sprintf("The module %s is not pinned to an exact version.", [call.source])}
}

deny contains violation if {
	some [path, call] in calls
	startswith(call.source, "git::")
	not contains(call.source, "ref=")
	violation := {"address": path, "msg": sprintf("The module %s is not pinned by ref.", [call.source])}
}

# Every module call, at any depth.
calls contains [concat(".", ["module", name]), call] if {
	walk(input.plan.configuration.root_module, [path, calls_here])
	path[count(path) - 1] == "module_calls"
	some name, call in calls_here
}

registry(source) if {
	not startswith(source, ".")
	not startswith(source, "/")
	not contains(source, "::")
	not contains(source, "://")
}
