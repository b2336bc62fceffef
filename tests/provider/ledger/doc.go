// Package ledger is the file in which the test providers write what they really did.
//
// Owns: the format of the file, one JSON object per line (see the folder above).
// Words: event (what happened to an object), entry (one line).
// Invariants: entries are only appended, each in one write, so lines of providers that
// run at once do not mix and survive the end of the process (Record).
// Refuses: reading entries back. Tests do that.
// Tested by: ledger_test.go.
package ledger
