package recovery

import (
	"context"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// successor is an emergency state as the state that follows the last publication of the
// same apply: the same bytes, with the serial after that one (G-20).
type successor struct {
	emergency ids.EmergencyState
	of        ids.StateVersion
	size      int64
	sha256    string
}

// followable gives the emergency state that may follow what the run published: the chain
// of publications is whole, and the state is a later one of the same lineage. The tofu that
// published the chain wrote it, so it holds what the last publication holds, and more.
func followable(e Evidence, digest string) (found Emergency, refused *fault.Error) {
	if refused := checkChain(e); refused != nil {
		return found, refused
	}
	if !e.PointerMoved() {
		return found, fault.New(fault.Conflict, "nothing_published", "%s published nothing that an emergency state could follow. If there is one, the resolution is %s.", e.Run.ID, ImportEmergencyState)
	}
	found, refused = choose(e, digest)
	if refused != nil {
		return found, refused
	}
	obstacle := ""
	switch {
	case found.Serial == nil:
		obstacle = obstacleMalformed
	case found.ClientEncrypted:
		obstacle = obstacleEncrypted
	case found.Lineage != e.Current.Lineage:
		obstacle = obstacleLineage
	case *found.Serial <= e.Current.Serial:
		obstacle = obstacleSerial
	default:
		return found, nil
	}
	return found, notSuccessor(e.Current, found, obstacle)
}

// successor reads the emergency state of a request that lets it follow the current state.
// That takes the object store, so it happens before the recovery is recorded, which then
// demands that the evidence is still the same. What the evidence does not allow is left to
// prepare, which says why.
func (s *Service) successor(ctx context.Context, run ids.Run, in Request) (next successor, err error) {
	if in.Resolution != ImportEmergencySuccessor {
		return next, nil
	}
	var current state.Version
	var found Emergency
	err = postgres.InSnapshot(ctx, s.db, "recovery.successor", func(tx postgres.Tx) error {
		held, err := runs.Load(ctx, tx, run)
		if err != nil {
			return err
		}
		status, err := fence.Read(ctx, tx, held.WorkspaceID)
		if err != nil {
			return err
		}
		e, err := s.gather(ctx, tx, held, status)
		if err != nil || resolvable(e, in.Resolution, in.digestOfEmergency()) != nil {
			return err
		}
		found, _ = followable(e, in.digestOfEmergency())
		current = *e.Current
		return nil
	})
	if err != nil || found.ID == "" {
		return next, err
	}
	checked, err := s.state.Check(ctx, found.OrganizationID, found.ObjectID)
	if err == nil && checked.Object.SHA256 != found.SHA256 {
		err = fault.New(fault.Internal, "sealed_object_corrupt", "The bytes are others.")
	}
	if err != nil {
		return next, sourceCorrupt(found, err)
	}
	next = successor{emergency: found.ID, of: current.ID}
	next.size, next.sha256, err = s.digestWithSerial(ctx, found, checked.File, current.Serial+1)
	return next, err
}

// sourceCorrupt is the answer to an emergency state that cannot be read; other errors pass.
func sourceCorrupt(e Emergency, err error) error {
	if !fault.HasCode(err, "object_missing") && !fault.HasCode(err, "sealed_object_corrupt") {
		return err
	}
	return fault.New(fault.Conflict, "recovery_source_corrupt", "The stored bytes of emergency state %s are not whole any more. Restore the object from a backup of the store and repeat the request, or give the recovery up with abandon-operation.", e.ID).Because(err)
}

// targetSerial is the serial that an emergency state gets as the target of a recovery.
func (s *Service) targetSerial(ctx context.Context, op Operation, e Emergency) (serial int64, err error) {
	if op.Resolution == ImportEmergencyState {
		return *e.NormalizedSerial, nil
	}
	err = postgres.InSnapshot(ctx, s.db, "recovery.target-serial", func(tx postgres.Tx) error {
		v, err := s.row(ctx, tx, op.CurrentVersionID)
		if err == nil {
			serial = v.Serial + 1
		}
		return err
	})
	return serial, err
}
