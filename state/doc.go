// Package state keeps the state versions of a workspace and the pointer to the
// current one.
//
// Owns: tables state_versions, current_states, state_outputs. Words: version (one
// state file, byte for byte as the client sent it), begin (announce an upload),
// claim (bytes start to arrive, and are intended as an object), finalize (confirm the
// object and make it current), base (the version that was current when the upload
// began), publication (a version that became current).
// Invariants: only the holder of the fence's current epoch publishes, and lineage,
// serial and base are checked in the transaction that moves the pointer (ST-15,
// ST-16, ST-19); the bytes decide, not what was declared about them; a finalized
// version never changes (trigger state_version_is_final); the pointer shows only
// finalized versions (trigger current_state_is_finalized); bytes that were refused
// are kept as evidence, never as current; of a workspace that insists on client-side
// encryption nothing is published or kept beside the state that the server can read
// (encrypted_test.go); a force and a rollback advance the epoch, so that nothing begun
// before them is published after them (ST-22); a server that dies anywhere in an upload
// leaves one that can be repeated (crash_test.go); what acknowledges is on disk, and the
// store has no state whose claim is not (claim_test.go).
// Refuses: re-encoding a state; knowing what a resource is.
// Tested by: state_test.go, encrypted_test.go, fence_test.go, race_test.go, crash_test.go, claim_test.go, effort_test.go,
// file_test.go, s3_test.go, successor_test.go; what a recovery needs of it in package recovery.
package state
