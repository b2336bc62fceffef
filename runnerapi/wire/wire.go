package wire

import "time"

// Versions of the protocol. A runner names at each poll the range that it speaks, a
// server speaks its own and the one before, and the newest that both know is used.
//
// Version 2 added labels, the name of the chosen version in the answer, and the wish
// that a runner ends (HeaderDrain).
const (
	Version       = 2
	OldestVersion = Version - 1
)

// Paths, relative to the server's address. {id} is a runner or an attempt.
const (
	PathPoll              = "/runner/v1/poll"                             // POST, group token: Poll → Assignment or 204
	PathReady             = "/runner/v1/runners/{id}/ready"               // POST, group token → 204
	PathDeregister        = "/runner/v1/runners/{id}"                     // DELETE, group token → 204
	PathAccept            = "/runner/v1/attempts/{id}/accept"             // POST, group token: Accept → Session
	PathBootstrap         = "/runner/v1/attempts/{id}/bootstrap"          // POST, bootstrap capability: Bootstrap → Session; once, the exact repeat is answered alike
	PathStatus            = "/runner/v1/attempts/{id}/status"             // GET, attempt token → Status; refreshes liveness
	PathInput             = "/runner/v1/attempts/{id}/inputs/{kind}"      // GET, attempt token → bytes
	PathArtifact          = "/runner/v1/attempts/{id}/artifacts/{kind}"   // PUT, attempt token: bytes → 204; at most once a kind
	PathLogs              = "/runner/v1/attempts/{id}/logs"               // POST, attempt token: bytes at HeaderOffset → LogPosition
	PathApplyStart        = "/runner/v1/attempts/{id}/apply-start"        // POST, attempt token: ApplyStart → ApplyStarted
	PathStateConfirmation = "/runner/v1/attempts/{id}/state-confirmation" // POST, attempt token: StateConfirmation → StateConfirmed
	PathEmergencyState    = "/runner/v1/attempts/{id}/emergency-state"    // PUT, emergency capability: an errored.tfstate → EmergencyKept
	PathDone              = "/runner/v1/attempts/{id}/done"               // POST, attempt token: Done → 204
)

// Headers of log and artifact bodies, and of a poll's 204.
const (
	HeaderRunner    = "Holdfast-Runner"     // the runner's id, for its next poll
	HeaderVersion   = "Holdfast-Protocol"   // the chosen version, from version 2 on
	HeaderDrain     = "Holdfast-Drain"      // "true": the runner shall poll no more, deregister and end, from version 2 on
	HeaderOffset    = "Holdfast-Log-Offset" // byte position of the chunk's first byte
	HeaderLogStream = "Holdfast-Log-Stream" // which log of the attempt the chunk belongs to; absent is StreamHuman
	HeaderSHA256    = "Holdfast-Sha256"     // hex digest of the body, checked by the server
)

// CodeVersion is the code of the Problem that refuses a poll because server and runner
// speak no common version. Its detail tells which of the two to replace.
const CodeVersion = "protocol_version_unsupported"

// CodeLogIncomplete is the code of the Problem that refuses a Done whose log sizes are
// not what the server has. An empty piece of the log tells what it has.
const CodeLogIncomplete = "log_incomplete"

// Logs of an attempt. Both tell of the same execution.
const (
	StreamHuman = "human" // what tofu prints for people
	StreamJSON  = "json"  // what tofu writes with -json-into: an event a line, between lines of plain text; see Accept.JSONLog
)

// Kinds of inputs (GET) and artifacts (PUT).
const (
	KindConfiguration = "configuration" // input: the tar.gz as the client uploaded it
	KindVariables     = "variables"     // input: JSON, see Variables
	KindLockFile      = "lock-file"     // artifact of plan, input of apply: .terraform.lock.hcl
	KindPlan          = "plan"          // artifact of plan, input of apply: the plan file
	KindPlanJSON      = "plan-json"     // artifact of plan: `tofu show -json` of the plan file
	// KindPlanJSONRedacted is an artifact of plan: what a client needs to draw the plan, that is the
	// changes of the JSON plan without sensitive values, and the schemas of the types in it.
	KindPlanJSONRedacted = "plan-json-redacted"
	// KindCostEstimate is an artifact of plan: what the cost command printed, as it did.
	KindCostEstimate = "cost-estimate"
)

// Poll asks for work. The call is answered at once when there is some, else after
// up to WaitSeconds with 204.
type Poll struct {
	ProtocolVersion int `json:"protocol_version"` // the newest that the runner speaks
	// OldestVersion is the oldest that the runner speaks; absent is ProtocolVersion alone.
	OldestVersion int    `json:"oldest_protocol_version,omitempty"`
	RunnerName    string `json:"runner_name"`
	// RunnerID is one that the runner has made at its start, or empty at first: then the server
	// names the runner in its first answer, and an offer is lost with that answer.
	RunnerID    string `json:"runner_id,omitempty"`
	WaitSeconds int    `json:"wait_seconds"`
	// TofuVersions are the exact versions this runner can execute, such as "1.12.6".
	TofuVersions []string `json:"tofu_versions"`
	// Labels, from version 2 on, are what this runner has beside the labels of its group. An
	// attempt is offered to runners that have all labels of its selector.
	Labels []string `json:"labels,omitempty"`
	// OrganizationID, from version 2 on, is the organization that the runner has worked for, when its
	// attempts are not isolated from the machine: it is offered no work of another.
	OrganizationID string `json:"organization_id,omitempty"`
	// Release is the runner's own. A server with an allow-list gives no work to one that is not in it.
	Release Release `json:"release,omitzero"`
}

// Release names the binary of a runner.
type Release struct {
	Version string `json:"version"`
	Digest  string `json:"digest"` // SHA-256 of the file, hex
}

// Assignment offers one attempt. It holds nothing secret.
type Assignment struct {
	RunnerID  string    `json:"runner_id"`
	AttemptID string    `json:"attempt_id"`
	RunID     string    `json:"run_id"`
	Phase     string    `json:"phase"` // "plan" or "apply"
	ExpiresAt time.Time `json:"expires_at"`
	// ProtocolVersion is the chosen one, from version 2 on.
	ProtocolVersion int    `json:"protocol_version,omitempty"`
	OrganizationID  string `json:"organization_id,omitempty"` // whose run it is, from version 2 on
}

// Accept takes the assignment. SandboxID names the place where it will execute and
// is fixed from here on.
type Accept struct {
	RunnerID  string `json:"runner_id"`
	SandboxID string `json:"sandbox_id"`
	// JSONLog tells that the attempt will have a log StreamJSON too. It is fixed here, before the
	// first byte of either log, so that a reader who follows one never has to change to the other.
	JSONLog bool `json:"json_log"`
	// Bootstrap asks for a capability, to be redeemed with PathBootstrap, in place of the session.
	Bootstrap bool    `json:"bootstrap,omitempty"`
	Release   Release `json:"release,omitzero"` // as in Poll; of a plan it is bound to the run
}

// Bootstrap redeems the capability of a session. It must say what Accept said: the capability is
// bound to runner, phase and sandbox, and expires within minutes.
type Bootstrap struct {
	RunnerID  string `json:"runner_id"`
	Phase     string `json:"phase"`
	SandboxID string `json:"sandbox_id"`
}

// Session is the credential of an attempt and what to do. It is the answer to Bootstrap, and to an
// Accept without Accept.Bootstrap; with it Accept answers the two members of the capability alone.
type Session struct {
	BootstrapCapability string    `json:"bootstrap_capability,omitempty"`
	BootstrapExpiresAt  time.Time `json:"bootstrap_expires_at,omitzero"`

	Token string `json:"token,omitempty"` // attempt token, also what `tofu` presents to the state API
	// Manifest is to be parsed as Manifest. ManifestDigest is the server's digest of
	// exactly these bytes; the runner echoes it and never computes one of its own (AU-19).
	Manifest       []byte    `json:"manifest,omitempty"`
	ManifestDigest string    `json:"manifest_digest,omitempty"`
	ExpiresAt      time.Time `json:"expires_at,omitzero"` // end of all authority of this attempt

	// Emergency, of an apply, is good for PathEmergencyState alone, and for an hour after
	// all other authority: also for a runner that starts again and finds what it left.
	EmergencyCapability string    `json:"emergency_capability,omitempty"`
	EmergencyExpiresAt  time.Time `json:"emergency_expires_at,omitzero"`
}

// EmergencyKept answers a state that tofu could not publish: it is kept as evidence.
type EmergencyKept struct {
	ID     string `json:"id"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Manifest is everything an attempt does.
type Manifest struct {
	AttemptID        string     `json:"attempt_id"`
	RunID            string     `json:"run_id"`
	Phase            string     `json:"phase"`
	ExecutionNonce   string     `json:"execution_nonce"` // of this attempt of this run, the same whenever it is prepared again
	OrganizationName string     `json:"organization_name"`
	WorkspaceID      string     `json:"workspace_id"`
	WorkspaceName    string     `json:"workspace_name"`
	WorkingDirectory string     `json:"working_directory"`     // below the configuration's root; "" is the root
	TofuVersion      string     `json:"tofu_version"`          // exact
	TofuDigest       string     `json:"tofu_digest,omitempty"` // apply: SHA-256 of the binary that planned; another one never applies
	Destroy          bool       `json:"destroy"`
	Refresh          bool       `json:"refresh"`
	RefreshOnly      bool       `json:"refresh_only"`
	TargetAddrs      []string   `json:"target_addrs,omitempty"`
	ReplaceAddrs     []string   `json:"replace_addrs,omitempty"`
	GenerateConfig   bool       `json:"generate_config,omitempty"` // plan: write configuration for what is imported without any
	EncryptedState   bool       `json:"encrypted_state,omitempty"` // the server refuses a state in plain, so that a configuration without encryption must not start
	VariablesDigest  string     `json:"variables_digest"`          // SHA-256 of the run's variables as the server keeps them, sealed: names them without a trace of a value
	Inputs           []Transfer `json:"inputs"`
	Outputs          []Transfer `json:"outputs"`
	LogLimit         int64      `json:"log_limit"`         // bytes of the log; over it the head and the tail stay, with a marker between
	JSONLogLimit     int64      `json:"json_log_limit"`    // the same for the log of events, where there is one
	MaxSeconds       int        `json:"max_seconds"`       // after this the runner interrupts tofu, then kills it
	InterruptSeconds int        `json:"interrupt_seconds"` // from the interrupt to the kill
}

// Transfer says how one artifact is moved. Method is "proxy": through the server at URL.
type Transfer struct {
	Kind   string `json:"kind"`
	Method string `json:"method"`
	URL    string `json:"url"`              // absolute path on the server
	SHA256 string `json:"sha256,omitempty"` // of an input, when known
	Size   int64  `json:"size,omitempty"`
}

// Variables is the body of the input "variables".
type Variables struct {
	// Terraform are values of input variables: literal text, or an HCL expression when HCL is set.
	// Later entries win over earlier ones of the same key.
	Terraform []Variable `json:"terraform"`
	// Environment is added to the environment of tofu.
	Environment []Variable `json:"environment"`
	// SSHKey is a private key with which tofu fetches modules over SSH; empty for none.
	SSHKey string `json:"ssh_key,omitempty"`
}

// Variable is one value.
type Variable struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	HCL   bool   `json:"hcl"`
}

// Status is the answer to the status poll.
type Status struct {
	Stop bool `json:"stop"` // somebody canceled: interrupt tofu and report done
	// NextPollSeconds is how long to wait before the next one.
	NextPollSeconds int `json:"next_poll_seconds"`
}

// LogPosition is how much of the log the server has: the offset of the next chunk.
// After a lost answer the runner goes on from here.
type LogPosition struct {
	Next int64 `json:"next"`
}

// ApplyStart redeems the authority to apply, once; the exact repeat is answered alike. A 409
// "launch_denied" or "release_not_allowed" means that a gate has closed: a Done that says that tofu
// was not started leaves the run approved.
type ApplyStart struct {
	ManifestDigest string `json:"manifest_digest"`
	SandboxID      string `json:"sandbox_id"`
	TofuDigest     string `json:"tofu_digest"`
}

// ApplyStarted is the permission to start `tofu apply`.
type ApplyStarted struct {
	StartedAt time.Time `json:"started_at"`
}

// StateConfirmation asks the server, after exit 0 of apply, whether the current
// state is the one this attempt published. The server compares run, attempt,
// sandbox, predecessor, lock, fence and checksum (ST-03).
type StateConfirmation struct {
	SandboxID string `json:"sandbox_id"`
}

// StateConfirmed is the proof to send back in Done.
type StateConfirmed struct {
	// StateVersionID is the version that is current: the last one this attempt
	// published, or the one it began with when the apply left the state as it was.
	StateVersionID string `json:"state_version_id"`
	SHA256         string `json:"sha256"`
	Serial         int64  `json:"serial"`
}

// Outcomes of an attempt as the runner saw it.
const (
	OutcomeFinished = "finished" // tofu ended by itself with exit code 0 (or 2 for a plan with changes)
	OutcomeErrored  = "errored"  // tofu, or the preparation before it, failed
	OutcomeCanceled = "canceled" // tofu was stopped because Status said so
	OutcomeTimedOut = "timed_out"
	OutcomeUnknown  = "unknown" // the runner cannot tell what tofu did
)

// Reasons for an errored attempt that are not tofu's own.
const (
	// ReasonUnsupportedProvider: a provider that the configuration requires has no package
	// for the runner's platform. Whatever waits with the same configuration would end the same.
	ReasonUnsupportedProvider = "unsupported_provider"
	// ReasonDispatchFailed: the runner could not start what it was to execute.
	ReasonDispatchFailed = "dispatch_failed"
)

// Done ends an attempt. The exact repeat is accepted; another one is refused (RP-20).
type Done struct {
	Outcome     string `json:"outcome"`
	ExitCode    int    `json:"exit_code"`
	TofuStarted bool   `json:"tofu_started"` // apply: `tofu apply` was started, and so may have changed things
	TofuVersion string `json:"tofu_version"`
	TofuDigest  string `json:"tofu_digest"` // SHA-256 of the tofu binary, hex
	// Message says in one or two lines what failed before tofu ran; tofu's own errors are in the log.
	Message string `json:"message,omitempty"`
	// Reason is one of the Reasons, or absent; one that the server does not know counts as absent.
	Reason string `json:"reason,omitempty"`
	// Plan, of a finished plan.
	Plan *PlanSummary `json:"plan,omitempty"`
	// Cost, of a finished plan, where the runner has a cost command and the manifest asks for KindCostEstimate.
	Cost *CostEstimate `json:"cost,omitempty"`
	// Confirmed, of an apply with exit 0; absent when the confirmation was refused or could not be had.
	Confirmed *StateConfirmed `json:"confirmed,omitempty"`
	// ErroredState tells that tofu left an errored.tfstate: state that it could not publish.
	ErroredState bool `json:"errored_state"`
	// GeneratedConfig tells that the redacted plan carries generated configuration. A failed plan
	// may have some, too: somebody imports what still lacks a part of its configuration.
	GeneratedConfig bool  `json:"generated_config"`
	LogSize         int64 `json:"log_size"`      // bytes of StreamHuman shipped; the server has all of them before Done is accepted
	JSONLogSize     int64 `json:"json_log_size"` // the same of StreamJSON
	// LogTruncated tells that something is missing in one of the logs: it was longer than the manifest
	// allows, or a part of it could not be brought to the server.
	LogTruncated bool `json:"log_truncated,omitempty"`
}

// CostEstimate is what the runner's cost command says of the plan, in amounts a month with two decimals; or
// why it says nothing.
type CostEstimate struct {
	Currency  string `json:"currency,omitempty"` // such as USD
	Prior     string `json:"prior,omitempty"`    // of what there is
	Proposed  string `json:"proposed,omitempty"` // of what there will be
	Delta     string `json:"delta,omitempty"`
	Resources int    `json:"resources"` // in the plan
	Matched   int    `json:"matched"`   // those that have a price
	Error     string `json:"error,omitempty"`
}

// PlanSummary counts what the plan would do, from `tofu show -json` (RL-35).
type PlanSummary struct {
	HasChanges   bool `json:"has_changes"` // exit code 2 of plan -detailed-exitcode (RL-34)
	Additions    int  `json:"additions"`
	Changes      int  `json:"changes"`
	Destructions int  `json:"destructions"`
	Imports      int  `json:"imports"`
}

// Problem is the body of an error answer.
type Problem struct {
	Code   string `json:"code"`
	Detail string `json:"detail"`
}
