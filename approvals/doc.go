// Package approvals keeps decisions about plans, and what exactly each covers.
//
// Owns: table approvals. Words: decision (approved or rejected, by a person or
// recorded as that person's own because of auto-apply), binding (the digests a
// decision covers: plan, configuration, lock file, predecessor state, policy
// result), redeem (spend an approval on starting one apply).
// Invariants: a reviewer decides once per run (approvals_one_each); a decision is
// never changed, only spent, and spent once; an approval whose binding differs from
// the facts at the moment of applying applies nothing (AP-16, G-39).
// Refuses: knowing run statuses and deadlines; the caller checks those under the
// run's lock.
// Tested by: approvals_test.go.
package approvals
