package runs

import (
	"context"
	"errors"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// AssessmentInterval is how often a workspace is looked for drift, in hours.
const AssessmentInterval = 24

// startDestroys starts the destroy runs of workspaces whose instant for it has come. They
// are applied by themselves, as was decided when the instant was set.
func (s *Service) startDestroys(ctx context.Context) error {
	auto := true
	return s.startDue(ctx, "DestroysDue", "DestroyTake", nil, NewRun{
		IsDestroy: true, AutoApply: &auto, Source: SourceOfSchedules, Message: "Started because the time to destroy what the workspace manages has come",
	})
}

// startAssessments starts the daily look for drift: a run that only refreshes and changes
// nothing.
func (s *Service) startAssessments(ctx context.Context) error {
	return s.startDue(ctx, "AssessmentsDue", "AssessmentTake", postgres.Args{"hours": AssessmentInterval}, NewRun{
		PlanOnly: true, RefreshOnly: true, Source: SourceOfSchedules, Message: "Daily look for drift",
	})
}

// startDue starts one run for each workspace that a statement finds and another takes.
func (s *Service) startDue(ctx context.Context, find, take string, more postgres.Args, n NewRun) error {
	type due struct {
		ID          ids.Workspace
		AutomatedBy ids.User
	}
	args := postgres.Args{"limit": sweepBatch}
	for name, value := range more {
		args[name] = value
	}
	var list []due
	err := postgres.InSnapshot(ctx, s.db, "runs.due", func(tx postgres.Tx) (err error) {
		list, err = postgres.All[due](ctx, tx, Queries.Get(find), args)
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range list {
		err := postgres.InTx(ctx, s.db, "runs.start-due", func(tx postgres.Tx) error {
			args := postgres.Args{"id": d.ID}
			for name, value := range more {
				args[name] = value
			}
			taken, err := postgres.Exec(ctx, tx, Queries.Get(take), args)
			if err != nil || taken == 0 {
				return err
			}
			n.Workspace = d.ID
			return s.startUnasked(ctx, tx, d.AutomatedBy, n)
		})
		errs = append(errs, unlessClosed(err))
	}
	return errors.Join(errs...)
}

// unlessClosed leaves out that a launch control is closed: what is due stays so, and is
// tried again.
func unlessClosed(err error) error {
	if fault.Is(err, fault.Unavailable) && !fault.HasCode(err, "database_unavailable") {
		return nil
	}
	return err
}
