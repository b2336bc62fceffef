package migrations_test

// What the site's settings, its catalogue and the records of VCS hosts refuse, for the tests
// in schema_test.go.
func init() {
	refusals = append(refusals, []struct{ sqlstate, constraint, sql string }{
		{"23514", "organizations_workspace_limit", "update organizations set workspace_limit = -1"},
		{"23514", "organizations_plan_timeout", "update organizations set plan_timeout_seconds = 0"},
		{"23514", "organizations_apply_timeout", "update organizations set apply_timeout_seconds = 0"},
		{"23514", "module_consumers_other", "insert into module_consumers (organization_id, consumer_id) values ('org-a', 'org-a')"},
		{"23514", "site_settings_singleton", "insert into site_settings (singleton) values (false)"},
		{"23514", "site_settings_api_rate_limit", "update site_settings set api_rate_limit = 0"},
		{"23514", "site_settings_plan_timeout", "update site_settings set plan_timeout_seconds = 0"},
		{"23514", "site_settings_apply_timeout", "update site_settings set apply_timeout_seconds = 0"},
		{"23514", "site_settings_organizations", "update site_settings set organizations_per_user = -1"},
		{"23514", "site_settings_workspaces", "update site_settings set workspaces_per_organization = -1"},
		{"23514", "tool_versions_tool", "insert into tool_versions (id, tool, version) values ('tool-1', 'packer', '1.0.0')"},
		{"23505", "tool_versions_version", "insert into tool_versions (id, tool, version) values ('tool-1', 'terraform', '1.0.4')"},
		{"23514", "tool_versions_deprecated", "update tool_versions set deprecated_reason = 'old' where version = '1.0.4'"},
	}...)
}
