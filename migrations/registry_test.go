package migrations_test

// registryRows are a module and a provider of the first organization, with what belongs to them.
const registryRows = `
insert into registry_modules (id, organization_id, registry_name, namespace, name, provider) values ('mod-a', 'org-a', 'private', '', 'vpc', 'aws'), ('mod-b', 'org-b', 'private', '', 'vpc', 'aws');
insert into registry_module_versions (id, organization_id, module_id, version, precedence) values ('modver-a', 'org-a', 'mod-a', '1.0.0', 'p');
insert into gpg_keys (id, organization_id, key_id, ascii_armor) values ('gpg-a', 'org-a', 'K', ''), ('gpg-b', 'org-b', 'K', '');
insert into registry_providers (id, organization_id, registry_name, namespace, name) values ('prov-a', 'org-a', 'private', '', 'cloud');
insert into registry_provider_versions (id, organization_id, provider_id, version, precedence, key_id, protocols) values ('provver-a', 'org-a', 'prov-a', '1.0.0', 'p', 'K', '{5.0}');
insert into registry_provider_platforms (id, organization_id, version_id, os, arch, filename, shasum) values ('provpltfrm-a', 'org-a', 'provver-a', 'linux', 'amd64', 'f', 's');
insert into registry_components (id, organization_id, name) values ('comp-a', 'org-a', 'part');
insert into registry_tag_bindings (id, organization_id, module_id, key, value) values ('tb-m', 'org-a', 'mod-a', 'k', '');
insert into registry_tag_bindings (id, organization_id, provider_id, key, value) values ('tb-p', 'org-a', 'prov-a', 'k', '');
insert into registry_tag_bindings (id, organization_id, component_id, key, value) values ('tb-c', 'org-a', 'comp-a', 'k', '');
`

func init() {
	refusals = append(refusals, []struct{ sqlstate, constraint, sql string }{
		{"23514", "registry_modules_registry", "update registry_modules set registry_name = 'other', namespace = 'n'"},
		{"23514", "registry_modules_namespace", "update registry_modules set namespace = 'n'"},
		{"23505", "registry_modules_address", "insert into registry_modules (id, organization_id, registry_name, namespace, name, provider) values ('mod-2', 'org-a', 'private', '', 'vpc', 'aws')"},
		{"23514", "registry_module_versions_status", "update registry_module_versions set status = 'cloning'"},
		{"23514", "registry_module_versions_ok", "update registry_module_versions set status = 'ok'"},
		{"23505", "registry_module_versions_version", "insert into registry_module_versions (id, organization_id, module_id, version, precedence) values ('modver-2', 'org-a', 'mod-a', '1.0.0', 'p')"},
		{"23503", "registry_module_versions_organization_id_module_id_fkey", "update registry_module_versions set module_id = 'mod-b'"},
		{"23503", "registry_module_versions_organization_id_object_id_fkey", "update registry_module_versions set status = 'ok', object_id = 'obj-b'"},
		{"23505", "gpg_keys_key", "insert into gpg_keys (id, organization_id, key_id, ascii_armor) values ('gpg-2', 'org-a', 'K', '')"},
		{"23514", "registry_providers_registry", "update registry_providers set registry_name = 'other', namespace = 'n'"},
		{"23514", "registry_providers_namespace", "update registry_providers set namespace = 'n'"},
		{"23505", "registry_providers_address", "insert into registry_providers (id, organization_id, registry_name, namespace, name) values ('prov-2', 'org-a', 'private', '', 'CLOUD')"},
		{"23505", "registry_provider_versions_version", "insert into registry_provider_versions (id, organization_id, provider_id, version, precedence, key_id, protocols) values ('provver-2', 'org-a', 'prov-a', '1.0.0', 'p', 'K', '{}')"},
		{"23514", "registry_provider_versions_signed", "update registry_provider_versions set gpg_key_id = 'gpg-a'"},
		{"23503", "registry_provider_versions_signer", "update registry_provider_versions set gpg_key_id = 'gpg-b', shasums_sealed = '', signature_sealed = ''"},
		{"23505", "registry_provider_platforms_platform", "insert into registry_provider_platforms (id, organization_id, version_id, os, arch, filename, shasum) values ('provpltfrm-2', 'org-a', 'provver-a', 'linux', 'amd64', 'f', 's')"},
		{"23503", "registry_provider_platforms_organization_id_object_id_fkey", "update registry_provider_platforms set object_id = 'obj-b'"},
		{"23505", "registry_components_name", "insert into registry_components (id, organization_id, name) values ('comp-2', 'org-a', 'part')"},
		{"23514", "registry_tag_bindings_one", "update registry_tag_bindings set provider_id = 'prov-a' where id = 'tb-m'"},
		{"23505", "registry_tag_bindings_module", "insert into registry_tag_bindings (id, organization_id, module_id, key, value) values ('tb-2', 'org-a', 'mod-a', 'k', '')"},
		{"23505", "registry_tag_bindings_provider", "insert into registry_tag_bindings (id, organization_id, provider_id, key, value) values ('tb-2', 'org-a', 'prov-a', 'k', '')"},
		{"23505", "registry_tag_bindings_component", "insert into registry_tag_bindings (id, organization_id, component_id, key, value) values ('tb-2', 'org-a', 'comp-a', 'k', '')"},
	}...)
}
