package recovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// Emergency is a state that tofu could not publish (errored.tfstate), as its runner
// handed it over, and what it is as the exact successor of the state that the run began
// with: the same bytes with the serial after that one (G-19). It is evidence. Only a
// recovery makes a state of it.
type Emergency struct {
	ID               ids.EmergencyState
	OrganizationID   ids.Organization
	WorkspaceID      ids.Workspace
	RunID            ids.Run
	AttemptID        ids.Attempt
	SandboxID        string
	ObjectID         ids.Object
	Size             int64
	SHA256           string `db:"sha256"`
	Serial           *int64 // nil for bytes that are no state file
	Lineage          string
	ClientEncrypted  bool
	TerraformVersion string
	ResourceCount    int
	NormalizedSerial *int64 // nil when it cannot be imported
	NormalizedSize   int64
	NormalizedSHA256 string `db:"normalized_sha256"`
	Obstacle         string // why it cannot be imported; empty when it can
	Late             bool   // its attempt had ended when it came
	ReceivedAt       time.Time
}

// Why an emergency state cannot be imported.
const (
	obstacleMalformed = "malformed"
	obstacleEncrypted = "client_encrypted"
	obstacleLineage   = "lineage_mismatch"
	obstacleSerial    = "serial_not_newer"
)

// mostEmergencies bounds what one attempt may hand over.
const mostEmergencies = 8

// TakeEmergency keeps a state that tofu could not publish. token is the emergency
// capability of its attempt, and digest the SHA-256, hex, of the bytes. The same bytes
// again are the same evidence.
// Errors: those of the capability; NotFound for another attempt's; Invalid
// "digest_mismatch"; TooLarge; Conflict "emergency_states_full".
func (s *Service) TakeEmergency(ctx context.Context, token string, attempt ids.Attempt, digest string, body io.Reader) (e Emergency, err error) {
	a, err := s.dispatch.ByEmergency(ctx, token)
	if err != nil {
		return e, err
	}
	if a.ID != attempt {
		return e, fault.Missing("attempt", string(attempt))
	}
	if earlier, err := s.handedOver(ctx, a.ID); err != nil {
		return e, err
	} else if len(earlier) >= mostEmergencies {
		for _, one := range earlier {
			if one.SHA256 == digest {
				return one, nil
			}
		}
		return e, fault.New(fault.Conflict, "emergency_states_full", "Attempt %s has handed over %d states already.", a.ID, len(earlier))
	}
	spec := artifacts.Spec{Organization: a.OrganizationID, Workspace: a.WorkspaceID, Kind: artifacts.KindEmergencyState, Run: a.RunID}
	if a.FenceEpoch != nil {
		spec.Epoch = *a.FenceEpoch
	}
	object, err := s.objects.Put(ctx, spec, body, s.settings.StateLimit)
	if err != nil {
		return e, err
	}
	e, err = s.keepEmergency(ctx, a, digest, object)
	if err != nil || e.ObjectID != object.ID {
		s.discard(ctx, a.OrganizationID, object.ID)
	}
	return e, err
}

func (s *Service) handedOver(ctx context.Context, attempt ids.Attempt) (list []Emergency, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.handed-over", func(tx postgres.Tx) error {
		list, err = postgres.All[Emergency](ctx, tx, Queries.Get("EmergencyOfAttempt"), postgres.Args{"attempt_id": attempt})
		return err
	})
	return list, err
}

// discard gives up an object that nothing points to; one that stays is only a waste.
func (s *Service) discard(ctx context.Context, org ids.Organization, id ids.Object) {
	_ = postgres.InTx(context.WithoutCancel(ctx), s.db, "recovery.discard", func(tx postgres.Tx) error { return s.objects.Discard(ctx, tx, org, id) })
}

func (s *Service) keepEmergency(ctx context.Context, a dispatch.Attempt, digest string, object artifacts.Object) (e Emergency, err error) {
	if digest != object.SHA256 {
		return e, fault.New(fault.Invalid, "digest_mismatch", "The bytes have the SHA-256 %s, not %q. Send them again.", object.SHA256, digest)
	}
	e, err = s.examine(ctx, a, object)
	if err != nil {
		return e, err
	}
	err = postgres.InTx(ctx, s.db, "recovery.keep-emergency", func(tx postgres.Tx) error {
		held, _, err := runs.Lock(ctx, tx, a.RunID) // so that no recovery decides without it
		if err != nil {
			return err
		}
		earlier, err := postgres.All[Emergency](ctx, tx, Queries.Get("EmergencyOfAttempt"), postgres.Args{"attempt_id": a.ID})
		if err != nil {
			return err
		}
		for _, one := range earlier {
			if one.SHA256 == object.SHA256 {
				e = one
				return nil
			}
		}
		e.Late = held.DurableStatus.Final()
		if e, err = postgres.One[Emergency](ctx, tx, Queries.Get("EmergencyInsert"), e.args()); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: a.OrganizationID, Actor: authz.Actor{Kind: authz.AttemptActor, Attempt: a.ID, Run: a.RunID}, Action: "state.emergency-kept", ObjectKind: "run", ObjectID: string(a.RunID),
			Details: map[string]any{"workspace": a.WorkspaceID, "emergency": e.ID, "sha256": e.SHA256, "size": e.Size, "normalized_sha256": e.NormalizedSHA256, "obstacle": e.Obstacle, "late": e.Late},
		})
	})
	return e, err
}

func (e Emergency) args() postgres.Args {
	args := postgres.Args{
		"id": e.ID, "organization_id": e.OrganizationID, "workspace_id": e.WorkspaceID, "run_id": e.RunID, "attempt_id": e.AttemptID, "sandbox_id": e.SandboxID, "object_id": e.ObjectID,
		"size": e.Size, "sha256": e.SHA256, "serial": e.Serial, "lineage": nil, "client_encrypted": e.ClientEncrypted, "terraform_version": e.TerraformVersion,
		"resource_count": e.ResourceCount, "normalized_serial": e.NormalizedSerial, "normalized_size": nil, "normalized_sha256": nil, "obstacle": e.Obstacle, "late": e.Late,
	}
	if e.Serial != nil {
		args["lineage"] = e.Lineage
	}
	if e.Obstacle == "" {
		args["normalized_size"], args["normalized_sha256"] = e.NormalizedSize, e.NormalizedSHA256
	}
	return args
}

// examine reads what was handed over, and what it is as the exact successor.
func (s *Service) examine(ctx context.Context, a dispatch.Attempt, object artifacts.Object) (e Emergency, err error) {
	e = Emergency{
		ID: ids.New[ids.EmergencyState](), OrganizationID: a.OrganizationID, WorkspaceID: a.WorkspaceID, RunID: a.RunID, AttemptID: a.ID, SandboxID: a.SandboxID,
		ObjectID: object.ID, Size: object.Size, SHA256: object.SHA256,
	}
	checked, err := s.state.Check(ctx, a.OrganizationID, object.ID)
	if fault.HasCode(err, "state_malformed") {
		e.Obstacle = obstacleMalformed
		return e, nil
	}
	if err != nil {
		return e, err
	}
	before, err := s.predecessor(ctx, a.RunID)
	if err != nil {
		return e, err
	}
	f := checked.File
	e.Serial, e.Lineage, e.ClientEncrypted, e.TerraformVersion, e.ResourceCount = &f.Serial, f.Lineage, f.Encrypted, f.TerraformVersion, f.ResourceCount
	next := int64(1)
	if before != nil {
		next = before.Serial + 1
	}
	switch {
	case f.Encrypted:
		e.Obstacle = obstacleEncrypted
	case before != nil && f.Lineage != before.Lineage:
		e.Obstacle = obstacleLineage
	case f.Serial < next:
		e.Obstacle = obstacleSerial
	default:
		e.NormalizedSerial = &next
		e.NormalizedSize, e.NormalizedSHA256, err = s.digestWithSerial(ctx, e, f, next)
	}
	return e, err
}

func (s *Service) predecessor(ctx context.Context, run ids.Run) (v *state.Version, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.predecessor", func(tx postgres.Tx) error {
		r, err := runs.Load(ctx, tx, run)
		if err != nil {
			return err
		}
		v, err = s.row(ctx, tx, r.PredecessorVersionID)
		return err
	})
	return v, err
}

// digestWithSerial gives size and SHA-256 of an emergency state with another serial.
func (s *Service) digestWithSerial(ctx context.Context, e Emergency, f state.File, serial int64) (size int64, digest string, err error) {
	body, _, err := s.objects.Open(ctx, e.OrganizationID, e.ObjectID)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = body.Close() }()
	hash := sha256.New()
	size, err = io.Copy(hash, f.WithSerial(body, serial))
	return size, hex.EncodeToString(hash.Sum(nil)), err
}

func emergencyOfRun(ctx context.Context, tx postgres.Tx, run ids.Run) ([]Emergency, error) {
	return postgres.All[Emergency](ctx, tx, Queries.Get("EmergencyOfRun"), postgres.Args{"run_id": run})
}

// DownloadEmergency gives the bytes of an emergency state as tofu wrote them. digest
// chooses one when there are several. The caller closes the reader. It takes the right
// to recover state.
// Errors: NotFound "no_emergency_state"; Invalid "emergency_state_ambiguous".
func (s *Service) DownloadEmergency(ctx context.Context, actor authz.Actor, run ids.Run, digest string) (io.ReadCloser, Emergency, error) {
	var one Emergency
	err := postgres.InSnapshot(ctx, s.db, "recovery.download-emergency", func(tx postgres.Tx) error {
		r, err := runs.Load(ctx, tx, run)
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.StateRecover, r.Object()); err != nil {
			return err
		}
		list, err := emergencyOfRun(ctx, tx, run)
		if err != nil {
			return err
		}
		found, refused := choose(Evidence{Run: r, Emergency: list}, digest)
		switch {
		case refused != nil && refused.Code == "emergency_state_ambiguous":
			return refused
		case refused != nil:
			return fault.New(fault.NotFound, "no_emergency_state", "%s has no such emergency state.", run)
		}
		one = found
		return nil
	})
	if err != nil {
		return nil, one, err
	}
	body, _, err := s.objects.Open(ctx, one.OrganizationID, one.ObjectID)
	return body, one, err
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
