package registry

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
)

// Site admins say who else may install. Only that: what is there, and who publishes it, stays the organization's.
func TestOtherOrganizationsInstallWhatIsSharedWithThem(t *testing.T) {
	w := newWorld(t)
	m := w.module()
	w.version("1.0.0", targz(t, map[string]string{"main.tf": ""}))
	r := w.newRelease()
	require.NoError(t, r.uploadPackage(r.zip))
	require.NoError(t, r.uploadShasums(r.shasums))
	require.NoError(t, r.uploadSignature(r.signature))

	strangers := map[string]authz.Actor{"a person": w.eve, "a run": attempt(w.rival.ID)}
	want := func(modules, providers bool, when string) {
		t.Helper()
		for name, who := range strangers {
			_, err := w.InstallableVersions(ctx, who, "acme", "vpc", "aws")
			assert.Equal(t, modules, err == nil, "%s lists modules, %s: %v", name, when, err)
			_, err = w.Install(ctx, who, "acme", "vpc", "aws", "1.0.0")
			assert.Equal(t, modules, err == nil, "%s installs modules, %s: %v", name, when, err)
			_, err = w.InstallableProvider(ctx, who, "acme", "cloud")
			assert.Equal(t, providers, err == nil, "%s lists providers, %s: %v", name, when, err)
			_, err = w.Package(ctx, who, "acme", "cloud", "1.0.0", "linux", "amd64")
			assert.Equal(t, providers, err == nil, "%s installs providers, %s: %v", name, when, err)
			_, err = w.Module(ctx, who, m.ID)
			assert.True(t, fault.Is(err, fault.NotFound), "%s does not see the registry, %s: %v", name, when, err)
		}
	}
	yes, no := true, false
	change := func(c accounts.SiteOrganizationChanges) {
		t.Helper()
		_, err := w.who.UpdateSiteOrganization(ctx, authz.System(), "acme", c)
		require.NoError(t, err)
	}
	want(false, false, "before anything is shared")
	require.NoError(t, w.who.SetModuleConsumers(ctx, authz.System(), "acme", []string{"rival"}))
	want(true, false, "with a consumer")
	require.NoError(t, w.who.SetModuleConsumers(ctx, authz.System(), "acme", nil))
	want(false, false, "when it is none any more")
	change(accounts.SiteOrganizationChanges{GlobalProviderSharing: &yes})
	want(false, true, "with providers for all")
	change(accounts.SiteOrganizationChanges{GlobalModuleSharing: &yes, GlobalProviderSharing: &no})
	want(true, false, "with modules for all")
	change(accounts.SiteOrganizationChanges{Disabled: &yes})
	want(false, false, "when it is disabled")
}
