package tfeapi

// registryRoutes are the addresses of the registry: for those who publish, and for tofu, which
// finds them by the services modules.v1 and providers.v1. The special cases stand before what
// they are a case of.
func (s *server) registryRoutes() []route {
	const (
		api          = "/api/v2/"
		organization = api + "organizations/{organization}"
		modules      = organization + "/registry-modules"
		moduleName   = modules + "/{registry}/{namespace}/{module}"
		module       = moduleName + "/{system}"
		moduleByID   = api + "registry-modules/{id}"
		moduleDelete = api + "registry-modules/actions/delete/{organization}/{module}"
		providers    = organization + "/registry-providers"
		provider     = providers + "/{registry}/{namespace}/{provider}"
		version      = provider + "/versions/{version}"
		platform     = version + "/platforms/{os}/{arch}"
		component    = api + "registry-components/{id}"
		keys         = "/api/registry/{registry}/v2/gpg-keys"
		key          = keys + "/{namespace}/{key}"
	)
	return []route{
		{method: get, path: modules, handle: s.listModules},
		{method: post, path: modules, handle: s.createModule},
		{method: post, path: modules + "/vcs", handle: s.connectOrganizationModule},
		{method: post, path: api + "registry-modules", handle: s.connectModule},
		{method: get, path: moduleByID, handle: s.readModuleByID},
		{method: get, path: moduleByID + "/tag-bindings", handle: s.listModuleBindings},
		{method: get, path: module, handle: s.readModule},
		{method: patch, path: module, handle: s.updateModule},
		{method: get, path: module + "/version", handle: s.readModuleVersion},
		{method: post, path: api + "registry-modules/{organization}/{module}/{system}/versions", handle: s.createModuleVersion},
		{method: put, path: uploadModuleLink.template(), open: true, handle: s.uploadModule},
		{method: del, path: module + "/{version}", handle: s.deleteModuleVersion},
		{method: del, path: module, handle: s.deleteModules},
		{method: del, path: moduleName, handle: s.deleteModules},
		{method: post, path: moduleDelete + "/{system}/{version}", handle: s.deletePrivateModuleVersion},
		{method: post, path: moduleDelete + "/{system}", handle: s.deletePrivateModules},
		{method: post, path: moduleDelete, handle: s.deletePrivateModules},

		{method: get, path: keys, handle: s.listGPGKeys},
		{method: post, path: keys, handle: s.createGPGKey},
		{method: get, path: key, handle: s.readGPGKey},
		{method: patch, path: key, handle: s.moveGPGKey},
		{method: del, path: key, handle: s.deleteGPGKey},

		{method: get, path: providers, handle: s.listProviders},
		{method: post, path: providers, handle: s.createProvider},
		{method: get, path: api + "registry-providers/{id}", handle: s.readProviderByID},
		{method: get, path: api + "registry-providers/{id}/tag-bindings", handle: s.listProviderBindings},
		{method: get, path: provider, handle: s.readProvider},
		{method: patch, path: provider, handle: s.updateProvider},
		{method: get, path: provider + "/versions", handle: s.listProviderVersions},
		{method: post, path: provider + "/versions", handle: s.createProviderVersion},
		{method: get, path: version, handle: s.readProviderVersion},
		{method: get, path: version + "/platforms", handle: s.listPlatforms},
		{method: post, path: version + "/platforms", handle: s.createPlatform},
		{method: get, path: platform, handle: s.readPlatform},
		{method: put, path: uploadShasumsLink.template(), open: true, handle: s.uploadShasums},
		{method: put, path: uploadSignatureLink.template(), open: true, handle: s.uploadSignature},
		{method: put, path: uploadPackageLink.template(), open: true, handle: s.uploadPackage},
		{method: del, path: platform, handle: s.deletePlatform},
		{method: del, path: version, handle: s.deleteProviderVersion},
		{method: del, path: provider, handle: s.deleteProvider},

		{method: post, path: organization + "/registry-components", handle: s.createComponent},
		{method: get, path: component + "/tag-bindings", handle: s.listComponentBindings},
		{method: patch, path: component, handle: s.updateComponent},
		{method: del, path: component, handle: s.deleteComponent},

		{method: get, path: modulesV1 + "{namespace}/{module}/{system}/versions", handle: s.moduleVersionsV1},
		{method: get, path: modulesV1 + "{namespace}/{module}/{system}/{version}/download", handle: s.moduleDownloadV1},
		{method: get, path: modulesV1 + "{namespace}/{module}/{system}/download", handle: s.newestModuleV1},
		{method: get, path: modulesV1 + "{namespace}/{module}/{system}", handle: s.moduleV1},
		{method: get, path: modulesV1 + "{namespace}/{module}/{system}/{version}", handle: s.moduleV1},
		{method: get, path: providersV1 + "{namespace}/{provider}/versions", handle: s.providerVersionsV1},
		{method: get, path: providersV1 + "{namespace}/{provider}/{version}/download/{os}/{arch}", handle: s.providerDownloadV1},
		{method: get, path: archiveLink.template(), open: true, handle: s.downloadModule},
		{method: get, path: packageLink.template(), open: true, handle: s.downloadPackage},
		{method: get, path: shasumsLink.template(), open: true, handle: s.downloadShasums},
		{method: get, path: signatureLink.template(), open: true, handle: s.downloadSignature},
	}
}

// The bases of the two registry protocols, as discovery tells them.
const (
	modulesV1   = "/api/registry/v1/modules/"
	providersV1 = "/api/registry/v1/providers/"
)
