// Package audit keeps who did what.
//
// Owns: table audit_entries. Words: entry (actor, action, object, reason, details,
// request), trail (the entries of one organization, the newest first).
// Invariants: an entry is inserted in the transaction of its action, so an action
// whose entry cannot be written does not happen; entries are never changed
// (trigger audit_is_append_only).
// Refuses: secrets and bodies; details hold ids, serials, digests and numbers.
// Tested by: audit_test.go, trail_test.go.
package audit
