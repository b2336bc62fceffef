package tfeapi

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
)

// addRegistry publishes what the addresses of the registry are about, for newRights: two modules
// for two systems each, and a provider.
func (w *rights) addRegistry() {
	w.Helper()
	ctx, system := w.Context(), authz.System()
	for _, name := range []string{"vpc", "spare"} {
		w.publishModule(name, "google", "1.0.0")
		w.things["registry-modules/"] = string(w.publishModule(name, "aws", "1.0.0", "1.1.0").Module)
	}
	provider, keyID := w.publishProvider("cloud", "1.0.0")
	component, err := w.deps.Registry.CreateComponent(ctx, system, "acme", "part")
	require.NoError(w, err)
	w.things["registry-providers/"], w.things["registry-components/"] = string(provider), string(component.ID)
	for variable, value := range map[string]string{
		"{registry}": "private", "{namespace}": "acme", "{module}": "vpc", "{system}": "aws", "{provider}": "cloud", "{version}": "1.0.0", "{os}": "linux", "{arch}": "amd64", "{key}": keyID,
	} {
		w.values[variable] = value
	}
}

// bodyOfRegistry is bodyOf for these.
func (w *rights) bodyOfRegistry(rt route) string {
	switch {
	case strings.Contains(rt.path, "/gpg-keys"):
		return `{"data":{"type":"gpg-keys","attributes":{"namespace":"acme"}}}`
	case strings.HasPrefix(rt.path, "/api/v2/registry-modules/{organization}"):
		return `{"data":{"type":"registry-module-versions","attributes":{}}}`
	case strings.HasSuffix(rt.path, "/vcs"), strings.HasSuffix(rt.path, "/{module}/{system}"):
		return `{"data":{"type":"registry-modules","attributes":{}}}`
	case strings.Contains(rt.path, "/{provider}"):
		return fmt.Sprintf(`{"data":{"type":%q,"attributes":{}}}`, "registry-providers")
	}
	return ""
}
