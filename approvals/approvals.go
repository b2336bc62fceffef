package approvals

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
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
	Native    Source = "native"     // by whoever confirmed, approved, discarded or rejected
	AutoApply Source = "auto-apply" // the requester's own, recorded when the plan was done (amendment 22)
	ByPolicy  Source = "policy"     // of no person: the rule takes what the policies said (G-09)
)

// Binding is what a decision covers (AP-16). Digests are SHA-256 in hex; LockFile, which
// is the dependency bundle, is empty when init wrote none, Predecessor and its checksum
// when the workspace had no state.
type Binding struct {
	Plan              string
	Configuration     string
	LockFile          string
	Predecessor       ids.StateVersion
	PredecessorSHA256 string
	PolicyResult      string
}

// Digest is one number for all of it: SHA-256 in hex over a line for each part. What a
// reviewer has looked at and what it approves are the same when their digests are.
func (b Binding) Digest() string {
	text := fmt.Sprintf("plan %s\nconfiguration %s\nlock-file %s\nstate %s\nstate-sha256 %s\npolicy %s\n",
		b.Plan, b.Configuration, b.LockFile, b.Predecessor, b.PredecessorSHA256, b.PolicyResult)
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
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
	case b.PredecessorSHA256 != now.PredecessorSHA256:
		return "the checksum of the current state"
	case b.PolicyResult != now.PolicyResult:
		return "the policy result"
	}
	return ""
}

// Record is one decision.
type Record struct {
	Run       ids.Run
	Reviewer  ids.User   // empty: the policy
	Teams     []ids.Team // that the reviewer belongs to
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
		"public_id": ids.New[ids.Approval](), "run_id": r.Run, "reviewer_id": r.Reviewer, "requester_id": r.Requester, "decision": string(r.Decision), "source": string(r.Source), "comment": r.Comment,
		"plan_digest": r.Binding.Plan, "configuration_digest": r.Binding.Configuration, "lock_file_digest": r.Binding.LockFile,
		"predecessor_version_id": r.Binding.Predecessor, "predecessor_sha256": r.Binding.PredecessorSHA256, "policy_result_digest": r.Binding.PolicyResult,
		"binding_digest": r.Binding.Digest(), "reviewer_teams": append([]ids.Team{}, r.Teams...),
	})
	if err != nil {
		return fmt.Errorf("record the decision: %w", err)
	}
	if n == 0 {
		return fault.New(fault.Conflict, "already_decided", "You have decided about %s before, and a decision does not change. To stop the run, cancel it.", r.Run)
	}
	return nil
}

// Votes gives the approvals of the round that the run is in, for its rule to judge.
func Votes(ctx context.Context, tx postgres.Tx, run ids.Run) ([]Vote, error) {
	return postgres.All[Vote](ctx, tx, Queries.Get("Votes"), postgres.Args{"run_id": run})
}

// TeamOf gives the team in whose name the account works; empty for a person.
func TeamOf(ctx context.Context, tx postgres.Tx, account ids.User) (ids.Team, error) {
	teams, err := postgres.Values[ids.Team](ctx, tx, Queries.Get("TeamOfAccount"), postgres.Args{"user_id": account})
	if err != nil || len(teams) == 0 {
		return "", err
	}
	return teams[0], nil
}

// Check answers nil when every approval of the run still covers the facts as they are
// now; Conflict "APPROVAL_BINDING_STALE" names the fact that moved (G-39).
func Check(ctx context.Context, tx postgres.Tx, run ids.Run, now Binding) error {
	_, err := check(ctx, tx, run, now)
	return err
}

// Redeem checks like Check and spends the approvals; spent ones are a Conflict
// "approval_spent": together they start one apply, once.
func Redeem(ctx context.Context, tx postgres.Tx, run ids.Run, now Binding) error {
	list, err := check(ctx, tx, run, now)
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("Spend"), postgres.Args{"ids": list})
	if err == nil && n != int64(len(list)) {
		return spent(run)
	}
	return err
}

func spent(run ids.Run) error {
	return fault.New(fault.Conflict, "approval_spent", "The approval of %s has already started its apply.", run)
}

func check(ctx context.Context, tx postgres.Tx, run ids.Run, now Binding) (list []int64, err error) {
	rows, err := postgres.All[struct {
		ID                   int64
		PlanDigest           string
		ConfigurationDigest  string
		LockFileDigest       string
		PredecessorVersionID ids.StateVersion
		PredecessorSHA256    string `db:"predecessor_sha256"`
		PolicyResultDigest   string
		Spent                bool
	}](ctx, tx, Queries.Get("Approved"), postgres.Args{"run_id": run})
	if err != nil {
		return nil, fmt.Errorf("read the approvals: %w", err)
	}
	if len(rows) == 0 {
		return nil, fault.New(fault.Conflict, "not_approved", "%s has not been approved.", run)
	}
	for _, row := range rows {
		if row.Spent {
			return nil, spent(run)
		}
		bound := Binding{
			Plan: row.PlanDigest, Configuration: row.ConfigurationDigest, LockFile: row.LockFileDigest,
			Predecessor: row.PredecessorVersionID, PredecessorSHA256: row.PredecessorSHA256, PolicyResult: row.PolicyResultDigest,
		}
		if moved := bound.differs(now); moved != "" {
			return nil, fault.New(fault.Conflict, "APPROVAL_BINDING_STALE", "The approval of %s covers something else than what would be applied: %s has changed since. Plan again.", run, moved)
		}
		list = append(list, row.ID)
	}
	return list, nil
}

// Entry is a decision as it is shown.
type Entry struct {
	ID            ids.Approval
	RunID         ids.Run
	PlanID        ids.Plan // whose plan it is about: of a promotion, the source's
	Round         int
	ReviewerID    ids.User // empty: the policy
	Reviewer      string   // what it is called
	RequesterID   ids.User
	Decision      Decision
	Source        Source
	Comment       string
	DecidedAt     time.Time
	ReviewerTeams []ids.Team
	Bound
	SpentAt *time.Time // when it started the apply
}

// Bound is a recorded binding.
type Bound struct {
	PlanDigest           string
	ConfigurationDigest  string
	LockFileDigest       string
	PredecessorVersionID ids.StateVersion
	PredecessorSHA256    string `db:"predecessor_sha256"`
	PolicyResultDigest   string
	BindingDigest        string
}

// List gives a run's decisions, oldest first.
func List(ctx context.Context, tx postgres.Tx, run ids.Run) ([]Entry, error) {
	return postgres.All[Entry](ctx, tx, Queries.Get("List"), postgres.Args{"run_id": run})
}
