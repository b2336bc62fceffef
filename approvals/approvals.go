package approvals

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Decision is what was decided.
type Decision string

// The decisions.
const (
	Approved Decision = "approved"
	Rejected Decision = "rejected"
)

// Source says how the decision came in.
type Source string

// The sources.
const (
	Native    Source = "native"     // confirm or discard, by a person
	AutoApply Source = "auto-apply" // the requester's own, recorded when the plan was done (amendment 22)
)

// Binding is what a decision covers. Digests are SHA-256 in hex; LockFile is empty
// when init wrote none, Predecessor when the workspace had no state.
type Binding struct {
	Plan          string
	Configuration string
	LockFile      string
	Predecessor   ids.StateVersion
	PolicyResult  string
}

// differs names the fact that moved between b and now, or "".
func (b Binding) differs(now Binding) string {
	switch {
	case b.Plan != now.Plan:
		return "the plan"
	case b.Configuration != now.Configuration:
		return "the configuration"
	case b.LockFile != now.LockFile:
		return "the dependency lock file"
	case b.Predecessor != now.Predecessor:
		return "the current state"
	case b.PolicyResult != now.PolicyResult:
		return "the policy result"
	}
	return ""
}

// Record is one decision.
type Record struct {
	Run       ids.Run
	Reviewer  ids.User
	Requester ids.User
	Decision  Decision
	Source    Source
	Comment   string
	Binding   Binding
}

// Decide stores a decision (AR-01…AR-05). A second decision of the same reviewer is
// a Conflict "already_decided" (AR-09).
func Decide(ctx context.Context, tx postgres.Tx, r Record) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Record"), postgres.Args{
		"run_id": r.Run, "reviewer_id": r.Reviewer, "requester_id": r.Requester, "decision": string(r.Decision), "source": string(r.Source), "comment": r.Comment,
		"plan_digest": r.Binding.Plan, "configuration_digest": r.Binding.Configuration, "lock_file_digest": r.Binding.LockFile,
		"predecessor_version_id": r.Binding.Predecessor, "policy_result_digest": r.Binding.PolicyResult,
	})
	if err != nil {
		return fmt.Errorf("record the decision: %w", err)
	}
	if n == 0 {
		return fault.New(fault.Conflict, "already_decided", "You have decided about %s before, and a decision does not change.", r.Run)
	}
	return nil
}

// Check answers nil when the run's approval still covers the facts as they are
// now; Conflict "APPROVAL_BINDING_STALE" names the fact that moved (G-39).
func Check(ctx context.Context, tx postgres.Tx, run ids.Run, now Binding) error {
	_, err := check(ctx, tx, run, now)
	return err
}

// Redeem checks like Check and spends the approval; a spent one is a Conflict
// "approval_spent": it starts one apply, once.
func Redeem(ctx context.Context, tx postgres.Tx, run ids.Run, now Binding) error {
	id, err := check(ctx, tx, run, now)
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("Spend"), postgres.Args{"id": id})
	if err == nil && n == 0 {
		return spent(run)
	}
	return err
}

func spent(run ids.Run) error {
	return fault.New(fault.Conflict, "approval_spent", "The approval of %s has already started its apply.", run)
}

func check(ctx context.Context, tx postgres.Tx, run ids.Run, now Binding) (id int64, err error) {
	row, err := postgres.One[struct {
		ID                   int64
		PlanDigest           string
		ConfigurationDigest  string
		LockFileDigest       string
		PredecessorVersionID ids.StateVersion
		PolicyResultDigest   string
		Spent                bool
	}](ctx, tx, Queries.Get("Approved"), postgres.Args{"run_id": run})
	if postgres.NoRow(err) {
		return 0, fault.New(fault.Conflict, "not_approved", "%s has not been approved.", run)
	}
	if err != nil {
		return 0, fmt.Errorf("read the approval: %w", err)
	}
	if row.Spent {
		return 0, spent(run)
	}
	bound := Binding{Plan: row.PlanDigest, Configuration: row.ConfigurationDigest, LockFile: row.LockFileDigest, Predecessor: row.PredecessorVersionID, PolicyResult: row.PolicyResultDigest}
	if moved := bound.differs(now); moved != "" {
		return 0, fault.New(fault.Conflict, "APPROVAL_BINDING_STALE", "The approval of %s covers something else than what would be applied: %s has changed since. Plan again.", run, moved)
	}
	return row.ID, nil
}

// Entry is a decision as it is shown.
type Entry struct {
	ReviewerID  ids.User
	RequesterID ids.User
	Decision    Decision
	Source      Source
	Comment     string
	DecidedAt   time.Time
}

// List gives a run's decisions, oldest first.
func List(ctx context.Context, tx postgres.Tx, run ids.Run) ([]Entry, error) {
	return postgres.All[Entry](ctx, tx, Queries.Get("List"), postgres.Args{"run_id": run})
}
