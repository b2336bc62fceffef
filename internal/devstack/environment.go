//go:build unix

package devstack

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
)

// mark is the variable by which a later supervisor knows the services of this folder.
const mark = "HOLDFAST_DEV_DIR"

const (
	bucket   = "holdfast"
	region   = "us-east-1"
	database = "holdfast"
)

// facts are what the environments of services and command are made from.
type facts struct {
	layout        layout
	address       address
	databaseURL   string
	s3            keyPair
	s3Endpoint    string
	metricsListen string
	credentials   Credentials
	binDir        string // the folder of the holdfast binary
	tofu          string
	mirror        string // a provider mirror, or empty
	network       string // the address of a network mirror, with a slash at its end, or empty
}

// storage is the part that opens database, store and key ring.
func (f facts) storage() map[string]string {
	return map[string]string{
		"HOLDFAST_DATABASE_URL":         f.databaseURL,
		"HOLDFAST_S3_ENDPOINT":          f.s3Endpoint,
		"HOLDFAST_S3_BUCKET":            bucket,
		"HOLDFAST_S3_REGION":            region,
		"HOLDFAST_S3_ACCESS_KEY_ID":     f.s3.id,
		"HOLDFAST_S3_SECRET_ACCESS_KEY": f.s3.secret,
		"HOLDFAST_KEYRING":              f.layout.keyring(),
	}
}

// server is what `holdfast server` and the bootstrap read.
func (f facts) server() map[string]string {
	env := f.storage()
	env["HOLDFAST_LISTEN"] = f.address.listen()
	env["HOLDFAST_ADDRESS"] = f.address.url()
	env["HOLDFAST_METRICS_LISTEN"] = f.metricsListen
	env["HOLDFAST_DRAIN_TIMEOUT"] = (serverGrace - 2*time.Second).String() // it ends before it is killed
	env["HOLDFAST_TLS_CERT"] = f.layout.tls("server.pem")
	env["HOLDFAST_TLS_KEY"] = f.layout.tls("server-key.pem")
	return env
}

func (f facts) runner() map[string]string {
	env := map[string]string{
		"HOLDFAST_ADDRESS":               f.address.url(),
		"HOLDFAST_RUNNER_TOKEN_FILE":     f.layout.runnerToken(),
		"HOLDFAST_RUNNER_DIR":            f.layout.runner(),
		"HOLDFAST_TOFU":                  f.tofu,
		"HOLDFAST_RUNNER_ALLOW_METADATA": "true", // who develops runs his own configurations, on a machine of his own
		"SSL_CERT_FILE":                  f.layout.tls("bundle.pem"),
	}
	if f.mirror != "" {
		env["HOLDFAST_PROVIDER_MIRROR"] = f.mirror
	}
	if f.network != "" {
		env["HOLDFAST_NETWORK_MIRROR"] = f.network
	}
	return env
}

// command is what the user's command sees besides the caller's environment, PATH apart.
func (f facts) command() map[string]string {
	env := f.storage()
	env["HOLDFAST_DATA"] = f.layout.dir
	env["HOLDFAST_ADMIN_TOTP_FILE"] = f.layout.adminTOTP()
	env["HOLDFAST_PASSWORD_FILE"] = f.layout.adminPassword()
	env["HOLDFAST_METRICS_ADDRESS"] = "http://" + f.metricsListen + "/metrics"
	env["TFE_ADDRESS"] = f.address.url()
	env["TFE_HOSTNAME"] = f.address.hostPort()
	env["TFE_TOKEN"] = f.credentials.UserToken
	env["TF_CLOUD_HOSTNAME"] = f.address.hostPort()
	env["TF_CLOUD_ORGANIZATION"] = "demo"
	env["TF_CLI_CONFIG_FILE"] = f.layout.cliConfig()
	env["SSL_CERT_FILE"] = f.layout.tls("bundle.pem")
	env["CURL_CA_BUNDLE"] = f.layout.tls("bundle.pem") // curl looks here first, and some machines set it
	return env
}

// inherited picks what a service gets from the caller: what finds programs, homes, proxies
// and certificates, and Holdfast's own variables that wanted lets through.
func inherited(environ []string, wanted func(name string) bool) map[string]string {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		switch strings.ToUpper(name) {
		case "PATH", "HOME", "TMPDIR", "LANG", "TZ", "XDG_CACHE_HOME", "SSL_CERT_DIR", "GOCOVERDIR", "GORACE",
			"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY":
			env[name] = value
		default:
			if strings.HasPrefix(name, "HOLDFAST_") && wanted(name) {
				env[name] = value
			}
		}
	}
	return env
}

func forServer(name string) bool { return !strings.HasPrefix(name, "HOLDFAST_RUNNER_") }

// forRunner lets through what tunes a runner: it must never learn of database, store or keys.
func forRunner(name string) bool {
	return strings.HasPrefix(name, "HOLDFAST_RUNNER_") || strings.HasPrefix(name, "HOLDFAST_LOG") || name == "HOLDFAST_FAILPOINT"
}

// serviceEnviron is the environment of a service: inherited variables, overruled by its own.
func serviceEnviron(l layout, inherited, own map[string]string) []string {
	maps.Copy(inherited, own)
	inherited[mark] = l.dir
	return entries(inherited)
}

// commandEnviron is the caller's environment, overruled by the command's variables, with
// the folder of the binaries first on PATH.
func commandEnviron(environ []string, f facts) []string {
	env := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	maps.Copy(env, f.command())
	env["PATH"] = f.binDir
	for _, entry := range environ {
		if path, ok := strings.CutPrefix(entry, "PATH="); ok && path != "" {
			env["PATH"] = f.binDir + string(os.PathListSeparator) + path
		}
	}
	return entries(env)
}

func entries(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// envFile is the command's environment for a shell: `. DIR/env`.
func envFile(f facts) string {
	var text strings.Builder
	env := f.command()
	for _, name := range slices.Sorted(maps.Keys(env)) {
		fmt.Fprintf(&text, "export %s=%s\n", name, shellQuote(env[name]))
	}
	// The shell's own PATH goes on behind: it may differ from that of the supervisor.
	fmt.Fprintf(&text, "export PATH=%s\"${PATH:+:$PATH}\"\n", shellQuote(f.binDir))
	return text.String()
}

// shellQuote makes one word of s for any POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// cliConfig is the client's configuration file: the token, and where providers come from.
// Those that the folder holds come from there alone, those of the server's own registry from it,
// all others from the network mirror where there is one, else from their registries.
func cliConfig(f facts) string {
	var text strings.Builder
	fmt.Fprintf(&text, "credentials %s {\n  token = %s\n}\n", hclQuote(f.address.hostPort()), hclQuote(f.credentials.UserToken))
	if f.mirror == "" && f.network == "" {
		return text.String()
	}
	var mirrored []string
	text.WriteString("provider_installation {\n")
	if f.mirror != "" {
		for _, provider := range mirroredProviders(f.mirror) {
			mirrored = append(mirrored, hclQuote(provider))
		}
		fmt.Fprintf(&text, "  filesystem_mirror {\n    path    = %s\n    include = [%s]\n  }\n", hclQuote(f.mirror), strings.Join(mirrored, ", "))
	}
	rest := "direct {\n"
	if f.network != "" {
		ours := hclQuote(f.address.hostPort() + "/*/*")
		fmt.Fprintf(&text, "  direct {\n    include = [%s]\n    exclude = [%s]\n  }\n", ours, strings.Join(mirrored, ", "))
		rest, mirrored = fmt.Sprintf("network_mirror {\n    url     = %s\n", hclQuote(f.network)), append(mirrored, ours)
	}
	fmt.Fprintf(&text, "  %s    exclude = [%s]\n  }\n}\n", rest, strings.Join(mirrored, ", "))
	return text.String()
}

// networkMirror checks an address and gives it the form that tofu wants.
func networkMirror(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	address, err := url.Parse(text)
	if err != nil || address.Scheme != "https" || address.Hostname() == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return "", fault.New(fault.Invalid, "network_mirror", "The network mirror must be an https address such as https://mirror.example.com/providers/, without a user and without ? and #.")
	}
	return strings.TrimSuffix(address.String(), "/") + "/", nil
}

// mirroredProviders lists HOST/NAMESPACE/NAME of each provider in a mirror folder.
func mirroredProviders(mirror string) []string {
	found, _ := filepath.Glob(filepath.Join(mirror, "*", "*", "*")) // fails only for a malformed pattern
	var providers []string
	for _, path := range found {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			name, err := filepath.Rel(mirror, path)
			if err == nil {
				providers = append(providers, filepath.ToSlash(name))
			}
		}
	}
	return providers
}

// hclQuote makes a literal string of s: no template in it is evaluated.
func hclQuote(s string) string {
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(strconv.Quote(s))
}
