// Package instant is a server that has done everything before it is asked. What a tofu
// needs against it is the client's own time, which no server can undercut.
//
// Owns: the smallest documents that the client accepts for a remote plan and apply.
// Words: floor (the time of a command against this server).
// Invariants: every answer is ready at once: a run is over when it is made, a log is whole
// when it is first read (TestAPlanAndAnApplyAreOverAtOnce). It keeps nothing and runs nothing.
// Refuses: being right: each run of every configuration has the same plan.
// Tested by: server_test.go; the benchmarks run the real client against it.
package instant
