// Package fence decides who may write to a workspace.
//
// Owns: table workspace_fences, one row a workspace, which is also the lineage
// lock: whoever moves a state pointer or a queue holds it for update first.
// Words: holder (a user, team, run or recovery), epoch (a number that grows with
// every change of holder), token (workspace, epoch and holder: proof of holding),
// recovery-held (a run ended and nobody knows whether its writer stopped), lost (a run
// has authority that the database has forgotten: it is held in the run's name).
// Invariants: the epoch never falls and a new holder has a new epoch (trigger
// fence_epoch_grows); only the token with the current epoch and holder passes
// Guard; nothing but Release by the holder, Revoke or recovery frees a fence, and
// never the passing of time.
// Refuses: knowing what is written. It cannot stop a process from calling a cloud
// provider; it stops its state from becoming current.
// Tested by: fence_test.go, lost_test.go, reserve_test.go.
package fence
