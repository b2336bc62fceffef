package tfeapi

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/state"
)

// recoveryView is what an operator decides on: everything that is known about a run that
// holds its workspace. No member leads to bytes but by the addresses that ask for a right.
type recoveryView struct {
	ID                     string              `jsonapi:"primary,run-recoveries"`
	OrganizationName       string              `jsonapi:"attr,organization-name"`
	WorkspaceName          string              `jsonapi:"attr,workspace-name"`
	Required               bool                `jsonapi:"attr,required"`
	Proven                 bool                `jsonapi:"attr,proven"` // the ordinary failure: nothing is in doubt
	Doubt                  *doubt              `jsonapi:"attr,doubt"`
	AuthorityLost          bool                `jsonapi:"attr,authority-lost"`
	DurableStatus          string              `jsonapi:"attr,durable-status"`
	DurableReason          string              `jsonapi:"attr,durable-reason"`
	StatusMessage          string              `jsonapi:"attr,status-message"`
	HeldSince              *string             `jsonapi:"attr,held-since"`
	FenceEpoch             int64               `jsonapi:"attr,fence-epoch"`
	PreApplyStateVersionID *string             `jsonapi:"attr,pre-apply-state-version-id"`
	CurrentStateVersionID  *string             `jsonapi:"attr,current-state-version-id"`
	PointerMoved           bool                `jsonapi:"attr,pointer-moved"`
	PreApplyState          *stateEvidence      `jsonapi:"attr,pre-apply-state"`
	CurrentState           *stateEvidence      `jsonapi:"attr,current-state"`
	Publications           []stateEvidence     `jsonapi:"attr,publications"`
	ClaimedUpload          *uploadEvidence     `jsonapi:"attr,claimed-upload"` // the first of them
	ClaimedUploads         []uploadEvidence    `jsonapi:"attr,claimed-uploads"`
	UnclaimedUploads       []uploadEvidence    `jsonapi:"attr,unclaimed-uploads"`
	EmergencyState         *emergencyEvidence  `jsonapi:"attr,emergency-state"` // the last of them
	EmergencyStates        []emergencyEvidence `jsonapi:"attr,emergency-states"`
	Writer                 writerEvidence      `jsonapi:"attr,writer"`
	LogTail                string              `jsonapi:"attr,log-tail"`
	Resolutions            []resolutionAnswer  `jsonapi:"attr,resolutions"`
	Operation              *operationEvidence  `jsonapi:"attr,operation"`
	LeaseExpiresAt         *string             `jsonapi:"attr,lease-expires-at"`
	LeaseRemainingSeconds  *int                `jsonapi:"attr,lease-remaining-seconds"`
	RecoveredAt            *string             `jsonapi:"attr,recovered-at"`
	related                relations
}

func (v *recoveryView) relations() relations { return v.related }

// doubt is the first thing that a person has to look at.
type doubt struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}

func newDoubt(refused *fault.Error) *doubt {
	if refused == nil {
		return nil
	}
	return &doubt{Code: refused.Code, Detail: refused.Message}
}

type stateEvidence struct {
	ID            string  `json:"id"`
	Serial        int64   `json:"serial"`
	Lineage       string  `json:"lineage"`
	Checksum      string  `json:"checksum"` // SHA-256, hex
	Size          int64   `json:"size"`
	ResourceCount int     `json:"resource-count"`
	Encrypted     bool    `json:"client-encrypted"`
	PredecessorID *string `json:"predecessor-id"`
	RunID         *string `json:"run-id"`
	AttemptID     *string `json:"attempt-id"`
	SandboxID     *string `json:"sandbox-id"`
	LockedByKind  string  `json:"locked-by-kind"`
	LockedByID    string  `json:"locked-by-id"`
	FenceEpoch    int64   `json:"fence-epoch"`
	CreatedAt     string  `json:"created-at"`
	FinalizedAt   *string `json:"finalized-at"`
}

type uploadEvidence struct {
	ID        string  `json:"id"`
	Serial    int64   `json:"serial"`
	ClaimedAt *string `json:"claimed-at"`
	ExpiresAt string  `json:"expires-at"`
}

type emergencyEvidence struct {
	ID               string `json:"id"`
	AttemptID        string `json:"attempt-id"`
	Digest           string `json:"digest"` // SHA-256, hex, of the bytes as tofu wrote them
	Size             int64  `json:"size"`
	Serial           *int64 `json:"serial"`
	Lineage          string `json:"lineage"`
	Encrypted        bool   `json:"client-encrypted"`
	ResourceCount    int    `json:"resource-count"`
	NormalizedSerial *int64 `json:"normalized-serial"`
	NormalizedDigest string `json:"normalized-digest"`
	NormalizedSize   int64  `json:"normalized-size"`
	Obstacle         string `json:"obstacle"`
	Late             bool   `json:"late"`
	ReceivedAt       string `json:"received-at"`
}

type writerEvidence struct {
	Proven          bool    `json:"proven-stopped"`
	How             string  `json:"how"`
	ReportedAt      *string `json:"reported-at"`
	SessionEndsAt   *string `json:"session-authority-ends-at"`
	EmergencyEndsAt *string `json:"emergency-capability-ends-at"`
	// CloudEndsAt is null: credentials of providers come from variables, and only who gave
	// them knows how long they are good.
	CloudEndsAt *string `json:"cloud-credentials-end-at"`
}

// resolutionAnswer says of one resolution whether the evidence allows it now.
type resolutionAnswer struct {
	Resolution string `json:"resolution"`
	Possible   bool   `json:"possible"`
	Code       string `json:"code"`
	Detail     string `json:"detail"`
}

type operationEvidence struct {
	ID                    string              `json:"id"`
	Status                string              `json:"status"`
	Resolution            string              `json:"resolution"`
	Reason                string              `json:"reason"`
	PrincipalID           string              `json:"principal-id"`
	CurrentStateVersionID *string             `json:"current-state-version-id"` // this, and what follows, when it was prepared
	CurrentStateChecksum  string              `json:"current-state-checksum"`
	EmergencyStateDigest  *string             `json:"emergency-state-digest"`
	EmergencyStateSize    int64               `json:"emergency-state-size"`
	WriterProvenStopped   bool                `json:"writer-proven-stopped"`
	SupersededUploads     []recovery.Override `json:"superseded-uploads"`
	TargetStateVersionID  *string             `json:"target-state-version-id"`
	TargetChecksum        string              `json:"target-checksum"`
	Takeovers             []recovery.TakeOver `json:"takeovers"`
	LeaseExpiresAt        string              `json:"lease-expires-at"`
	LeaseRemainingSeconds int                 `json:"lease-remaining-seconds"`
	PreparedAt            string              `json:"prepared-at"`
	CommittedAt           *string             `json:"committed-at"`
}

// exact writes an instant so that it can be sent back and compared.
func exact(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

func exactOrNull(at *time.Time) *string {
	if at == nil {
		return nil
	}
	text := exact(*at)
	return &text
}

func newStateEvidence(v *state.Version) *stateEvidence {
	if v == nil {
		return nil
	}
	return &stateEvidence{
		ID: string(v.ID), Serial: v.Serial, Lineage: v.Lineage, Checksum: v.SHA256, Size: v.Size, ResourceCount: v.ResourceCount, Encrypted: v.ClientEncrypted,
		PredecessorID: orNull(string(v.Base)), RunID: orNull(string(v.Run)), AttemptID: orNull(string(v.Attempt)), SandboxID: orNull(v.Sandbox),
		LockedByKind: string(v.HolderKind), LockedByID: v.HolderID, FenceEpoch: v.Epoch, CreatedAt: rfc3339(v.CreatedAt), FinalizedAt: stamp(v.FinalizedAt),
	}
}

func newEmergencyEvidence(e recovery.Emergency) emergencyEvidence {
	return emergencyEvidence{
		ID: string(e.ID), AttemptID: string(e.AttemptID), Digest: e.SHA256, Size: e.Size, Serial: e.Serial, Lineage: e.Lineage, Encrypted: e.ClientEncrypted, ResourceCount: e.ResourceCount,
		NormalizedSerial: e.NormalizedSerial, NormalizedDigest: e.NormalizedSHA256, NormalizedSize: e.NormalizedSize, Obstacle: e.Obstacle, Late: e.Late, ReceivedAt: rfc3339(e.ReceivedAt),
	}
}

func newResolution(name recovery.Resolution, held bool, refused *fault.Error) resolutionAnswer {
	answer := resolutionAnswer{Resolution: string(name), Possible: held && refused == nil}
	if refused != nil {
		answer.Code, answer.Detail = refused.Code, refused.Message
	}
	return answer
}

func newOperationEvidence(op *recovery.Operation) *operationEvidence {
	if op == nil {
		return nil
	}
	takeovers := op.Takeovers
	if takeovers == nil {
		takeovers = []recovery.TakeOver{}
	}
	return &operationEvidence{
		ID: string(op.ID), Status: string(op.Status), Resolution: string(op.Resolution), Reason: op.Reason,
		CurrentStateVersionID: orNull(string(op.CurrentVersionID)), CurrentStateChecksum: op.CurrentSHA256, EmergencyStateDigest: orNull(op.EmergencySHA256),
		EmergencyStateSize: op.EmergencySize, WriterProvenStopped: op.WriterProven, SupersededUploads: op.Overrides, PrincipalID: string(op.PrincipalID), TargetStateVersionID: orNull(string(op.TargetVersionID)),
		TargetChecksum: op.TargetSHA256, Takeovers: takeovers, LeaseExpiresAt: exact(op.LeaseExpiresAt), LeaseRemainingSeconds: op.LeaseRemainingSeconds,
		PreparedAt: exact(op.PreparedAt), CommittedAt: exactOrNull(op.CommittedAt),
	}
}

func newRecoveryView(e recovery.Evidence) *recoveryView {
	r := e.Run
	v := &recoveryView{
		ID: string(r.ID), OrganizationName: r.OrganizationName, WorkspaceName: r.WorkspaceName, Required: e.Held, AuthorityLost: e.AuthorityLost, DurableStatus: string(r.DurableStatus), DurableReason: r.DurableReason, StatusMessage: r.StatusMessage, HeldSince: stamp(r.FinishedAt),
		FenceEpoch: e.Epoch, PointerMoved: e.PointerMoved(), PreApplyState: newStateEvidence(e.Before), CurrentState: newStateEvidence(e.Current),
		Publications: []stateEvidence{}, ClaimedUploads: []uploadEvidence{}, UnclaimedUploads: []uploadEvidence{}, EmergencyStates: []emergencyEvidence{},
		Writer: writerEvidence{
			Proven: e.Writer.Proven, How: e.Writer.How, ReportedAt: stamp(e.Writer.ReportedAt), SessionEndsAt: stamp(e.Writer.SessionEndsAt), EmergencyEndsAt: stamp(e.Writer.EmergencyEndsAt),
		},
		LogTail: e.LogTail, Operation: newOperationEvidence(e.Operation), RecoveredAt: stamp(r.RecoveredAt),
		Resolutions: []resolutionAnswer{newResolution(recovery.CurrentStateVerified, e.Held, e.VerifyRefused), newResolution(recovery.ImportEmergencyState, e.Held, e.ImportRefused)},
		related:     relations{"run": ref{"runs", string(r.ID)}, "workspace": ref{"workspaces", string(r.WorkspaceID)}},
	}
	if e.Held {
		v.Doubt = newDoubt(e.Doubt())
		v.Proven = v.Doubt == nil
	}
	if e.Before != nil {
		v.PreApplyStateVersionID = orNull(string(e.Before.ID))
	}
	if e.Current != nil {
		v.CurrentStateVersionID = orNull(string(e.Current.ID))
	}
	for _, p := range e.Publications {
		v.Publications = append(v.Publications, *newStateEvidence(&p))
	}
	for _, u := range e.Uploads {
		one := uploadEvidence{ID: string(u.ID), Serial: u.DeclaredSerial, ClaimedAt: exactOrNull(u.ClaimedAt), ExpiresAt: rfc3339(u.ExpiresAt)}
		if u.ClaimedAt == nil {
			v.UnclaimedUploads = append(v.UnclaimedUploads, one)
		} else {
			v.ClaimedUploads = append(v.ClaimedUploads, one)
		}
	}
	if len(v.ClaimedUploads) > 0 {
		v.ClaimedUpload = &v.ClaimedUploads[0]
	}
	for _, one := range e.Emergency {
		v.EmergencyStates = append(v.EmergencyStates, newEmergencyEvidence(one))
	}
	if n := len(v.EmergencyStates); n > 0 {
		v.EmergencyState = &v.EmergencyStates[n-1]
	}
	if op := e.Operation; op != nil && op.Status == recovery.Prepared {
		v.LeaseExpiresAt, v.LeaseRemainingSeconds = exactOrNull(&op.LeaseExpiresAt), &op.LeaseRemainingSeconds
	}
	return v
}

// readRecovery gives the evidence about a run that holds its workspace, or was recovered.
func (s *server) readRecovery(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	e, err := s.Recovery.Evidence(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	return ok(newRecoveryView(e)), nil
}

// downloadEmergencyState gives the bytes of an errored.tfstate as tofu wrote them.
func (s *server) downloadEmergencyState(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	body, e, err := s.Recovery.DownloadEmergency(r.ctx, r.actor, run, r.query.Get("digest"))
	if err != nil {
		return answer{}, err
	}
	r.header.Set("X-Holdfast-Sha256", e.SHA256)
	return download(body, e.Size), nil
}

type recoverAttributes struct {
	Resolution             Opt[string]    `json:"resolution"`
	Reason                 Opt[string]    `json:"reason"`
	ConfirmRevokeAuthority Opt[bool]      `json:"confirm-revoke-authority"`
	ConfirmAdvanceFence    Opt[bool]      `json:"confirm-advance-fence"`
	ConfirmWriterNotProven Opt[bool]      `json:"confirm-writer-not-proven"`
	ConfirmAuthorityLost   Opt[bool]      `json:"confirm-authority-lost"`
	AcknowledgeStateLoss   Opt[bool]      `json:"acknowledge-state-loss"`
	Override               Opt[overrides] `json:"claimed-upload-override"`
	TakeOver               Opt[bool]      `json:"takeover"`
	Abandon                Opt[string]    `json:"abandon-operation"`
	PrepareOnly            Opt[bool]      `json:"prepare-only"`
	CurrentState           Opt[string]    `json:"current-state-version-id"`
	CurrentChecksum        Opt[string]    `json:"current-state-checksum"`
	EmergencyDigest        Opt[string]    `json:"emergency-state-digest"`
	EmergencySize          Opt[int64]     `json:"emergency-state-size"`
}

// overrides is one of them, or a list.
type overrides []recovery.Override

// UnmarshalJSON takes both forms.
func (o *overrides) UnmarshalJSON(raw []byte) error {
	if bytes.HasPrefix(bytes.TrimSpace(raw), []byte("[")) {
		return json.Unmarshal(raw, (*[]recovery.Override)(o))
	}
	var one recovery.Override
	err := json.Unmarshal(raw, &one)
	*o = overrides{one}
	return err
}

func (a recoverAttributes) request() recovery.Request {
	in := recovery.Request{
		Resolution: recovery.Resolution(a.Resolution.Or("")), Reason: a.Reason.Or(""), ConfirmRevokeAuthority: a.ConfirmRevokeAuthority.Or(false),
		ConfirmAdvanceFence: a.ConfirmAdvanceFence.Or(false), ConfirmWriterNotProven: a.ConfirmWriterNotProven.Or(false), AcknowledgeStateLoss: a.AcknowledgeStateLoss.Or(false),
		ConfirmAuthorityLost: a.ConfirmAuthorityLost.Or(false), Overrides: a.Override.Value, TakeOver: a.TakeOver.Or(false), Abandon: ids.Recovery(a.Abandon.Or("")), PrepareOnly: a.PrepareOnly.Or(false),
		Evidence: recovery.Cited{CurrentChecksum: a.CurrentChecksum.Pointer(), EmergencyDigest: a.EmergencyDigest.Pointer(), EmergencySize: a.EmergencySize.Pointer()},
	}
	if a.CurrentState.Present { // null says that there is no state
		current := ids.StateVersion(a.CurrentState.Value)
		in.Evidence.CurrentState = &current
	}
	return in
}

// recoveryOperationView is a recovery as it stands.
type recoveryOperationView struct {
	ID                    string              `jsonapi:"primary,recovery-operations"`
	Status                string              `jsonapi:"attr,status"`
	Resolution            string              `jsonapi:"attr,resolution"`
	Reason                string              `jsonapi:"attr,reason"`
	FromStatus            string              `jsonapi:"attr,from-status"`
	CurrentStateVersionID *string             `jsonapi:"attr,current-state-version-id"` // when it was prepared
	CurrentStateChecksum  string              `jsonapi:"attr,current-state-checksum"`
	Publications          int                 `jsonapi:"attr,publications"`
	EmergencyStateDigest  *string             `jsonapi:"attr,emergency-state-digest"`
	EmergencyStateSize    int64               `jsonapi:"attr,emergency-state-size"`
	WriterProvenStopped   bool                `jsonapi:"attr,writer-proven-stopped"`
	SupersededUploads     []recovery.Override `jsonapi:"attr,superseded-uploads"`
	TargetStateVersionID  *string             `jsonapi:"attr,target-state-version-id"`
	TargetStateChecksum   string              `jsonapi:"attr,target-state-checksum"`
	LeaseExpiresAt        string              `jsonapi:"attr,lease-expires-at"`
	LeaseRemainingSeconds int                 `jsonapi:"attr,lease-remaining-seconds"`
	Takeovers             []recovery.TakeOver `jsonapi:"attr,takeovers"`
	FenceEpoch            *int64              `jsonapi:"attr,fence-epoch"` // of the reservation; null until it is committed
	PreparedAt            string              `jsonapi:"attr,prepared-at"`
	PrincipalID           string              `jsonapi:"attr,principal-id"` // a user's, or "policy"
	AuthorityLost         bool                `jsonapi:"attr,authority-lost"`
	CommittedAt           *string             `jsonapi:"attr,committed-at"`
	related               relations
}

func (v *recoveryOperationView) relations() relations { return v.related }

func newRecoveryOperationView(op recovery.Operation) *recoveryOperationView {
	brief := newOperationEvidence(&op)
	v := &recoveryOperationView{
		ID: brief.ID, Status: brief.Status, Resolution: brief.Resolution, Reason: op.Reason, FromStatus: string(op.FromStatus), CurrentStateVersionID: orNull(string(op.CurrentVersionID)),
		CurrentStateChecksum: op.CurrentSHA256, Publications: op.Publications, EmergencyStateDigest: orNull(op.EmergencySHA256), EmergencyStateSize: op.EmergencySize,
		WriterProvenStopped: op.WriterProven, SupersededUploads: op.Overrides, TargetStateVersionID: brief.TargetStateVersionID, TargetStateChecksum: op.TargetSHA256,
		LeaseExpiresAt: brief.LeaseExpiresAt, LeaseRemainingSeconds: brief.LeaseRemainingSeconds, Takeovers: brief.Takeovers, PreparedAt: brief.PreparedAt, CommittedAt: brief.CommittedAt,
		PrincipalID: brief.PrincipalID, AuthorityLost: op.AuthorityLost,
		related: relations{"run": ref{"runs", string(op.RunID)}, "workspace": ref{"workspaces", string(op.WorkspaceID)}, "principal": principalRef(op.PrincipalID)},
	}
	if op.Status == recovery.Committed {
		v.FenceEpoch = &op.ReservationEpoch
	}
	return v
}

// principalRef is null for what a workspace's settings did.
func principalRef(principal ids.User) any {
	if principal == recovery.PolicyPrincipal {
		return nil
	}
	return ref{"users", string(principal)}
}

// recoverRun ends the recovery of a run, or prepares it.
func (s *server) recoverRun(r *request) (answer, error) {
	run, a, err := actionInput[recoverAttributes](r)
	if err != nil {
		return answer{}, err
	}
	op, err := s.Recovery.Recover(r.ctx, r.actor, run, a.request())
	if err != nil {
		return answer{}, err
	}
	return ok(newRecoveryOperationView(op)), nil
}
