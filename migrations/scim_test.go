package migrations_test

// What the tables of people and groups, and the settings about them, refuse, for the tests
// in schema_test.go.
func init() {
	refusals = append(refusals, []struct{ sqlstate, constraint, sql string }{
		{"23514", "scim_settings_one", "insert into scim_settings (one) values (false)"},
		{"23514", "scim_settings_confirmed", "update scim_settings set site_admin_confirmed_at = clock_timestamp()"},
		{"23514", "scim_tokens_hash_size", "insert into scim_tokens (id, hash, description, expires_at) values ('at-s', '', '', clock_timestamp())"},
		{"23505", "scim_tokens_hash", `insert into scim_tokens (id, hash, description, expires_at)
			select 'at-' || n, decode(repeat('ee', 32), 'hex'), '', clock_timestamp() from generate_series(1, 2) n`},
		{"23505", "scim_users_name", `insert into scim_users (user_id, user_name, active, attributes)
			select id, case when n = 1 then 'Ada' else 'ada' end, true, '{}' from (select id, row_number() over (order by id) as n from users limit 2) u`},
		{"23514", "saml_settings_one", "insert into saml_settings (one) values (false)"},
		{"23514", "saml_settings_provider", "update saml_settings set provider_type = 'other'"},
		{"23514", "saml_settings_signing", "update saml_settings set signature_signing_method = 'MD5'"},
		{"23514", "saml_settings_digest", "update saml_settings set signature_digest_method = 'MD5'"},
		{"23503", "query_runs_organization_id_workspace_id_fkey", "insert into query_runs (id, organization_id, workspace_id, configuration_version_id, source, generate_config_out, reason) values ('qry-1', 'org-b', 'ws-a', 'cv-a', '', false, '')"},
	}...)
}
