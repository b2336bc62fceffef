package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
)

// A run waits for its tasks in the status in which they are asked: queued before the plan, plan_complete after
// it, awaiting_approval before the apply. Durable statuses do not know of them.

// fixTasks writes down what the round that begins will ask.
func fixTasks(ctx context.Context, tx postgres.Tx, r Run) error {
	at := []runtasks.Stage{runtasks.PrePlan, runtasks.PostPlan, runtasks.PreApply}
	switch {
	case r.SourceRunID != "": // it applies a plan that is there
		at = at[2:]
	case r.PlanOnly:
		at = at[:2]
	}
	return runtasks.Fix(ctx, tx, runtasks.Subject{Organization: r.OrganizationID, Workspace: r.WorkspaceID, Run: r.ID, Round: r.Round}, at...)
}

// TaskStage tells how the run's tasks at a stage stand; empty when it asks none there.
func (r Run) TaskStage(stage runtasks.Stage) runtasks.Status {
	for _, one := range r.TaskStages {
		if parts := strings.Fields(one); parts[1] == string(stage) {
			return runtasks.Status(parts[2])
		}
	}
	return ""
}

// TaskStageIDs are the ids of the run's task stages, in the order in which it comes to them.
func (r Run) TaskStageIDs() (list []ids.TaskStage) {
	for _, one := range r.TaskStages {
		list = append(list, ids.TaskStage(strings.Fields(one)[0]))
	}
	return list
}

// WaitsForTasks names the stage whose tasks the run waits for now; empty when it waits for none.
func (r Run) WaitsForTasks() runtasks.Stage {
	for _, one := range r.TaskStages {
		if parts := strings.Fields(one); parts[2] == string(runtasks.Running) {
			return runtasks.Stage(parts[1])
		}
	}
	return ""
}

// awaitTasks begins the tasks of a stage the first time, and tells whether the run has to wait for
// them. r is as it is afterwards.
func awaitTasks(ctx context.Context, tx postgres.Tx, r *Run, stage runtasks.Stage) (wait bool, err error) {
	switch r.TaskStage(stage) {
	case "", runtasks.Passed:
		return false, nil
	case runtasks.Running:
		return true, nil
	}
	begun, err := runtasks.Begin(ctx, tx, r.ID, r.Round, stage)
	if err != nil {
		return false, err
	}
	if !begun {
		return false, fmt.Errorf("%s cannot ask its %s tasks: they are %s", r.ID, stage, r.TaskStage(stage))
	}
	*r, err = load(ctx, tx, r.ID)
	return true, err
}

// ReportTask writes down what is known of a task result, and lets the run go on or end by it.
// Conflict "task_result_ended" once it has ended, also because the run has.
func (s *Service) ReportTask(ctx context.Context, id ids.TaskResult, rep runtasks.Report) error {
	return postgres.InTx(ctx, s.db, "runs.report-task", func(tx postgres.Tx) error {
		r, st, err := lockTask(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case st.Status.Ended() || st.StageStatus != runtasks.Running:
			return runtasks.Ended(id)
		case rep.Accepted && st.Status == runtasks.Running:
			return nil // the service has said more already
		}
		return s.noteTask(ctx, tx, r, st, id, rep)
	})
}

// lockTask locks the run whose task it is.
func lockTask(ctx context.Context, tx postgres.Tx, id ids.TaskResult) (Run, runtasks.Standing, error) {
	st, err := runtasks.StandingOf(ctx, tx, id)
	if err != nil {
		return Run{}, st, err
	}
	r, _, err := lock(ctx, tx, st.RunID)
	if err != nil {
		return Run{}, st, err
	}
	st, err = runtasks.StandingOf(ctx, tx, id) // it may have ended while we waited
	return r, st, err
}

func (s *Service) noteTask(ctx context.Context, tx postgres.Tx, r Run, st runtasks.Standing, id ids.TaskResult, rep runtasks.Report) error {
	if err := runtasks.Note(ctx, tx, id, rep); err != nil || !rep.Status.Ended() {
		return err
	}
	status, why, err := runtasks.Settle(ctx, tx, st.StageID)
	if err != nil || status == runtasks.Running {
		return err
	}
	if r, err = load(ctx, tx, r.ID); err != nil {
		return err
	}
	if status == runtasks.Failed {
		return s.failTasks(ctx, tx, &r, st.Stage, why)
	}
	return s.passTasks(ctx, tx, &r, st.Stage)
}

// passTasks lets a run go on from where it waited.
func (s *Service) passTasks(ctx context.Context, tx postgres.Tx, r *Run, stage runtasks.Stage) error {
	switch {
	case stage == runtasks.PrePlan && r.DurableStatus == Queued:
		return askPlan(ctx, tx, *r)
	case stage == runtasks.PostPlan && r.DurableStatus == PlanComplete:
		return s.judge(ctx, tx, r)
	case stage == runtasks.PreApply && r.DurableStatus == AwaitingApproval:
		return s.prepareApply(ctx, tx, r)
	}
	return fmt.Errorf("%s is %s and does not wait for its %s tasks", r.ID, r.DurableStatus, stage)
}

// failTasks ends a run that a mandatory task is against.
func (s *Service) failTasks(ctx context.Context, tx postgres.Tx, r *Run, stage runtasks.Stage, why string) error {
	m := move{Actor: authz.System(), Reason: "run_task_failed", Message: "A mandatory run task has failed. " + why}
	switch stage {
	case runtasks.PrePlan:
		m.To = PlanFailed
	case runtasks.PostPlan: // the plan is good and forbidden, as by a policy
		if err := step(ctx, tx, r, move{To: PolicyEvaluating, Actor: m.Actor}); err != nil {
			return err
		}
		m.To = PolicyFailed
	default:
		m.To = ApplyFailed // it has not begun, so the workspace is free
	}
	return step(ctx, tx, r, m)
}

// expireTasks fails the results of services that took a request and did not answer in time.
func (s *Service) expireTasks(ctx context.Context) error {
	args := func() postgres.Args {
		return postgres.Args{"progress_seconds": s.settings.TaskProgress.Seconds(), "ttl_seconds": s.settings.TaskTTL.Seconds()}
	}
	return each(ctx, s, "runs.expire-tasks", runtasks.Queries, "Overdue", args(), func(tx postgres.Tx, id ids.TaskResult) error {
		r, st, err := lockTask(ctx, tx, id)
		if err != nil || st.StageStatus != runtasks.Running {
			return err
		}
		still := args()
		still["id"] = id
		overdue, err := postgres.Value[bool](ctx, tx, runtasks.Queries.Get("IsOverdue"), still)
		if err != nil || !overdue {
			return err
		}
		return s.noteTask(ctx, tx, r, st, id, runtasks.Report{Status: runtasks.Errored, Message: "The service has not answered in time."})
	})
}

// askPlan asks for the plan of an admitted run.
func askPlan(ctx context.Context, tx postgres.Tx, r Run) error {
	attempt, err := dispatch.Create(ctx, tx, dispatch.NewAttempt{
		Organization: r.OrganizationID, Workspace: r.WorkspaceID, Run: r.ID, Phase: authz.Plan, Epoch: r.FenceEpoch,
		TofuVersion: r.TerraformVersion, Speculative: r.PlanOnly,
	})
	if err != nil {
		return err
	}
	return stageExecutedBy(ctx, tx, r, PlanStage, attempt)
}

// TaskStagesOf gives the task stages of the round that a run is in, with their results.
func (s *Service) TaskStagesOf(ctx context.Context, actor authz.Actor, run ids.Run) (list []runtasks.TaskStage, err error) {
	err = s.ofRun(ctx, "runs.task-stages", actor, run, func(tx postgres.Tx, r Run) error {
		list, err = runtasks.OfRun(ctx, tx, r.ID, r.Round)
		return err
	})
	return list, err
}

// TaskStageByID gives one, and the run it is of.
func (s *Service) TaskStageByID(ctx context.Context, actor authz.Actor, id ids.TaskStage) (stage runtasks.TaskStage, r Run, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.task-stage", func(tx postgres.Tx) error {
		if stage, err = runtasks.StageByID(ctx, tx, id); err != nil {
			return err
		}
		r, err = visibleRun(ctx, tx, actor, stage.RunID)
		return missingAs(err, "task stage", string(id))
	})
	return stage, r, err
}

// TaskResultByID gives a result, and the stage it is of.
func (s *Service) TaskResultByID(ctx context.Context, actor authz.Actor, id ids.TaskResult) (result runtasks.Result, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.task-result", func(tx postgres.Tx) error {
		if result, err = runtasks.ResultByID(ctx, tx, id); err != nil {
			return err
		}
		st, err := runtasks.StandingOf(ctx, tx, id)
		if err != nil {
			return err
		}
		_, err = visibleRun(ctx, tx, actor, st.RunID)
		return missingAs(err, "task result", string(id))
	})
	return result, err
}

// TaskOutcomes gives a page of what the service of a result has found, and how many there are.
func (s *Service) TaskOutcomes(ctx context.Context, actor authz.Actor, id ids.TaskResult, page accounts.Page) (list []runtasks.Outcome, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.task-outcomes", func(tx postgres.Tx) error {
		st, err := runtasks.StandingOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, err := visibleRun(ctx, tx, actor, st.RunID); err != nil {
			return missingAs(err, "task result", string(id))
		}
		list, total, err = runtasks.Outcomes(ctx, tx, id, page)
		return err
	})
	return list, total, err
}

// OfTask gives the run that an open task result is about: its service may read what the run has
// made, for as long as it is asked. Conflict "task_result_ended" afterwards.
func (s *Service) OfTask(ctx context.Context, id ids.TaskResult) (r Run, err error) {
	err = postgres.InSnapshot(ctx, s.db, "runs.of-task", func(tx postgres.Tx) error {
		st, err := runtasks.StandingOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if st.Status.Ended() {
			return runtasks.Ended(id)
		}
		r, err = load(ctx, tx, st.RunID)
		return err
	})
	return r, err
}

func visibleRun(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run) (Run, error) {
	r, err := load(ctx, tx, run)
	if err != nil {
		return Run{}, err
	}
	return r, authz.Allow(actor, authz.RunRead, r.Object())
}

// missingAs lets NotFound name what was asked for and not the run that it belongs to.
func missingAs(err error, what, id string) error {
	if fault.Is(err, fault.NotFound) {
		return fault.Missing(what, id)
	}
	return err
}
