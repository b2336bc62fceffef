// Package recovery lets an operator free a workspace that a run left held.
//
// Owns: the host-local way out. Words: held (an apply ended without proof of what
// it wrote), report (what is known about it), release (the operator vouches for the
// current state and the workspace goes on).
// What a session was in use for that the database did not know (runs.Authenticate) is
// released in the same way, though the run may be unknown. Invariants: only a run that holds its workspace for recovery can be released; the
// current state is what stays, nothing is imported and nothing is applied again
// (RC-59); the epoch grows, so a writer that still lives can never publish (RC-55);
// run.recovered and state.recovered are written in the same transaction (RC-58, TestRelease).
// Refuses: deciding whether the current state is right; the operator gives a reason.
// Tested by: recovery_test.go.
package recovery
