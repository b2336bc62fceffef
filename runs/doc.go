// Package runs drives a run from its creation to an honest end.
//
// Owns: tables runs, run_transitions, run_history, run_stages, run_receipts, late_reports,
// approval_arbitrations, configuration_versions, policy_checks, comments, plan_exports, run_triggers, triggered_runs and current_runs, and every operation that may free a workspace. Words: run (one
// request to plan, and perhaps apply, a configuration), durable status (the truth;
// wire statuses are a projection in tfeapi), step (one transition, with history and
// audit), admission (the run gets the workspace's fence and its predecessor state
// is pinned), occupy (hold the fence), held (ended without proof of what was
// written: only recovery frees the workspace), stage (the part of a run that people
// see it at), receipt (what a phase came to), review (all that was recorded), operation
// (what the run is for), round (one try of a run; a requeue begins the next), promotion
// (a run that applies the plan of another, its source), arbitration (the database says what
// has become of a wait for a decision).
// Invariants: only step changes a durable status, by the table in transitions.go,
// which the database enforces too (trigger run_steps_by_the_table); at most one run
// occupies a workspace (index runs_one_active); whatever may free a workspace ends
// with PromoteNext in the same transaction (QP-03); nothing ambiguous is called
// success: a run succeeds only by the transaction that proves its state (ST-03),
// and an apply that ended without proof keeps the fence (amendment 20).
// A run is at one stage at a time (index run_stages_one_open), which step opens and
// ends by the rules in stages.go; receipts, history and ended stages never change
// (triggers evidence_is_append_only). A run whose apply began is never requeued
// (trigger run_requeues_before_its_apply); a plan is applied once. A gate is asked
// before a first start, not before its repeat, and what it refuses waits (accept.go,
// authority.go). Authority that the database has forgotten holds its workspace
// (lost.go, primary.go). A step is told of in its transaction (notify.go), and a run A run under way is held to the approval rule of its plan's end and to
// Where policy sets have a say, a finished plan waits for its policy check: input and result
// are written once, and the result moves the run in its transaction (policy.go, evaluate.go).
// waits for the services it asks without a status of its own (tasks.go).
// that of now (vote.go); a wait is arbitrated by a request that is committed first (arbitrate.go).
// Which run is the current one of a workspace is also written down in current_runs, by which workspaces are
// found by its status: the database does it, with every change of a run (trigger keep_current_run, TestAnyHistoryKeepsTheRules).
// Refuses: HTTP, JSON:API, running tofu.
// Tested by: policy_test.go, transitions_test.go, create_test.go, plan_test.go, decide_test.go,
// apply_test.go, queue_test.go, sweep_test.go, log_test.go, structured_test.go,
// stages_test.go, operation_test.go, requeue_test.go, replan_test.go, promote_test.go,
// force_test.go, teardown_test.go, failure_test.go, gates_test.go, authority_test.go,
// primary_test.go, notify_test.go, tasks_test.go, cost_test.go, vote_test.go, arbitrate_test.go, and
// walk_test.go, which looks for a way out that forgets the next run.
package runs
