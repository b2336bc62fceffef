// Package wire holds the messages of the runner protocol, shared by the server's
// runnerapi and by the runner.
//
// Owns: paths, headers and JSON bodies of the protocol. Words: group (runners that
// share a token), runner (one process of a group, known from its first poll),
// attempt (one execution of one phase of a run), manifest (everything an attempt is
// allowed and told to do, fixed by the server at accept), transfer (how to get or
// put one artifact).
//
// The order of calls of one attempt:
//
//	poll → ready → accept → bootstrap → (get inputs) → [apply: apply-start] → logs…, status… →
//	(put artifacts) → [apply: state-confirmation] → done → deregister
//
// Poll, ready, accept and deregister carry the group token. Bootstrap carries the capability
// that accept answers, which is good once and for minutes; all calls after it carry the attempt
// token that it is redeemed for. A runner that does not ask accept for a capability gets the
// token from accept itself, and leaves bootstrap out. apply-start is the
// point of no return: without its answer `tofu apply` is not started. Every call may
// be repeated after a lost answer; the exact repeat gets the same answer. A runner
// that deregisters gives back what it was offered and never accepted.
//
// Refusals of capabilities: 401 "capability_expired", 403 "capability_mismatch" (another phase,
// sandbox or runner), 409 "capability_replayed" (redeemed before, with something else). 423
// "authority_lost" means that the server's database has lost the session: nothing is taken any more, the
// workspace is held.
//
// docs/runner-protocol.md says the same, with refusals and timings, for those who write
// another runner.
//
// Invariants: no credential and no secret value is in a poll answer or in a
// manifest; variables travel as an input of their own.
// Refuses: behaviour; it is data only.
// Tested by: runnerapi's and runner's tests, which speak it over HTTP, and
// document_test.go, which compares it with the document.
package wire
