// Command holdfast-runner asks a Holdfast server for runs and executes them with
// tofu. It speaks HTTP only and needs neither the database nor the object store.
//
// Owns: the flags, and what signals mean. The first SIGTERM or SIGINT lets a running
// attempt go on to its end and takes no further one; the second interrupts tofu.
// Words: those of package runner. Invariants: none of its own.
// Refuses: logic; it is in package runner.
// Tested by: runner's tests, and the whole by the end-to-end tests.
package main
