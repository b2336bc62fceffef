// Package throttle bounds how many requests a second a token may make.
//
// Owns: the one count of requests by token of this process, for all APIs that are spoken to with
// tokens.
// Words: limit (so many requests a second), reset (how long until there may be another).
// Invariants: a token has one count, whichever API it is shown to; a burst has at most a whole
// second's; a run is never slowed down half-way; each answer says how it stands.
// Refuses: telling who asks, and whether it may: that is decided before.
// Tested by: limit_test.go, and tfeapi and scimapi on the wire.
package throttle
