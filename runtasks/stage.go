package runtasks

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Status is how far a task stage or a task result has come.
type Status string

// The statuses. Errored is of results alone.
const (
	Pending     Status = "pending"
	Running     Status = "running"
	Passed      Status = "passed"
	Failed      Status = "failed"
	Errored     Status = "errored"     // the service was not reached, or did not answer in time
	Canceled    Status = "canceled"    // the run ended first, or another task had decided
	Unreachable Status = "unreachable" // the run ended before it was asked
)

// Ended tells whether a result in this status does not change any more.
func (s Status) Ended() bool { return s != Pending && s != Running }

// TaskStage is what one round of a run asks at one point.
type TaskStage struct {
	ID        ids.TaskStage
	RunID     ids.Run
	Stage     Stage
	Status    Status
	CreatedAt time.Time
	StartedAt *time.Time
	EndedAt   *time.Time
	Results   []Result `db:"-"`
}

// UpdatedAt is when it last changed.
func (t TaskStage) UpdatedAt() time.Time {
	switch {
	case t.EndedAt != nil:
		return *t.EndedAt
	case t.StartedAt != nil:
		return *t.StartedAt
	}
	return t.CreatedAt
}

// Result is what one task was asked, and what it said.
type Result struct {
	ID              ids.TaskResult
	StageID         ids.TaskStage
	TaskID          ids.RunTask
	TaskName        string
	WorkspaceTaskID ids.WorkspaceTask // empty: it is asked for the whole organization
	Enforcement     Enforcement
	Status          Status
	Message         string
	URL             string     // where the service shows more
	AcceptedAt      *time.Time // when it took the request
	CreatedAt       time.Time
	UpdatedAt       time.Time
	EndedAt         *time.Time
}

// Subject is whose run asks.
type Subject struct {
	Organization ids.Organization
	Workspace    ids.Workspace
	Run          ids.Run
	Round        int
}

// Fix writes down what a round of a run will ask at the given stages, by what is configured now.
func Fix(ctx context.Context, tx postgres.Tx, of Subject, at ...Stage) error {
	wanted, err := postgres.All[struct {
		TaskID          ids.RunTask
		Name            string
		Stage           Stage
		WorkspaceTaskID ids.WorkspaceTask
		Enforcement     Enforcement
	}](ctx, tx, Queries.Get("Wanted"), postgres.Args{"organization_id": of.Organization, "workspace_id": of.Workspace, "stages": at})
	if err != nil {
		return fmt.Errorf("read the run tasks of %s: %w", of.Workspace, err)
	}
	made := map[Stage]ids.TaskStage{}
	for _, w := range wanted {
		if made[w.Stage] == "" {
			made[w.Stage] = ids.New[ids.TaskStage]()
			args := postgres.Args{"id": made[w.Stage], "organization_id": of.Organization, "run_id": of.Run, "round": of.Round, "stage": string(w.Stage)}
			if _, err := postgres.Exec(ctx, tx, Queries.Get("StageInsert"), args); err != nil {
				return fmt.Errorf("make a task stage of %s: %w", of.Run, err)
			}
		}
		args := postgres.Args{
			"id": ids.New[ids.TaskResult](), "organization_id": of.Organization, "stage_id": made[w.Stage], "task_id": w.TaskID, "task_name": w.Name,
			"workspace_task_id": w.WorkspaceTaskID, "enforcement": string(w.Enforcement),
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ResultInsert"), args); err != nil {
			return fmt.Errorf("make a task result of %s: %w", of.Run, err)
		}
	}
	return nil
}

// Channel is notified when requests are to be sent.
const Channel = "run_tasks"

// Begin begins a stage that is pending: its requests go out after the commit. begun is false when
// there is no such stage, or it has begun.
func Begin(ctx context.Context, tx postgres.Tx, run ids.Run, round int, stage Stage) (begun bool, err error) {
	id, err := postgres.Value[ids.TaskStage](ctx, tx, Queries.Get("StageBegin"), postgres.Args{"run_id": run, "round": round, "stage": string(stage)})
	if postgres.NoRow(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("begin the %s tasks of %s: %w", stage, run, err)
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("ResultsDue"), postgres.Args{"stage_id": id}); err != nil {
		return false, err
	}
	return true, postgres.Notify(ctx, tx, Channel, "")
}

// Close ends what is open of a run that has ended.
func Close(ctx context.Context, tx postgres.Tx, run ids.Run) error {
	for _, query := range []string{"StagesClose", "ResultsClose"} {
		if _, err := postgres.Exec(ctx, tx, Queries.Get(query), postgres.Args{"run_id": run}); err != nil {
			return fmt.Errorf("close the task stages of %s: %w", run, err)
		}
	}
	return nil
}

// Standing is whose result it is, and how it stands.
type Standing struct {
	RunID       ids.Run
	StageID     ids.TaskStage
	Stage       Stage
	StageStatus Status
	Status      Status
	Enforcement Enforcement
	TaskName    string
}

// StandingOf reads it. NotFound for an unknown result.
func StandingOf(ctx context.Context, tx postgres.Tx, result ids.TaskResult) (Standing, error) {
	st, err := postgres.One[Standing](ctx, tx, Queries.Get("ResultStage"), postgres.Args{"id": result})
	if postgres.NoRow(err) {
		return st, fault.Missing("task result", string(result))
	}
	return st, err
}

// Report is what is known of a result.
type Report struct {
	Status   Status
	Message  string // for people
	URL      string // where there is more
	Accepted bool   // the service has only taken the request
	Outcomes []Outcome
}

const (
	longestMessage = 4000 // bytes
	longestLink    = 2000
)

// Check refuses a report that a service may not make.
func (r Report) Check() error {
	switch r.Status {
	case Running, Passed, Failed:
	default:
		return accounts.Invalid("status", "Status must be running, passed or failed")
	}
	if err := accounts.CheckText("message", "Message", r.Message, longestMessage); err != nil {
		return err
	}
	if err := accounts.CheckText("url", "Url", r.URL, longestLink); err != nil {
		return err
	}
	for i, o := range r.Outcomes {
		if err := o.check(i); err != nil {
			return err
		}
	}
	return nil
}

// Note writes a report into a result that is open, in the caller's transaction, which holds the run's lock.
// Conflict "task_result_ended" for one that has ended.
func Note(ctx context.Context, tx postgres.Tx, result ids.TaskResult, r Report) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("ResultReport"), postgres.Args{
		"id": result, "status": string(r.Status), "message": r.Message, "url": r.URL, "accepted": r.Status == Running, "progress": r.Status == Running && !r.Accepted, "ended": r.Status.Ended(),
	})
	if err == nil && n == 0 {
		err = Ended(result)
	}
	if err != nil {
		return err
	}
	return keep(ctx, tx, result, r.Outcomes)
}

// Ended is the answer to a report about a result that has ended.
func Ended(result ids.TaskResult) error {
	return fault.New(fault.Conflict, "task_result_ended", "The task result %s has ended and does not change.", result)
}

// Settle ends a stage whose results allow it. status stays Running while some result is open and none that is
// mandatory has failed; why says in words what failed.
func Settle(ctx context.Context, tx postgres.Tx, stage ids.TaskStage) (status Status, why string, err error) {
	tally, err := postgres.One[struct {
		Open, Failed int
		Why          string
	}](ctx, tx, Queries.Get("StageTally"), postgres.Args{"stage_id": stage})
	switch {
	case err != nil:
		return "", "", err
	case tally.Failed > 0:
		status = Failed
	case tally.Open > 0:
		return Running, "", nil
	default:
		status = Passed
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("StageEnd"), postgres.Args{"id": stage, "status": string(status)})
	if err == nil && n != 1 {
		err = fmt.Errorf("end the task stage %s: %d rows", stage, n)
	}
	return status, tally.Why, err
}

// OfRun gives the task stages of a round, each with its results.
func OfRun(ctx context.Context, tx postgres.Tx, run ids.Run, round int) ([]TaskStage, error) {
	list, err := postgres.All[TaskStage](ctx, tx, Queries.Get("Stages"), postgres.Args{"run_id": run, "round": round})
	if err != nil {
		return nil, err
	}
	return list, withResults(ctx, tx, list)
}

// StageByID gives one of them.
func StageByID(ctx context.Context, tx postgres.Tx, id ids.TaskStage) (TaskStage, error) {
	one, err := postgres.One[TaskStage](ctx, tx, Queries.Get("StageByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return one, fault.Missing("task stage", string(id))
	}
	if err != nil {
		return one, err
	}
	list := []TaskStage{one}
	err = withResults(ctx, tx, list)
	return list[0], err
}

func withResults(ctx context.Context, tx postgres.Tx, list []TaskStage) error {
	wanted := make([]ids.TaskStage, len(list))
	for i, stage := range list {
		wanted[i] = stage.ID
	}
	results, err := postgres.All[Result](ctx, tx, Queries.Get("Results"), postgres.Args{"stage_ids": wanted})
	if err != nil {
		return err
	}
	for i := range list {
		for _, r := range results {
			if r.StageID == list[i].ID {
				list[i].Results = append(list[i].Results, r)
			}
		}
	}
	return nil
}

// ResultByID gives a result.
func ResultByID(ctx context.Context, tx postgres.Tx, id ids.TaskResult) (Result, error) {
	r, err := postgres.One[Result](ctx, tx, Queries.Get("ResultByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		err = fault.Missing("task result", string(id))
	}
	return r, err
}
