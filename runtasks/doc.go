// Package runtasks asks services of others about runs.
//
// Owns: tables run_tasks, workspace_tasks, task_stages, task_results and task_result_outcomes. Words: run task (a
// service of somebody's, by its address), workspace task (that a workspace asks it, where and how
// strictly), global configuration (the same for all workspaces of the organization), task
// stage (what one round of a run asks at one point: before the plan, after it, before the apply),
// task result (what one task was asked, and what it said), outcome (one thing that it found), enforcement (what a failure does: advisory shows
// it, mandatory ends the run), callback (how the service answers, later).
// Invariants: what a run asks is fixed when its round begins (TestWhatARunAsksIsFixed of runs); a
// result is ended once; a request is sent at least once, signed, by one server at a time; a service
// that does not answer in time has failed. Address and key are sealed at rest.
// Refuses: moving a run, which runs does by what a stage came to; drawing requests, which tfeapi does.
// Tested by: task_test.go, tasks_test.go of runs, runtasks_test.go of tfeapi.
package runtasks
