// Package gates decides whether a run may start now.
//
// Owns: tables launch_controls, organization_gates and allowed_releases, and the view
// closed_organizations. Words: gate (a condition outside of the run), launch controls
// (an operator's switch for the whole site and for regions), suspension (of one
// organization), release (a program: its version and its digest), allow-list
// (of the releases that may execute, or evaluate policies; an empty one allows every release), denial (what a closed gate says).
// Invariants: what cannot be read denies (PL-12, TestControlsThatCannotBeReadDeny); the
// releases of a run must stand in their lists (AU-07); every change is audited in its transaction.
// A gate stands before a start. It never touches what has started: callers ask before
// a first start and not before its repeat (AU-16).
// Refuses: knowing runs. Capacity is not a gate: it makes a run wait, not fail (G-26).
// Tested by: gates_test.go, and the gates_test.go of packages runs and tfeapi.
package gates
