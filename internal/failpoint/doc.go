// Package failpoint names the places where a test may place a crash.
//
// Owns: Here. Words: failpoint (a named line of code between two effects).
// Invariants: without the build tag "failpoint" Here does nothing and costs nothing.
// Refuses: any use outside crash tests.
// Tested by: tests/history, which crashes a server at each of them.
package failpoint
