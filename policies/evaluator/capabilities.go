package evaluator

import (
	"slices"

	"github.com/open-policy-agent/opa/v1/ast"
)

// outOfReach are the built-in functions of Rego that policies here do not have, beside those
// that OPA itself calls nondeterministic. Each would make a result depend on something else
// than the input: the network, the clock, the process, or modules that come in at run time.
var outOfReach = []string{
	"http.send", "net.lookup_ip_addr", "opa.runtime", "rand.intn", "time.now_ns", "uuid.rfc4122", "rego.parse_module", "trace",
	"io.jwt.decode_verify", "crypto.x509.parse_and_verify_certificates", "crypto.x509.parse_and_verify_certificates_with_options", // compare with the clock
}

// capabilities are the fixed abilities of every policy, at publication as at evaluation (PO-10).
func capabilities() *ast.Capabilities {
	all := ast.CapabilitiesForThisVersion()
	all.Builtins = slices.DeleteFunc(all.Builtins, func(b *ast.Builtin) bool {
		return b.IsNondeterministic() || slices.Contains(outOfReach, b.Name)
	})
	all.AllowNet = []string{} // no host; nil would be every host
	return all
}
