package runner

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// providerSources say where tofu installs providers from. Without any it asks their
// registries.
type providerSources struct {
	folder  string // a filesystem mirror, or ""
	network string // the address of a network mirror, or ""
	cache   string // of one attempt: a filesystem mirror of what the runner's cache has of its providers
	cached  []string
}

// newProviderSources checks what the configuration says and brings it into the form
// that tofu wants.
func newProviderSources(folder, network string) (s providerSources, err error) {
	if strings.Contains(folder, "${") {
		return s, fault.New(fault.Invalid, "bad_mirror", "The provider mirror's path must not contain \"${\": tofu would take it for an expression.")
	}
	if s.folder, err = absolute(folder); err != nil || network == "" {
		return s, err
	}
	address, err := url.Parse(network)
	if err != nil || address.Scheme != "https" || address.Hostname() == "" || address.User != nil || address.RawQuery != "" || address.Fragment != "" {
		return s, fault.New(fault.Invalid, "bad_network_mirror", "The network mirror must be an https address such as https://mirror.example.com/providers/, without a user and without ? and #.")
	}
	s.network = strings.TrimSuffix(address.String(), "/") + "/" // tofu refuses it without the slash
	return s, nil
}

// installation is the part of tofu's CLI configuration that names the sources; empty
// for the registries. What the folder has comes from there alone: tofu would ask the
// next source for more versions, and fail where that cannot be reached. A network
// mirror stands for all registries but that of the server at host, which runs can reach.
func (s providerSources) installation(host string) (string, error) {
	if s.folder == "" && s.network == "" && len(s.cached) == 0 {
		return "", nil
	}
	names, err := providersIn(s.folder)
	if err != nil {
		return "", err
	}
	names = append(names, s.cached...)
	for i, name := range names {
		names[i] = cliString(name)
	}
	var b strings.Builder
	b.WriteString("\nprovider_installation {\n")
	if here := names[len(names)-len(s.cached):]; len(here) > 0 {
		fmt.Fprintf(&b, "  filesystem_mirror {\n    path    = %s\n    include = [%s]\n  }\n", cliString(s.cache), strings.Join(here, ", "))
	}
	if s.folder != "" {
		fmt.Fprintf(&b, "  filesystem_mirror {\n    path = %s\n  }\n", cliString(s.folder))
	}
	rest := "direct {\n"
	if s.network != "" {
		ours := cliString(host + "/*/*")
		fmt.Fprintf(&b, "  direct {\n    include = [%s]\n    exclude = [%s]\n  }\n", ours, strings.Join(names, ", "))
		rest, names = fmt.Sprintf("network_mirror {\n    url     = %s\n", cliString(s.network)), append(names, ours)
	}
	fmt.Fprintf(&b, "  %s    exclude = [%s]\n  }\n}\n", rest, strings.Join(names, ", "))
	return b.String(), nil
}

// providersIn gives the names of the providers in a filesystem mirror.
func providersIn(folder string) (names []string, err error) {
	if folder == "" {
		return nil, nil
	}
	has, err := filepath.Glob(filepath.Join(globQuoter.Replace(folder), "*", "*", "*")) // HOST/NAMESPACE/TYPE
	if err != nil {
		return nil, err
	}
	for _, dir := range has {
		name, err := filepath.Rel(folder, dir)
		if err != nil {
			return nil, err
		}
		names = append(names, filepath.ToSlash(name))
	}
	return names, nil
}

var globQuoter = strings.NewReplacer("*", "\\*", "?", "\\?", "[", "\\[", "\\", "\\\\")
