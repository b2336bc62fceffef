package runner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// kept are the variables of the runner's own environment that tofu gets, where set.
var kept = []string{
	"PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// reserved are the names that a workspace cannot set: they would change how tofu is
// run or whom it trusts. The server refuses them; here they are dropped all the
// same. A trailing * stands for any rest.
var reserved = []string{
	"TF_STATE_PERSIST_INTERVAL", "TF_CLI_ARGS*", "TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_WORKSPACE",
	"TF_FORCE_LOCAL_BACKEND", "TF_TOKEN_*", "TF_CLOUD_*", "TFE_RUN_ID", "TFC_*", "TF_REATTACH*",
	"TF_PLUGIN_CACHE*", "LD_*", "PATH", "SSL_CERT_*", "HOLDFAST_*",
	// These terraform-exec sets itself, and refuses from anybody else.
	"TF_INPUT", "TF_IN_AUTOMATION", "TF_LOG", "TF_LOG_CORE", "TF_LOG_PATH", "TF_LOG_PROVIDER",
	"TF_APPEND_USER_AGENT", "TF_DISABLE_PLUGIN_TLS", "TF_SKIP_PROVIDER_VERIFY",
}

// identity are the names of the token by which a run proves to a cloud what it is, and of
// whom it is for. The server gives the token; nobody else can say these names.
var identity = []string{"TFC_WORKLOAD_IDENTITY_TOKEN", "TFC_WORKLOAD_IDENTITY_AUDIENCE"}

func isReserved(name string) bool {
	if slices.Contains(identity, name) {
		return false
	}
	for _, pattern := range reserved {
		if prefix, any := strings.CutSuffix(pattern, "*"); name == pattern || (any && strings.HasPrefix(name, prefix)) {
			return true
		}
	}
	return false
}

// environment makes the environment of tofu: what is kept of own (the runner's), what
// the workspace sets, and what makes tofu run here against the server's state. The
// names of given variables that were dropped come back too.
func (a *attempt) environment(own func(string) (string, bool), given []wire.Variable) (env map[string]string, dropped []string, err error) {
	env = map[string]string{}
	for _, name := range kept {
		if value, ok := own(name); ok {
			env[name] = value
		}
	}
	for _, v := range given {
		if v.Key == "" || strings.ContainsAny(v.Key, "=\x00") {
			return nil, nil, fmt.Errorf("%q cannot be the name of an environment variable", v.Key)
		}
		if err := checkText(v); err != nil {
			return nil, nil, err
		}
		if isReserved(v.Key) {
			dropped = append(dropped, v.Key)
			continue
		}
		env[v.Key] = v.Value
	}
	if a.enclosure != nil {
		env["HOME"] = a.sandbox.home() // the runner's own is not to be seen
	}
	if a.caFile != "" {
		env["SSL_CERT_FILE"] = a.caFile
	}
	env["TMPDIR"] = a.sandbox.tmp
	env["TF_CLI_CONFIG_FILE"] = a.sandbox.cliConfig()
	// With it the cloud block is a place for state only, and tofu works here (NC-24).
	// TFC_RUN_ID stays unset: with it, import blocks would want a TFC agent.
	env["TF_FORCE_LOCAL_BACKEND"] = "1"
	env["TFE_RUN_ID"] = a.manifest.RunID
	env["CHECKPOINT_DISABLE"] = "1"
	return env, dropped, nil
}
