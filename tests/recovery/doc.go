// Package recovery interrupts applies of a real tofu in every way that the runbook knows
// (docs/recovery.md), recovers them over the API, and compares what is planned next with what
// the provider really made.
//
// Owns: the stories. Words: story (one interruption and its recoveries), plant (a workspace with
// a runner of its own, and where the story breaks them, a network and a server of its own), ledger
// (what the provider of tests/provider made, whatever tofu learned of it), gate (a file that a
// resource waits for, so that a story knows how far the apply is).
// Invariants: all plants stand on one `holdfast dev`, whose database and store they share; what a
// story breaks is only its own. A story waits for facts, never for time. Only processes that were
// started here are killed, by their id.
// Refuses: looking into the servers. One thing is written to the database: the last sign of life of
// a runner that is dead for sure is moved into the past, because servers wait ten minutes for it.
// Tested by: itself; `go test -v` prints how long the ordinary recovery took.
package recovery
