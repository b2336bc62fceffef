package recovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// Resolution is what the state of a recovered workspace is.
type Resolution string

// The resolutions (RC-15, RC-24).
const (
	CurrentStateVerified Resolution = "current_state_verified"
	ImportEmergencyState Resolution = "import_emergency_state"
)

// Request asks for a recovery. The same request again is the same recovery (RC-38).
type Request struct {
	Resolution Resolution
	Reason     string // of the operator; 1 to 2,000 characters

	ConfirmRevokeAuthority bool // what the apply may still do ends (RC-14)
	ConfirmAdvanceFence    bool
	ConfirmWriterNotProven bool // asked for where nothing proves that the writer has stopped
	// ConfirmAuthorityLost is asked for where the database has lost the run: that the state is
	// right is then only the operator's word.
	ConfirmAuthorityLost bool `json:",omitempty"`
	AcknowledgeStateLoss bool // asked for with Overrides (RC-34)
	Overrides            []Override
	Evidence             Cited
	// TakeOver says that the lease of somebody else, which has run out, is to be taken over
	// (RC-45); Evidence must be whole then.
	TakeOver bool
	// Abandon names a prepared recovery that is given up for this other one.
	Abandon ids.Recovery
	// PrepareOnly stops when everything is prepared and verified: the same request without
	// it commits.
	PrepareOnly bool
}

// Override gives up a claimed upload whose bytes nobody has (RC-33).
type Override struct {
	Upload    ids.StateVersion `json:"state-upload-id"`
	ClaimedAt time.Time        `json:"claimed-at"`
}

// Cited is the evidence that the operator looked at. What is nil was not cited; what is
// cited must be so (RC-47). An empty CurrentState means: there is no state.
type Cited struct {
	CurrentState    *ids.StateVersion
	CurrentChecksum *string // SHA-256, hex
	EmergencyDigest *string // SHA-256, hex, of the original or of the normalized
	EmergencySize   *int64
}

// digest names everything that makes two requests the same.
func (r Request) digest() string {
	r.TakeOver, r.Abandon, r.PrepareOnly = false, "", false
	encoded, err := json.Marshal(r)
	if err != nil {
		panic(err) // texts, numbers and times
	}
	sum := sha256.Sum256(encoded)
	return hex.EncodeToString(sum[:])
}

const longestReason = 2000

// check refuses what no evidence could make right (RC-13…RC-15, RC-34).
func (r Request) check() error {
	at := func(name string) string { return "/data/attributes/" + name }
	switch {
	case r.Resolution != CurrentStateVerified && r.Resolution != ImportEmergencyState:
		return fault.New(fault.Invalid, "invalid_resolution", "The resolution must be %s or %s.", CurrentStateVerified, ImportEmergencyState).At(at("resolution"))
	case strings.TrimSpace(r.Reason) == "" || len([]rune(r.Reason)) > longestReason:
		return fault.New(fault.Invalid, "reason_required", "Say in 1 to 2,000 characters why the state can be trusted; it is kept in the audit log.").At(at("reason"))
	case !r.ConfirmRevokeAuthority:
		return confirm("confirm-revoke-authority", "the authority of the interrupted apply may be revoked")
	case !r.ConfirmAdvanceFence:
		return confirm("confirm-advance-fence", "the fence of the workspace may be advanced, after which nothing that the apply began can be published")
	case len(r.Overrides) > 0 && !r.AcknowledgeStateLoss:
		return confirm("acknowledge-state-loss", "state that was on its way in the upload that is given up can be lost")
	}
	return nil
}

func confirm(name, what string) error {
	return fault.New(fault.Invalid, "confirmation_required", "Confirm with %s: true that %s.", name, what).At("/data/attributes/" + name)
}
