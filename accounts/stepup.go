package accounts

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// How long a step-up serves, when nothing else is set, and what may be set (RC-12).
const (
	DefaultStepUpWindow = 15 * time.Minute
	MinStepUpWindow     = time.Minute
	MaxStepUpWindow     = time.Hour
)

// stepUpRow is what the database knows about the step-up of who asks.
type stepUpRow struct {
	Enrolled  bool
	StepUpAt  *time.Time
	Fresh     bool
	HeldUntil *time.Time // a factor after a reset is held back until then
}

// RequireStepUp answers nil when the token or session that the actor came with was
// stepped up within the window, by the database's clock (RC-12, ER-11). tx must be able
// to write: the user's row is locked against a reset of the factor. Else it is
// Forbidden: step_up_not_possible for an actor that is no user with a token or session of
// its own (G-30), step_up_not_enrolled, factor_too_new within 24 hours of a factor
// enrolled after somebody's reset, or step_up_required with the meta max-age in seconds.
func (s *Service) RequireStepUp(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if err := canStepUp(actor); err != nil {
		return err
	}
	row, err := postgres.One[stepUpRow](ctx, tx, queries.Get("StepUpRequired"), s.stepUpArgs(actor))
	if postgres.NoRow(err) {
		return fault.Missing("user", string(actor.User))
	}
	if err != nil {
		return err
	}
	switch {
	case !row.Enrolled:
		return notEnrolled()
	case row.HeldUntil != nil:
		return fault.New(fault.Forbidden, "factor_too_new",
			"Your second factor was reset. The new one does not serve for this until %s, or until another site admin confirms the reset.",
			row.HeldUntil.UTC().Format("2006-01-02 15:04:05 UTC"))
	case !row.Fresh:
		maxAge := int(s.window.Seconds())
		return fault.New(fault.Forbidden, "step_up_required",
			"Prove once more who you are: POST /api/v2/account/actions/step-up with your password and a code. It then serves for %d seconds.", maxAge).With("max-age", maxAge)
	}
	return nil
}

// canStepUp refuses whoever has nothing that a step-up could be kept for.
func canStepUp(actor authz.Actor) error {
	if actor.Kind == authz.UserActor && (actor.Token != "" || actor.Session != "") {
		return nil
	}
	return fault.New(fault.Forbidden, "step_up_not_possible",
		"Only a person can do this: with a user token or a session of the web pages, stepped up by password and code. No other token can.")
}

func notEnrolled() error {
	return fault.New(fault.Forbidden, "step_up_not_enrolled",
		"This needs a second factor, and you have none. Enrol one on /app/settings/security or with POST /api/v2/account/totp.")
}

func (s *Service) stepUpArgs(actor authz.Actor) postgres.Args {
	session, err := hex.DecodeString(actor.Session)
	if err != nil {
		session = nil // no session has it
	}
	return postgres.Args{"user_id": actor.User, "token": actor.Token, "session": session, "window": s.window.Seconds()}
}
