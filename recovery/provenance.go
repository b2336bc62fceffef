package recovery

import (
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/state"
)

// checkAuthority demands that what the apply was given is still the run's: the lock, the
// reservation of the writer and the authorization (RC-21).
func checkAuthority(e Evidence, status fence.Status, active bool) *fault.Error {
	gone := func(what string) *fault.Error {
		return fault.New(fault.Conflict, "authority_not_active", "The %s of %s is not active any more, so what it published cannot be told from what others did. "+
			"Compare the state with the real infrastructure and use the way out on the server's host: holdfast admin break-glass %s", what, e.Run.ID, e.Run.ID)
	}
	switch r := e.Run; {
	case !status.RecoveryHeld || !status.HeldBy(fence.Run, string(r.ID)):
		return gone("lock")
	case !r.Occupies() || *r.FenceEpoch != status.Epoch:
		return gone("reservation of the workspace")
	case e.Attempt == nil || !active || e.Attempt.FenceEpoch == nil || *e.Attempt.FenceEpoch != status.Epoch:
		return gone("authorization to apply")
	}
	return nil
}

// checkChain demands that the current state is what the run began with, or leads back to
// it by publications of this very run, attempt, sandbox, lock and fence, all of them and
// at most 1,024 (RC-16…RC-18, RC-23).
func checkChain(e Evidence) *fault.Error {
	run, a := e.Run, e.Attempt
	if !e.PointerMoved() {
		if e.published > 0 {
			return fault.New(fault.Conflict, "publication_chain_invalid", "%s published %d states, and none of them is current.", run.ID, e.published)
		}
		return nil
	}
	if e.Current == nil {
		return fault.New(fault.Conflict, "provenance_mismatch", "The workspace had the state %s when %s began, and has none now.", run.PredecessorVersionID, run.ID)
	}
	at := e.Current.ID
	for i, v := range e.Publications {
		if i == mostPublications {
			return fault.New(fault.Conflict, "publication_chain_invalid", "More than %d publications lie between the state that %s began with and the current one.", mostPublications, run.ID)
		}
		if what := differs(e, v); what != "" {
			return fault.New(fault.Conflict, "provenance_mismatch", "State version %s was not published by this apply: its %s is another. (It is of run %q, attempt %q, sandbox %q, lock %s %q, fence %d; the apply is of run %q, attempt %q, sandbox %q, fence %d.)",
				v.ID, what, v.Run, v.Attempt, v.Sandbox, v.HolderKind, v.HolderID, v.Epoch, run.ID, a.ID, a.SandboxID, e.Epoch)
		}
		at = v.Base
	}
	if at != run.PredecessorVersionID {
		return fault.New(fault.Conflict, "publication_chain_invalid", "The publications of %s do not lead back to the state %q that it began with, but to %q.", run.ID, run.PredecessorVersionID, at)
	}
	if len(e.Publications) != e.published {
		return fault.New(fault.Conflict, "publication_chain_invalid", "%s published %d states, and only %d of them lead from the current one back to the state it began with.", run.ID, e.published, len(e.Publications))
	}
	return nil
}

// differs names the first thing in which a publication is not the apply's.
func differs(e Evidence, v state.Version) string {
	switch a := e.Attempt; {
	case v.Run != e.Run.ID:
		return "run"
	case v.Attempt != a.ID:
		return "attempt"
	case v.Sandbox != a.SandboxID:
		return "sandbox"
	case v.HolderKind != fence.Run || v.HolderID != string(e.Run.ID):
		return "lock"
	case v.Epoch != e.Epoch:
		return "fence"
	}
	return ""
}

// importable gives the emergency state that may follow the state the run began with
// (RC-24…RC-26). digest chooses one when there are several.
func importable(e Evidence, digest string) (found Emergency, refused *fault.Error) {
	if e.PointerMoved() || e.published > 0 {
		return found, fault.New(fault.Conflict, "predecessor_moved", "%s published state %s after it began, so an emergency state cannot take its place: it would overwrite what is newer. "+
			"Verify the current state instead; afterwards the emergency state can be downloaded and pushed with `tofu state push` under a lock.", e.Run.ID, versionID(e.Current))
	}
	found, refused = choose(e, digest)
	if refused != nil {
		return found, refused
	}
	if found.Obstacle != "" {
		return found, notSuccessor(e, found)
	}
	return found, nil
}

func choose(e Evidence, digest string) (found Emergency, refused *fault.Error) {
	for _, one := range e.Emergency {
		if digest != "" && (one.SHA256 == digest || one.NormalizedSHA256 == digest) {
			return one, nil
		}
	}
	switch {
	case digest != "" && len(e.Emergency) > 0:
		return found, fault.New(fault.Conflict, "evidence_mismatch", "No emergency state of %s has the SHA-256 %q. Read the evidence again.", e.Run.ID, digest)
	case len(e.Emergency) == 0:
		return found, fault.New(fault.Invalid, "emergency_state_missing", "The runner has handed over no emergency state of %s.", e.Run.ID)
	case len(e.Emergency) > 1:
		return found, fault.New(fault.Invalid, "emergency_state_ambiguous", "There are %d emergency states of %s. Name one by its digest.", len(e.Emergency), e.Run.ID)
	}
	return e.Emergency[0], nil
}

func notSuccessor(e Evidence, one Emergency) *fault.Error {
	serial, lineage := int64(0), ""
	if e.Before != nil {
		serial, lineage = e.Before.Serial, e.Before.Lineage
	}
	got := "no state file"
	if one.Serial != nil {
		got = describe(*one.Serial, one.Lineage)
	}
	wanted := describe(serial+1, lineage)
	var way string
	switch one.Obstacle {
	case obstacleEncrypted:
		way = "OpenTofu encrypted it, and refuses one whose serial was rewritten. Verify the current state, then download the emergency state and push it with `tofu state push` where the encryption keys are."
	case obstacleLineage:
		way = "It describes other infrastructure."
	case obstacleSerial:
		way = "It is not newer than the state that the apply began with."
	default:
		way = "Look at the bytes: they can be downloaded."
	}
	return fault.New(fault.Invalid, "emergency_state_not_successor", "The emergency state cannot follow the current one: expected %s, got %s. %s", wanted, got, way)
}

func describe(serial int64, lineage string) string {
	if lineage == "" {
		return "serial " + itoa(serial) + " of any lineage"
	}
	return "serial " + itoa(serial) + " of lineage " + lineage
}

// unresolved gives the claimed uploads whose bytes nobody has, by id.
func unresolved(e Evidence) map[ids.StateVersion]state.PendingUpload {
	found := map[ids.StateVersion]state.PendingUpload{}
	for _, u := range e.Uploads {
		if u.ClaimedAt != nil {
			found[u.ID] = u
		}
	}
	return found
}
