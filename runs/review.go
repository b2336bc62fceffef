package runs

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

// Receipt is what a phase of a run came to, as it was written when the phase ended.
// It never changes (RE-01, RE-02, RE-06).
type Receipt struct {
	ID                   ids.Receipt
	RunID                ids.Run
	StageID              ids.Stage
	AttemptID            ids.Attempt
	Kind                 StageKind   // plan or apply
	Result               StageStatus // succeeded, failed, canceled or uncertain
	Reason               string      // a stable code of why; empty on the main path
	ExitCode             *int        // nil when no runner reported
	HasChanges           *bool       // this and the counts are nil unless all of the phase was done
	ResourceAdditions    *int
	ResourceChanges      *int
	ResourceDestructions *int
	ResourceImports      *int
	Digests              map[string]string // SHA-256 in hex of what the attempt handed over, by kind
	TofuVersion          string
	TofuDigest           string
	StateVersionID       ids.StateVersion // of an apply: the state it left; empty when it left none
	StartedAt            time.Time
	FinishedAt           time.Time
}

// RecordStatus says what became of a pointer to a state.
type RecordStatus string

// The record statuses.
const (
	Recorded    RecordStatus = "recorded"     // it leads to this very version (ST-10)
	NotRecorded RecordStatus = "not_recorded" // there is no pointer (ST-11)
	Unavailable RecordStatus = "unavailable"  // there is one, and it leads nowhere (ST-12)
)

// ResultingState is the state that a run recorded as its own. Version is nil unless
// it is Recorded.
type ResultingState struct {
	Status  RecordStatus
	Version *state.Version
}

// Review is a run with what was recorded about it on its way.
type Review struct {
	Detail
	Policy    *PolicyCheck // nil before there is a plan
	Approvals []approvals.Entry
	// Requirement is nil before the plan has come to a decision.
	Requirement *Requirement
	Waits       []Arbitration // for a decision that ended without one
	Resulting   ResultingState
	Stages      []Stage
	Attempts    []dispatch.Attempt
	Receipts    []Receipt
}

// Page is a part of a list.
type Page struct{ Limit, Offset int }

// reviewed is how many stages, attempts and receipts a review names; all of them can be listed.
var reviewed = Page{Limit: 100}

// Review gives everything that was recorded about a run, read in one instant.
// Errors: those of Get.
func (s *Service) Review(ctx context.Context, actor authz.Actor, id ids.Run) (v Review, err error) {
	err = s.ofRun(ctx, "runs.review", actor, id, func(tx postgres.Tx, r Run) error {
		details, err := withHistory(ctx, tx, []Run{r})
		if err != nil {
			return err
		}
		v.Detail = details[0]
		if v.Policy, err = newestCheck(ctx, tx, id); err != nil {
			return err
		}
		if v.Approvals, err = approvals.List(ctx, tx, id); err != nil {
			return err
		}
		if v.Requirement, err = s.requirement(ctx, tx, r); err != nil {
			return err
		}
		if v.Waits, err = arbitrations(ctx, tx, id); err != nil {
			return err
		}
		if v.Resulting, err = s.resulting(ctx, tx, r); err != nil {
			return err
		}
		if v.Stages, _, err = listStages(ctx, tx, id, reviewed); err != nil {
			return err
		}
		if v.Attempts, _, err = dispatch.ListOfRun(ctx, tx, id, reviewed.Limit, reviewed.Offset); err != nil {
			return err
		}
		v.Receipts, _, err = listReceipts(ctx, tx, id, reviewed)
		return err
	})
	return v, err
}

// resulting follows the run's pointer. That an apply ended well says nothing about it,
// nor the other way round (ST-13, ST-14).
func (s *Service) resulting(ctx context.Context, tx postgres.Tx, r Run) (ResultingState, error) {
	if r.ResultingVersionID == "" {
		return ResultingState{Status: NotRecorded}, nil
	}
	v, err := s.state.Load(ctx, tx, r.ResultingVersionID)
	switch {
	case fault.Is(err, fault.NotFound):
		return ResultingState{Status: Unavailable}, nil
	case err != nil:
		return ResultingState{}, err
	case v.Workspace != r.WorkspaceID || v.Status != state.Finalized:
		return ResultingState{Status: Unavailable}, nil
	}
	return ResultingState{Status: Recorded, Version: &v}, nil
}

// Stages lists the stages of a run in their order, and counts all of them.
func (s *Service) Stages(ctx context.Context, actor authz.Actor, id ids.Run, p Page) (list []Stage, total int, err error) {
	err = s.ofRun(ctx, "runs.stages", actor, id, func(tx postgres.Tx, _ Run) (err error) {
		list, total, err = listStages(ctx, tx, id, p)
		return err
	})
	return list, total, err
}

// AttemptsOf lists the attempts of a run, oldest first, and counts all of them. None
// of them shows what its runner was given.
func (s *Service) AttemptsOf(ctx context.Context, actor authz.Actor, id ids.Run, p Page) (list []dispatch.Attempt, total int, err error) {
	err = s.ofRun(ctx, "runs.attempts", actor, id, func(tx postgres.Tx, _ Run) (err error) {
		list, total, err = dispatch.ListOfRun(ctx, tx, id, p.Limit, p.Offset)
		return err
	})
	return list, total, err
}

// Receipts lists the receipts of a run in the order of its stages, and counts all of them.
func (s *Service) Receipts(ctx context.Context, actor authz.Actor, id ids.Run, p Page) (list []Receipt, total int, err error) {
	err = s.ofRun(ctx, "runs.receipts", actor, id, func(tx postgres.Tx, _ Run) (err error) {
		list, total, err = listReceipts(ctx, tx, id, p)
		return err
	})
	return list, total, err
}

// ofRun runs fn for who may read the run.
func (s *Service) ofRun(ctx context.Context, name string, actor authz.Actor, id ids.Run, fn func(tx postgres.Tx, r Run) error) error {
	return postgres.InSnapshot(ctx, s.db, name, func(tx postgres.Tx) error {
		r, err := load(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.RunRead, r.Object()); err != nil {
			return err
		}
		return fn(tx, r)
	})
}

func listStages(ctx context.Context, tx postgres.Tx, id ids.Run, p Page) ([]Stage, int, error) {
	return listOf[Stage](ctx, tx, "StageList", "StageCount", id, p)
}

func listReceipts(ctx context.Context, tx postgres.Tx, id ids.Run, p Page) ([]Receipt, int, error) {
	return listOf[Receipt](ctx, tx, "ReceiptList", "ReceiptCount", id, p)
}

func listOf[T any](ctx context.Context, tx postgres.Tx, items, count string, id ids.Run, p Page) ([]T, int, error) {
	list, err := postgres.All[T](ctx, tx, Queries.Get(items), postgres.Args{"run_id": id, "limit": p.Limit, "offset": p.Offset})
	if err != nil {
		return nil, 0, fmt.Errorf("read what belongs to %s: %w", id, err)
	}
	total, err := postgres.Value[int](ctx, tx, Queries.Get(count), postgres.Args{"run_id": id})
	return list, total, err
}
