package operator

// What the commands read of the API's documents; docs/recovery.md tells what they mean.

type version struct {
	ID            string `json:"id"`
	Serial        int64  `json:"serial"`
	Lineage       string `json:"lineage"`
	Checksum      string `json:"checksum"`
	Size          int64  `json:"size"`
	ResourceCount int    `json:"resource-count"`
	Encrypted     bool   `json:"client-encrypted"`
	FinalizedAt   string `json:"finalized-at"`
}

type upload struct {
	ID        string  `json:"id"`
	Serial    int64   `json:"serial"`
	ClaimedAt *string `json:"claimed-at"`
	ExpiresAt string  `json:"expires-at"`
}

type emergency struct {
	ID            string `json:"id"`
	Digest        string `json:"digest"`
	Size          int64  `json:"size"`
	Serial        *int64 `json:"serial"`
	ResourceCount int    `json:"resource-count"`
	Obstacle      string `json:"obstacle"`
	ReceivedAt    string `json:"received-at"`
}

type writer struct {
	Proven        bool   `json:"proven-stopped"`
	How           string `json:"how"`
	ReportedAt    string `json:"reported-at"`
	SessionEndsAt string `json:"session-authority-ends-at"`
}

type answerTo struct {
	Resolution string `json:"resolution"`
	Possible   bool   `json:"possible"`
	Code       string `json:"code"`
	Detail     string `json:"detail"`
}

type doubt struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

type override struct {
	Upload    string `json:"state-upload-id"`
	ClaimedAt string `json:"claimed-at"`
}

type operation struct {
	ID                    string     `json:"id"`
	Status                string     `json:"status"`
	Resolution            string     `json:"resolution"`
	Reason                string     `json:"reason"`
	PrincipalID           string     `json:"principal-id"`
	CurrentID             *string    `json:"current-state-version-id"`
	CurrentChecksum       string     `json:"current-state-checksum"`
	EmergencyDigest       *string    `json:"emergency-state-digest"`
	EmergencySize         int64      `json:"emergency-state-size"`
	WriterProven          bool       `json:"writer-proven-stopped"`
	SupersededUploads     []override `json:"superseded-uploads"`
	TargetID              *string    `json:"target-state-version-id"`
	LeaseExpiresAt        string     `json:"lease-expires-at"`
	LeaseRemainingSeconds int        `json:"lease-remaining-seconds"`
	CommittedAt           *string    `json:"committed-at"`
}

// evidence is what is known about a run that holds its workspace.
type evidence struct {
	run              string
	raw              resource
	OrganizationName string      `json:"organization-name"`
	WorkspaceName    string      `json:"workspace-name"`
	Required         bool        `json:"required"`
	Proven           bool        `json:"proven"`
	Doubt            *doubt      `json:"doubt"`
	AuthorityLost    bool        `json:"authority-lost"`
	DurableStatus    string      `json:"durable-status"`
	DurableReason    string      `json:"durable-reason"`
	StatusMessage    string      `json:"status-message"`
	HeldSince        string      `json:"held-since"`
	FenceEpoch       int64       `json:"fence-epoch"`
	PointerMoved     bool        `json:"pointer-moved"`
	PreApplyState    *version    `json:"pre-apply-state"`
	CurrentState     *version    `json:"current-state"`
	Publications     []version   `json:"publications"`
	ClaimedUploads   []upload    `json:"claimed-uploads"`
	UnclaimedUploads []upload    `json:"unclaimed-uploads"`
	EmergencyStates  []emergency `json:"emergency-states"`
	Writer           writer      `json:"writer"`
	LogTail          string      `json:"log-tail"`
	Resolutions      []answerTo  `json:"resolutions"`
	Operation        *operation  `json:"operation"`
	RecoveredAt      *string     `json:"recovered-at"`
}

// prepared is the recovery that somebody has begun, or nil.
func (e evidence) prepared() *operation {
	if e.Operation != nil && e.Operation.Status == "prepared" {
		return e.Operation
	}
	return nil
}

func (e evidence) answer(resolution string) answerTo {
	for _, a := range e.Resolutions {
		if a.Resolution == resolution {
			return a
		}
	}
	return answerTo{Resolution: resolution, Code: "invalid_resolution", Detail: "The server does not know this resolution."}
}

// held is a line of the list of workspaces that wait for a recovery.
type held struct {
	Name             string  `json:"name"`
	OrganizationName string  `json:"organization-name"`
	RunID            string  `json:"run-id"`
	HeldSince        string  `json:"held-since"`
	DurableStatus    *string `json:"durable-status"`
	DurableReason    string  `json:"durable-reason"`
	WaitingRuns      int     `json:"waiting-runs"`
	Proven           *bool   `json:"proven"`
	Doubt            *doubt  `json:"doubt"`
	Permissions      struct {
		CanRecover bool `json:"can-recover"`
	} `json:"permissions"`
}

// request is what a recovery is asked for with. A member that is absent is not sent.
type request struct {
	Resolution             string     `json:"resolution"`
	Reason                 string     `json:"reason"`
	ConfirmRevokeAuthority bool       `json:"confirm-revoke-authority"`
	ConfirmAdvanceFence    bool       `json:"confirm-advance-fence"`
	ConfirmWriterNotProven bool       `json:"confirm-writer-not-proven,omitempty"`
	ConfirmAuthorityLost   bool       `json:"confirm-authority-lost,omitempty"`
	AcknowledgeStateLoss   bool       `json:"acknowledge-state-loss,omitempty"`
	Overrides              []override `json:"claimed-upload-override,omitempty"`
	CurrentID              *string    `json:"current-state-version-id"` // null: there is no state
	CurrentChecksum        string     `json:"current-state-checksum"`
	EmergencyDigest        *string    `json:"emergency-state-digest,omitempty"`
	EmergencySize          *int64     `json:"emergency-state-size,omitempty"`
	TakeOver               bool       `json:"takeover,omitempty"`
	Abandon                string     `json:"abandon-operation,omitempty"`
	PrepareOnly            bool       `json:"prepare-only,omitempty"`
}

// recovered is what came of one.
type recovered struct {
	id             string
	raw            resource
	Status         string  `json:"status"`
	Resolution     string  `json:"resolution"`
	TargetID       *string `json:"target-state-version-id"`
	TargetChecksum string  `json:"target-state-checksum"`
	LeaseExpiresAt string  `json:"lease-expires-at"`
	FenceEpoch     *int64  `json:"fence-epoch"`
}
