package evaluator

import (
	"encoding/json"
	"strings"
	"time"
)

// Mode is what a policy-runner is asked to do.
type Mode string

// The modes.
const (
	Derive   Mode = "derive"   // the body is a plan as `tofu show -json` writes it, twice; the answer is its derivative
	Publish  Mode = "publish"  // there is no body; the answer is a Verdict
	Evaluate Mode = "evaluate" // the body is a derivative; the answer is a list of Outcomes
)

// Request is the first line of a policy-runner's input. The body follows it.
type Request struct {
	Mode   Mode   `json:"mode"`
	Limits Limits `json:"limits"`

	Bundle     *Bundle           `json:"bundle,omitempty"`     // of Publish and Evaluate
	Parameters map[string]string `json:"parameters,omitempty"` // of Evaluate: input.params

	Known Secrets         `json:"known"`         // of Derive
	Run   json.RawMessage `json:"run,omitempty"` // of Derive: input.run
}

// Secrets are what somebody outside of the configuration has said is secret.
type Secrets struct {
	Variables []string `json:"variables,omitempty"` // names of input variables
	Values    []string `json:"values,omitempty"`    // texts that stay out wherever they stand: of environment variables, keys
}

// Limits bound one policy-runner.
type Limits struct {
	Memory  int64         `json:"memory"`  // bytes
	Time    time.Duration `json:"time"`    // of the whole process
	Budget  time.Duration `json:"budget"`  // of one policy
	Message int           `json:"message"` // bytes of one message
}

// RegoVersion is the syntax that a bundle is written in.
type RegoVersion string

// The versions.
const (
	V0 RegoVersion = "v0" // before OPA 1.0
	V1 RegoVersion = "v1"
)

// Level says what a failed policy does to its run.
type Level string

// The levels.
const (
	Advisory  Level = "advisory"  // it is reported
	Mandatory Level = "mandatory" // it ends the run
)

// Bundle is what a version of a policy set consists of.
type Bundle struct {
	Rego     RegoVersion `json:"rego"`
	Modules  []Module    `json:"modules"`
	Policies []Policy    `json:"policies"`
}

// Module is a file of Rego.
type Module struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// Policy is one question about a plan.
type Policy struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Query       string `json:"query"` // such as data.terraform.policies.tags.deny
	Level       Level  `json:"level"`
	// Only names the one module that the policy consists of; empty means all of the bundle.
	Only string `json:"only,omitempty"`
}

// Verdict is what publication finds. A bundle without errors can be used.
type Verdict struct {
	Errors []string `json:"errors"`
	Tests  int      `json:"tests"` // how many of the bundle's own tests passed
	// Unanswered says what is wrong, and nothing besides: queries name rules that are not there.
	Unanswered bool `json:"unanswered,omitempty"`
}

// Status is how a policy came out.
type Status string

// The statuses.
const (
	Passed  Status = "passed"
	Failed  Status = "failed"  // there are violations
	Errored Status = "errored" // it could not be evaluated
)

// Outcome is what one policy came to.
type Outcome struct {
	Policy      string      `json:"policy"`
	Description string      `json:"description"`
	Query       string      `json:"query"`
	Level       Level       `json:"level"`
	Status      Status      `json:"status"`
	Violations  []Violation `json:"violations,omitempty"`
	More        int         `json:"more,omitempty"` // violations beyond those that are kept
	Error       string      `json:"error,omitempty"`
	Prints      []string    `json:"prints,omitempty"`
}

// Violation is one member of what a query gives.
type Violation struct {
	Rule    string `json:"rule"`
	Address string `json:"address,omitempty"` // of the resource; empty when the policy names none
	Message string `json:"message"`
}

// Line is the violation in one line.
func (v Violation) Line() string {
	message := strings.Join(strings.Fields(v.Message), " ")
	if v.Address == "" {
		return "rule " + v.Rule + ": " + message
	}
	return v.Address + ": rule " + v.Rule + ": " + message
}
