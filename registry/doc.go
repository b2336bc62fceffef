// Package registry keeps an organization's modules and providers, for tofu to install.
//
// Owns: tables registry_modules, registry_module_versions, registry_providers,
// registry_provider_versions, registry_provider_platforms, gpg_keys, registry_components
// and registry_tag_bindings; which bytes may be installed. Words: private (its bytes are here,
// and its namespace is the organization's name), public (a record of something in a public
// registry), address (how tofu names a module or provider: namespace, name and so on),
// version (semantic, written without v), checksums (the file SHA256SUMS of a provider's
// version), package (the zip of a provider for one platform), signed (the checksums have a good
// signature by the key that the version names), installable (a module's version with its
// archive; a package of a signed version, with the sum that the checksums say), component
// (a record for stacks, which are not here).
// Invariants: what somebody was told to install never changes (TestAVersionThatWasInstalled…,
// TestSignedChecksums…); nothing unsigned and nothing with another sum is installable
// (TestAProviderIsInstallable…); a key stays while signatures rest on it
// (TestAKeyInUse…); an archive is what package archive lets pass (TestHostileArchives…);
// versions sort by precedence in the database as by the rules of semver (TestPrecedence…).
// Refuses: version control, so modules come by upload; private keys; running anything.
// Tested by: the _test.go files beside this one.
package registry
