package ids

import (
	"crypto/rand"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// The kinds of things. The string value is what stands in the database and on the wire.
type (
	Organization         string // org-…; on the wire an organization goes by its name
	User                 string // user-…
	Token                string // at-…
	Project              string // prj-…
	Workspace            string // ws-…
	Variable             string // var-…
	Tag                  string // tag-…
	TagBinding           string // tb-…; a pair of key and value on one workspace
	ConfigurationVersion string // cv-…
	Run                  string // run-…; the prefix is required by the client's saved-plan bookmark
	Plan                 string // plan-…
	Apply                string // apply-…
	RunEvent             string // re-…
	StateVersion         string // sv-…
	Output               string // wsout-…
	Object               string // obj-…; a sealed object in the store
	RunnerGroup          string // apool-…
	Runner               string // agent-…
	Attempt              string // att-…
	Stage                string // stg-…; a step of a run, such as its approval
	Receipt              string // rcpt-…; what a phase of a run came to
	AuditEntry           string // ae-…
	EmergencyState       string // es-…; state that tofu could not publish
	Recovery             string // rcv-…; one recovery of a run
	Approval             string // apv-…; a decision about a plan
	Team                 string // team-…
	Membership           string // ou-…; that a user belongs to an organization
	TeamWorkspace        string // tws-…; what a team may do in a workspace
	TeamProject          string // tprj-…; what a team may do in a project
	VariableSet          string // varset-…; a group of variables of an organization
	SSHKey               string // sshkey-…; a private key that runs fetch modules with
	RunTrigger           string // rt-…; an apply of one workspace starts a run of another
	Comment              string // wsc-…; what somebody said about a run
	PlanExport           string // pe-…; a plan made ready for download
	ReservedTagKey       string // rtk-…
	RetentionPolicy      string // drp-…
	PolicySet            string // polset-…
	PolicySetVersion     string // polsetver-…
	Policy               string // pol-…

	NotificationConfiguration string // nc-…; who is told what about runs
	RunTask                   string // task-…; a service that is asked about runs
	WorkspaceTask             string // wstask-…; that a workspace asks a run task
	TaskStage                 string // ts-…; the run tasks that a run asks at one point
	TaskResult                string // taskrs-…; what one run task was asked and said
	TaskOutcome               string // taskrso-…; one thing that a run task has found
	CostEstimate              string // ce-…; what a plan would cost

	RegistryModule           string // mod-…
	RegistryModuleVersion    string // modver-…
	RegistryProvider         string // prov-…
	RegistryProviderVersion  string // provver-…
	RegistryProviderPlatform string // provpltfrm-…; the package of a provider for one platform
	RegistryComponent        string // comp-…
	GPGKey                   string // gpg-…; a public key that providers are signed with
	ToolVersion              string // tool-…; an entry of the catalogue of tools
	OAuthClient              string // oc-…; what is known of a VCS host
	OAuthToken               string // ot-…; what an organization proves itself to a VCS host by
	SCIMGroup                string // scimgroup-…; a group as an identity provider keeps it
	QueryRun                 string // qry-…; what was asked by terraform query
)

// Any is the set of id types.
type Any interface {
	Organization | User | Token | Project | Workspace | Variable | Tag | TagBinding | ConfigurationVersion | Run | Plan | Apply |
		RunEvent | StateVersion | Output | Object | RunnerGroup | Runner | Attempt | Stage | Receipt | AuditEntry | EmergencyState | Recovery | Approval | Team | Membership | TeamWorkspace | TeamProject |
		VariableSet | SSHKey | RunTrigger | Comment | PlanExport | ReservedTagKey | RetentionPolicy |
		PolicySet | PolicySetVersion | Policy |
		NotificationConfiguration | RunTask | WorkspaceTask | TaskStage | TaskResult | TaskOutcome | CostEstimate | ToolVersion | OAuthClient | OAuthToken | SCIMGroup | QueryRun |
		RegistryModule | RegistryModuleVersion | RegistryProvider | RegistryProviderVersion | RegistryProviderPlatform | RegistryComponent | GPGKey
}

// spec gives the prefix and the noun of an id type.
func spec[T Any]() (prefix, noun string) {
	var zero T
	switch any(zero).(type) {
	case Organization:
		return "org-", "organization"
	case ToolVersion:
		return "tool-", "version of a tool"
	case OAuthClient:
		return "oc-", "OAuth client"
	case OAuthToken:
		return "ot-", "OAuth token"
	case User:
		return "user-", "user"
	case Token:
		return "at-", "token"
	case Project:
		return "prj-", "project"
	case Workspace:
		return "ws-", "workspace"
	case Variable:
		return "var-", "variable"
	case Tag:
		return "tag-", "tag"
	case TagBinding:
		return "tb-", "tag binding"
	case ConfigurationVersion:
		return "cv-", "configuration version"
	case Run:
		return "run-", "run"
	case Plan:
		return "plan-", "plan"
	case Apply:
		return "apply-", "apply"
	case RunEvent:
		return "re-", "run event"
	case StateVersion:
		return "sv-", "state version"
	case Output:
		return "wsout-", "state version output"
	case Object:
		return "obj-", "object"
	case RunnerGroup:
		return "apool-", "runner group"
	case Runner:
		return "agent-", "runner"
	case Attempt:
		return "att-", "attempt"
	case Stage:
		return "stg-", "stage"
	case Receipt:
		return "rcpt-", "receipt"
	case AuditEntry:
		return "ae-", "audit entry"
	case EmergencyState:
		return "es-", "emergency state"
	case Recovery:
		return "rcv-", "recovery"
	case Approval:
		return "apv-", "approval"
	case Team:
		return "team-", "team"
	case Membership:
		return "ou-", "organization membership"
	case TeamWorkspace:
		return "tws-", "team access"
	case TeamProject:
		return "tprj-", "team project access"
	case VariableSet:
		return "varset-", "variable set"
	case SSHKey:
		return "sshkey-", "SSH key"
	case RunTrigger:
		return "rt-", "run trigger"
	case Comment:
		return "wsc-", "comment"
	case PlanExport:
		return "pe-", "plan export"
	case ReservedTagKey:
		return "rtk-", "reserved tag key"
	case RetentionPolicy:
		return "drp-", "data retention policy"
	case PolicySet:
		return "polset-", "policy set"
	case PolicySetVersion:
		return "polsetver-", "policy set version"
	case Policy:
		return "pol-", "policy"
	case NotificationConfiguration:
		return "nc-", "notification configuration"
	case RunTask:
		return "task-", "run task"
	case WorkspaceTask:
		return "wstask-", "workspace run task"
	case TaskStage:
		return "ts-", "task stage"
	case TaskResult:
		return "taskrs-", "task result"
	case RegistryModule:
		return "mod-", "registry module"
	case RegistryModuleVersion:
		return "modver-", "registry module version"
	case RegistryProvider:
		return "prov-", "registry provider"
	case RegistryProviderVersion:
		return "provver-", "registry provider version"
	case RegistryProviderPlatform:
		return "provpltfrm-", "registry provider platform"
	case RegistryComponent:
		return "comp-", "registry component"
	case GPGKey:
		return "gpg-", "GPG key"
	case TaskOutcome:
		return "taskrso-", "task result outcome"
	case SCIMGroup:
		return "scimgroup-", "SCIM group"
	case QueryRun:
		return "qry-", "query run"
	case CostEstimate:
		return "ce-", "cost estimate"
	}
	return "", ""
}

const (
	alphabet = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz" // base58: no look-alikes
	length   = 16                                                           // 58^16 is about 2^93
)

// New makes a fresh random id of kind T.
func New[T Any]() T {
	prefix, _ := spec[T]()
	return T(prefix + random())
}

// Parse reads an id of kind T. Text that cannot be one is the id of nothing: NotFound.
func Parse[T Any](s string) (T, error) {
	prefix, noun := spec[T]()
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok || len(rest) != length || strings.Trim(rest, alphabet) != "" {
		return "", fault.Missing(noun, s)
	}
	return T(s), nil
}

func random() string {
	out := make([]byte, 0, length)
	buf := make([]byte, 2*length)
	for len(out) < length {
		_, _ = rand.Read(buf) // never fails: crypto/rand aborts the program instead
		for _, b := range buf {
			// 232 is the largest multiple of 58 below 256: rejecting above keeps letters equally likely.
			if b < 232 && len(out) < length {
				out = append(out, alphabet[b%58])
			}
		}
	}
	return string(out)
}
