package dispatch

import (
	"context"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// EmergencyGrace is for how long after the end of an attempt's authority a state that
// tofu could not publish may still be handed over, as evidence.
const EmergencyGrace = time.Hour

const emergencyPrefix = "hfe_"

// Emergency is the capability to hand over a state that tofu could not publish. It is
// bound to one attempt, is good for nothing else, and is stored nowhere.
type Emergency struct {
	Token     string
	ExpiresAt time.Time
}

// Emergency gives the capability of an accepted apply; a zero one for other attempts.
func (s *Service) Emergency(a Attempt) Emergency {
	if a.Phase != authz.Apply || a.TokenExpiresAt == nil {
		return Emergency{}
	}
	ends := a.TokenExpiresAt.Add(EmergencyGrace)
	return Emergency{Token: emergencyPrefix + string(a.ID) + "." + s.links.Mint(emergencySubject(a), ends), ExpiresAt: ends}
}

func emergencySubject(a Attempt) string {
	return "emergency-state/" + string(a.ID) + "/" + a.SandboxID
}

// ByEmergency gives the attempt that an emergency capability is bound to, whether it has
// ended or not, until the capability's own end by the database's clock.
// Errors: Unauthenticated "unauthenticated" and "capability_expired".
func (s *Service) ByEmergency(ctx context.Context, token string) (a Attempt, err error) {
	refused := fault.New(fault.Unauthenticated, "unauthenticated", "This emergency capability is not valid.")
	rest, ok := strings.CutPrefix(token, emergencyPrefix)
	name, code, cut := strings.Cut(rest, ".")
	id, bad := ids.Parse[ids.Attempt](name)
	if !ok || !cut || bad != nil {
		return a, refused
	}
	err = postgres.InSnapshot(ctx, s.db, "dispatch.by-emergency", func(tx postgres.Tx) error {
		if a, err = Get(ctx, tx, id); err != nil {
			if fault.Is(err, fault.NotFound) {
				return refused
			}
			return err
		}
		if a.Phase != authz.Apply || a.TokenExpiresAt == nil || !s.links.Minted(code, emergencySubject(a)) {
			return refused
		}
		open, err := postgres.Value[bool](ctx, tx, Queries.Get("EmergencyOpen"), postgres.Args{"id": id, "grace_seconds": EmergencyGrace.Seconds()})
		if err == nil && !open {
			err = fault.New(fault.Unauthenticated, "capability_expired", "The time to hand over the state of attempt %s is over. Keep the file: an operator may push it with `tofu state push`.", id)
		}
		return err
	})
	return a, err
}

// RevokeAuthority takes what authority the attempts of a run still have: sessions end, and
// so does an attempt that nobody has reported about (RC-54).
func RevokeAuthority(ctx context.Context, tx postgres.Tx, run ids.Run) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("RevokeAuthority"), postgres.Args{"run_id": run})
	return err
}

// AuthorityActive tells whether nobody has taken the authority of an attempt.
func AuthorityActive(ctx context.Context, tx postgres.Tx, id ids.Attempt) (bool, error) {
	return postgres.Value[bool](ctx, tx, Queries.Get("AuthorityActive"), postgres.Args{"id": id})
}
