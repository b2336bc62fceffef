// Package fault is the one vocabulary of errors that cross a package border.
//
// Owns: the kinds of failure, and the code and text that go with one.
// Words: kind (what a caller can do about it), code (a stable name such as
// "workspace_locked"), message (what happened and what to do next).
// Invariants: kinds are compared with errors.As through Is and KindOf, never by
// text; wrapping with %w keeps the kind.
// Refuses: HTTP. The table from kind to status stands in tfeapi/errors.go.
// Tested by: fault_test.go.
package fault
