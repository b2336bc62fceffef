// Package recovery lets an operator free a workspace that a run left held.
//
// Owns: tables emergency_states and recovery_operations. Words: held (an apply ended
// without proof of what it wrote), evidence (what is known of it), emergency state (an
// errored.tfstate, as tofu wrote it), operation (one recovery: prepared, then committed),
// principal (whose it is, by a lease), take over (it changes hands after the lease),
// resolution (what the state is in the end), target (the state that will be current),
// release (the way out on the server's host, which takes the current state as it is).
// A run may also be held that its own row does not tell of (lost.go); only release ends that.
// Invariants: only a run that holds its workspace for recovery can be recovered, once
// (index recovery_operations_one_open); nothing is applied again (RC-59); everything that
// is decided is read under the lineage lock, when it is prepared and again when it is
// committed (RC-22, TestCommitLooksAtTheEvidenceAgain); what becomes current is fixed when
// it is prepared (trigger recovery_keeps_its_target) and read to its end before (RC-40);
// an emergency state is evidence and changes nothing; the epoch grows, so a writer that
// still lives can never publish (RC-55); run.recovered and state.recovered are written in the
// same transaction (RC-58).
// Refuses: deciding whether the current state is right; the operator gives a reason.
// Tested by: recovery_test.go (on the host), evidence_test.go, provenance_test.go,
// emergency_test.go, uploads_test.go, lease_test.go, operation_test.go.
package recovery
