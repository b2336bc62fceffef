package workspaces

import (
	"slices"
	"strings"
)

// What would let a variable steer the runner, the way tofu finds its state, or the
// loading of programs, instead of the configuration. The runner strips the same.
var (
	reservedNames = []string{
		"TF_STATE_PERSIST_INTERVAL", "TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_WORKSPACE", "TF_FORCE_LOCAL_BACKEND", "TFE_RUN_ID", "PATH",
	}
	reservedPrefixes = []string{
		"TF_CLI_ARGS", "TF_TOKEN_", "TF_CLOUD_", "TFC_", "TF_REATTACH", "TF_PLUGIN_CACHE", "LD_", "SSL_CERT_", "HOLDFAST_",
	}
)

// IdentityAudience is the variable of category env that names for whom a run gets a token of
// what it is.
const IdentityAudience = "TFC_WORKLOAD_IDENTITY_AUDIENCE"

// Reserved tells whether no variable of category env may have this key.
func Reserved(key string) bool {
	return key != IdentityAudience && (slices.Contains(reservedNames, key) ||
		slices.ContainsFunc(reservedPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) }))
}
