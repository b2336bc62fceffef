package migrations_test

// What settings, variable sets and run triggers refuse, for the tests in schema_test.go.
func init() {
	const aSet = "insert into variable_sets (id, organization_id, name) values ('varset-1', 'org-a', 's'); "
	const inSet = aSet + "insert into variable_set_variables (id, organization_id, set_id, key, category, value_sealed) values ('var-s', 'org-a', 'varset-1', 'k', 'env', ''); "
	const second = "insert into run_triggers (id, organization_id, workspace_id, source_id) values ('rt-1', 'org-a', 'ws-a', 'ws-a2'); "
	refusals = append(refusals, []struct{ sqlstate, constraint, sql string }{
		{"23514", "organizations_execution_mode", "update organizations set default_execution_mode = 'elsewhere'"},
		{"23514", "organizations_pool_with_mode", "update organizations set default_execution_mode = 'agent'"},
		{"23514", "organizations_session_timeout", "update organizations set session_timeout = 0"},
		{"23514", "organizations_session_remember", "update organizations set session_remember = 20161"},
		{"23514", "organizations_feature_set", "update organizations set feature_set = 'gold'"},
		{"23514", "organizations_commit_statuses", "update organizations set aggregated_commit_status = true, passing_commit_statuses = true"},
		{"23514", "projects_execution_mode", "update projects set default_execution_mode = 'elsewhere'"},
		{"23514", "projects_pool_with_mode", "update projects set default_execution_mode = 'remote', default_agent_pool_id = 'apool-1'"},
		{"23514", "workspaces_triggers", "update workspaces set trigger_prefixes = '{/a}', trigger_patterns = '{/b}'"},
		{"23505", "project_tag_bindings_key", "insert into project_tag_bindings (id, organization_id, project_id, key) values ('tb-p1', 'org-a', 'prj-a', 'k'), ('tb-p2', 'org-a', 'prj-a', 'k')"},
		{"23505", "reserved_tag_keys_key", "insert into reserved_tag_keys (id, organization_id, key) values ('rtk-1', 'org-a', 'k'), ('rtk-2', 'org-a', 'k')"},
		{"23514", "data_retention_policies_days", "insert into data_retention_policies (id, organization_id, days) values ('drp-1', 'org-a', 0)"},
		{"23505", "data_retention_policies_owner", "insert into data_retention_policies (id, organization_id, days) values ('drp-1', 'org-a', 1), ('drp-2', 'org-a', null)"},
		{"23505", "variable_sets_name", aSet + "insert into variable_sets (id, organization_id, name) values ('varset-2', 'org-a', 's')"},
		{"23514", "variable_set_variables_category", inSet + "update variable_set_variables set category = 'policy'"},
		{"23505", "variable_set_variables_key", inSet + "insert into variable_set_variables (id, organization_id, set_id, key, category, value_sealed) values ('var-t', 'org-a', 'varset-1', 'k', 'env', '')"},
		{"23514", "run_triggers_not_itself", "insert into run_triggers (id, organization_id, workspace_id, source_id) values ('rt-1', 'org-a', 'ws-a', 'ws-a')"},
		{"23505", "run_triggers_once", second + "insert into run_triggers (id, organization_id, workspace_id, source_id) values ('rt-2', 'org-a', 'ws-a', 'ws-a2')"},
	}...)
}
