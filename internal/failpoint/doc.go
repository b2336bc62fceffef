// Package failpoint names the places where a test may place a crash.
//
// Owns: Here. Words: failpoint (a named line of code between two effects).
// Invariants: without the build tag "failpoint" Here does nothing and costs nothing.
// Refuses: any use outside crash tests.
// Tested by: the crash tests of the packages that name a failpoint.
package failpoint
