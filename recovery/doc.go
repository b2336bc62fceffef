// Package recovery lets an operator free a workspace that a run left held.
//
// Owns: tables emergency_states, recovery_operations and lost_recoveries. Words: held (an
// apply ended without proof of what it wrote), evidence (what is known of it), emergency state (an
// errored.tfstate, as tofu wrote it), operation (one recovery: prepared, then committed),
// principal (whose it is, by a lease), take over (it changes hands after the lease),
// resolution (what the state is in the end), target (the state that will be current),
// release (the way out on the server's host, which takes the current state as it is),
// doubt (the first thing a person has to look at; the ordinary failure has none), policy (the
// server recovering what is in no doubt, where a workspace's settings say so).
// A run may also be held that its own row does not tell of (lost.go); an operator vouches for
// the current state then (vouch.go), or releases it.
// Invariants: only a run that holds its workspace for recovery can be recovered, once
// (index recovery_operations_one_open); nothing is applied again (RC-59); everything that
// is decided is read under the lineage lock, when it is prepared and again when it is
// committed (RC-22, TestCommitLooksAtTheEvidenceAgain); what becomes current is fixed when
// it is prepared (trigger recovery_keeps_its_target) and read to its end before (RC-40);
// an emergency state is evidence and changes nothing; the epoch grows, so a writer that
// still lives can never publish (RC-55); run.recovered and state.recovered are written in the
// same transaction (RC-58).
// the policy asks for the very recovery that a person would, and touches nothing that is in
// doubt (TestOnlyTheOrdinaryFailureIsProven).
// Refuses: deciding whether the current state is right; the operator gives a reason.
// Tested by: recovery_test.go (on the host), evidence_test.go, provenance_test.go,
// emergency_test.go, uploads_test.go, lease_test.go, operation_test.go, proven_test.go,
// vouch_test.go.
package recovery
