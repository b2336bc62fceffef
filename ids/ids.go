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
)

// Any is the set of id types.
type Any interface {
	Organization | User | Token | Project | Workspace | Variable | Tag | TagBinding | ConfigurationVersion | Run | Plan | Apply |
		RunEvent | StateVersion | Output | Object | RunnerGroup | Runner | Attempt | Stage | Receipt | AuditEntry | EmergencyState | Recovery | Approval | Team | Membership | TeamWorkspace | TeamProject
}

// spec gives the prefix and the noun of an id type.
func spec[T Any]() (prefix, noun string) {
	var zero T
	switch any(zero).(type) {
	case Organization:
		return "org-", "organization"
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
