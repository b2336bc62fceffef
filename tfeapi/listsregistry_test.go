package tfeapi

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/registry"
)

// growRegistry adds one to every list of the registry.
func (l *lists) growRegistry() {
	l.Helper()
	name := fmt.Sprintf("more-%02d", l.made)
	l.publishModule(name, "aws", "1.0.0", "1.1.0")
	l.publishProvider(name, "1.0.0")
	_, err := l.deps.Registry.CreateProviderVersion(l.Context(), authz.System(), "acme", registry.ProviderAddress{Registry: registry.Private, Namespace: "acme", Name: "cloud"},
		registry.NewProviderVersion{Version: fmt.Sprintf("2.0.%d", l.made), KeyID: l.values["{key}"]})
	require.NoError(l, err)
	l.world.exec(`insert into registry_provider_platforms (id, organization_id, version_id, os, arch, filename, shasum)
		select 'provpltfrm-' || @name, p.organization_id, p.version_id, @name, p.arch, p.filename || @name, p.shasum
		  from registry_provider_platforms p join registry_provider_versions v on v.id = p.version_id and v.version = '1.0.0'
		 where v.provider_id = @provider and p.os = 'linux'`, postgres.Args{"name": name, "provider": l.things["registry-providers/"]})
	for column, id := range map[string]string{
		"module_id": l.things["registry-modules/"], "provider_id": l.things["registry-providers/"], "component_id": l.things["registry-components/"],
	} {
		l.world.exec("insert into registry_tag_bindings (id, organization_id, "+column+", key, value) select @name || @of, o.id, @of, @name, 'v' from organizations o where o.name = 'acme'",
			postgres.Args{"name": name, "of": id})
	}
}

// growProvisioning adds a group and a token of the identity provider.
func (l *lists) growProvisioning() {
	l.Helper()
	l.world.exec("insert into scim_groups (id, display_name) values ('scimgroup-' || @n, @n)", postgres.Args{"n": fmt.Sprint(l.made)})
	l.world.exec("insert into scim_tokens (id, hash, description, expires_at) values ('at-scim' || @n, sha256(convert_to(@n, 'UTF8')), '', clock_timestamp() + interval '30 days')",
		postgres.Args{"n": fmt.Sprint(l.made)})
}
