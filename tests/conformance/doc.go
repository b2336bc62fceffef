// Command conformance runs go-tfe's own integration tests against Holdfast.
//
// Owns: the compiled suite, the order of its tests, their score.
// Words: mode (cloud or enterprise: the suite skips different tests in each), planned
// (planned.json: each test that reaches a server, with the subtests it runs when it
// passes, by mode), kept (kept.txt: the tests that must pass), excluded (excluded.txt:
// the tests that cannot be run here, each with its reason), alone (alone.txt: the tests
// that need a server of their own, or one that those of a name share).
// Invariants: each test is a process of its own, because a panic ends a whole binary
// and some tests change the environment; a subtest that was planned and not reached
// counts as failed; a kept test that fails makes the exit code 1 (score_test.go).
// Refuses: judging Holdfast by anything but what the suite says.
// Tested by: score_test.go, and by running.
package main
