package notifications

import (
	"context"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Trigger is a group of events that a configuration asks for, by Terraform Cloud's name.
type Trigger string

// The triggers that runs have.
const (
	Created        Trigger = "run:created"
	Planning       Trigger = "run:planning"
	NeedsAttention Trigger = "run:needs_attention"
	Applying       Trigger = "run:applying"
	Completed      Trigger = "run:completed"
	Errored        Trigger = "run:errored"

	// Verification is the trigger of a message that only asks whether the receiver answers.
	Verification Trigger = "verification"
)

// known are the triggers that a configuration may name. Those after the first line belong to
// things that this server does not do; they are kept and never fire.
var known = []Trigger{
	Created, Planning, NeedsAttention, Applying, Completed, Errored,
	"assessment:drifted", "assessment:check_failure", "assessment:failed",
	"workspace:auto_destroy_reminder", "workspace:auto_destroy_run_results", "change_request:created",
}

// triggersOf are those that a step of a run fires, given as durable statuses. ended tells
// whether the run had ended before it.
func triggersOf(from, to string, ended bool) []Trigger {
	switch to {
	case "queued": // a new run, or one that is requeued
		return []Trigger{Created}
	case "planning":
		return []Trigger{Planning}
	case "awaiting_approval":
		if from == "dispatch_pending" { // a promotion begins here
			return []Trigger{Created, NeedsAttention}
		}
		return []Trigger{NeedsAttention}
	case "applying":
		return []Trigger{Applying}
	case "succeeded":
		return []Trigger{Completed}
	case "dispatch_pending", "plan_complete", "policy_evaluating", "policy_passed":
		return nil // they pass within a moment
	}
	if ended {
		return nil // an operator recovers it
	}
	return []Trigger{Errored}
}

// Channel is notified when deliveries have been written.
const Channel = "notifications"

// RunStepped writes the deliveries of the step that the transaction has just put into the
// run's history (EV-01…EV-04). from and to are durable statuses.
func RunStepped(ctx context.Context, tx postgres.Tx, run ids.Run, from, to string, ended bool) error {
	for _, trigger := range triggersOf(from, to, ended) {
		err := postgres.Later(ctx, tx, Queries.Get("Record"), postgres.Args{"run_id": run, "trigger": string(trigger)}, func(rows int64) error {
			if rows == 0 {
				return nil // nobody has asked for it
			}
			return postgres.Notify(ctx, tx, Channel, "")
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Event is what a message tells: one step of a run. Of a verification only the first five are set.
type Event struct {
	Configuration     ids.NotificationConfiguration
	ConfigurationName string
	Trigger           Trigger
	WorkspaceName     string // of a verification empty, where the configuration is a project's
	OrganizationName  string

	RunID        ids.Run
	RunMessage   string
	RunCreatedAt time.Time
	RunCreatedBy string // a user's name
	WorkspaceID  ids.Workspace
	FromStatus   string // durable statuses
	ToStatus     string
	At           time.Time
	By           string // who made the step: a user's name, or the id of what did
	AutoApply    bool
	SavePlan     bool
	PlanOnly     bool
	HasChanges   bool
	PlanFinished bool   // before the step
	URL          string // of the run's page
}

// Name is the event's own name, such as run.requeued (docs/events.md).
func (e Event) Name() string {
	switch {
	case e.Trigger == Verification:
		return "verification"
	case e.Trigger == Created && e.FromStatus == "dispatch_pending":
		return "run.created"
	case e.ToStatus == "queued":
		return "run.requeued"
	case e.ToStatus == "awaiting_approval":
		return "run.approval_pending"
	default:
		return "run." + e.ToStatus
	}
}

// Title is the event in a few words.
func (e Event) Title() string {
	titles := map[string]string{
		"run.created": "Run Created", "run.requeued": "Run Requeued", "run.planning": "Run Planning", "run.approval_pending": "Run Needs Attention",
		"run.applying": "Run Applying", "run.succeeded": "Run Completed", "run.canceled": "Run Canceled", "run.rejected": "Run Discarded", "run.expired": "Run Expired",
		"run.policy_failed": "Run Refused by Policy", "run.needs_recovery": "Run Needs Recovery", "run.apply_interrupted": "Run Interrupted",
		"verification": "Verification of " + e.ConfigurationName,
	}
	if title := titles[e.Name()]; title != "" {
		return title
	}
	return "Run Errored"
}
