package artifacts

import (
	"context"
	"fmt"
	"io"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
)

// Kind says what an object is.
type Kind string

// The kinds of objects.
const (
	KindConfiguration Kind = "configuration" // the tar.gz a configuration version was uploaded as
	KindLockFile      Kind = "lock-file"     // .terraform.lock.hcl as init produced it
	KindPlan          Kind = "plan"          // the binary plan file
	KindPlanJSON      Kind = "plan-json"
	// KindPlanJSONRedacted is what clients draw a plan from: no sensitive values, the schemas with it.
	KindPlanJSONRedacted Kind = "plan-json-redacted"
	KindCostEstimate     Kind = "cost-estimate" // what a runner's cost command printed
	KindState            Kind = "state"         // byte for byte what the client sent
	KindStateJSON        Kind = "state-json"
	KindLog              Kind = "log"
	KindEmergencyState   Kind = "emergency-state" // an errored.tfstate, byte for byte
	KindPolicyInput      Kind = "policy-input"    // the derivative of a plan that policies judged

	KindModule          Kind = "module"           // the tar.gz of a version in the module registry
	KindProviderPackage Kind = "provider-package" // the zip of a provider for one platform
)

func (k Kind) known() bool {
	switch k {
	case KindConfiguration, KindLockFile, KindPlan, KindPlanJSON, KindPlanJSONRedacted, KindCostEstimate, KindState, KindStateJSON, KindLog, KindEmergencyState, KindPolicyInput, KindModule, KindProviderPackage:
		return true
	}
	return false
}

// ofState tells whether a serial and a lineage belong to the kind.
func (k Kind) ofState() bool { return k == KindState || k == KindStateJSON }

// ofOrganization tells whether objects of the kind are in no workspace.
func (k Kind) ofOrganization() bool { return k == KindModule || k == KindProviderPackage }

// Spec is what an object belongs to; all of it is sealed into the object.
// Organization and Kind are required, and so is Workspace, except for KindModule and
// KindProviderPackage, which belong to none. Serial and Lineage count only for
// KindState and KindStateJSON. Epoch is that of the writer's fence, or 0.
type Spec struct {
	Organization ids.Organization
	Workspace    ids.Workspace
	Kind         Kind
	Run          ids.Run
	Serial       int64
	Lineage      string
	Epoch        int64
}

// normalized drops what does not belong to the kind, so that a zero Serial of a
// plan does not read as "serial 0".
func (s Spec) normalized() (Spec, error) {
	if s.Organization == "" || !s.Kind.known() || (s.Workspace == "") != s.Kind.ofOrganization() {
		return Spec{}, fmt.Errorf("an object needs an organization, a known kind and, if that is of workspaces, a workspace, not %q, %q, %q", s.Organization, s.Kind, s.Workspace)
	}
	if !s.Kind.ofState() {
		s.Serial, s.Lineage = envelope.NoSerial, ""
	}
	return s, nil
}

func (s Spec) context(id ids.Object) envelope.Context {
	return envelope.Context{
		Kind: string(s.Kind), Object: id, Organization: s.Organization, Workspace: s.Workspace,
		Serial: s.Serial, Lineage: s.Lineage, Run: s.Run, Epoch: s.Epoch,
	}
}

// noWorkspace stands in keys for the workspace of what is in none; no id of one reads like it.
const noWorkspace = "registry"

// bodyKey is where the object lies in the store.
func (s Spec) bodyKey(id ids.Object) string {
	place := string(s.Workspace)
	if place == "" {
		place = noWorkspace
	}
	return fmt.Sprintf("%s/%s/%s/%s", s.Organization, place, s.Kind, id)
}

// sidecarKey is where the object's wrapped DEK lies in the store.
func (s Spec) sidecarKey(id ids.Object, keyVersion int) string {
	return fmt.Sprintf("%s.dek.%d", s.bodyKey(id), keyVersion)
}

// Object is a stored object: its size in bytes and the hexadecimal digests of the
// plain bytes.
type Object struct {
	ID     ids.Object
	Kind   Kind
	Size   int64
	SHA256 string
	MD5    string
}

// ObjectStore keeps immutable bytes under keys. Callers use a fresh key for each
// try: a Put that failed may or may not have stored the object. Get after a
// successful Put sees all of it. storetest.Contract is its suite.
type ObjectStore interface {
	// Put stores what body gives. An error of body is returned as it is, and the key
	// then holds nothing that Get would give. A store that cannot be reached or
	// refuses is fault.Unavailable.
	Put(ctx context.Context, key string, body io.Reader) error
	// Get opens an object. No such key is fault.NotFound; a store that cannot be
	// reached is fault.Unavailable, from Get or from a later Read.
	Get(ctx context.Context, key string) (io.ReadCloser, error)
	// Delete removes an object; one that is not there is removed already. A store that
	// cannot be reached or refuses is fault.Unavailable.
	Delete(ctx context.Context, key string) error
	// Ping checks that objects could be stored and read now.
	Ping(ctx context.Context) error
}
