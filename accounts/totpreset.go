package accounts

import (
	"context"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ResetTOTP takes another user's factor away, with its recovery codes and every step-up:
// for a user who has lost the device and the recovery codes. The factor enrolled next
// does not serve for 24 hours unless a second site admin confirms the reset. For site
// admins, stepped up (as RequireStepUp), and the server's operator. Conflict
// totp_not_enrolled when there is no factor; Invalid for the actor's own.
func (s *Service) ResetTOTP(ctx context.Context, actor authz.Actor, user ids.User) (u User, err error) {
	if err := allowSite(actor, administer); err != nil {
		return User{}, err
	}
	if actor.User == user {
		return User{}, fault.New(fault.Invalid, "own_factor", "Your own factor is not reset but disabled: step up with it, or with a recovery code, and disable it.")
	}
	err = postgres.InTx(ctx, s.db, "accounts.reset-totp", func(tx postgres.Tx) error {
		if err := s.demandStepUp(ctx, tx, actor); err != nil {
			return err
		}
		if err := lockUser(ctx, tx, user); err != nil {
			return err
		}
		if err := removeFactor(ctx, tx, user); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("FactorWasReset"), postgres.Args{"user_id": user, "by": actor.ID()}); err != nil {
			return err
		}
		if u, err = findUser(ctx, tx, user); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.totp-reset", user, nil))
	})
	return u, err
}

// ConfirmTOTPReset says that somebody else's reset of a user's factor was right: the
// factor enrolled after it serves at once. For a site admin, stepped up (as
// RequireStepUp), who is neither the user nor the one who reset it: else Forbidden
// second_admin_required. Conflict totp_not_reset when nothing waits for it.
func (s *Service) ConfirmTOTPReset(ctx context.Context, actor authz.Actor, user ids.User) (u User, err error) {
	if err := allowSite(actor, administer); err != nil {
		return User{}, err
	}
	if actor.User == user {
		return User{}, secondAdminRequired()
	}
	err = postgres.InTx(ctx, s.db, "accounts.confirm-totp-reset", func(tx postgres.Tx) error {
		if err := s.RequireStepUp(ctx, tx, actor); err != nil {
			return err
		}
		if u, err = findUser(ctx, tx, user); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("FactorResetConfirm"), postgres.Args{"user_id": user, "by": actor.User})
		if err != nil {
			return err
		}
		if n == 0 {
			return notConfirmed(ctx, tx, actor, user)
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.totp-reset-confirmed", user, nil))
	})
	return u, err
}

// notConfirmed says why there was nothing to confirm.
func notConfirmed(ctx context.Context, tx postgres.Tx, actor authz.Actor, user ids.User) error {
	own, err := postgres.Value[bool](ctx, tx, queries.Get("FactorResetIsOwn"), postgres.Args{"user_id": user, "by": actor.User})
	if err != nil {
		return err
	}
	if own {
		return secondAdminRequired()
	}
	return fault.New(fault.Conflict, "totp_not_reset", "No reset of this user's factor waits to be confirmed.")
}

func secondAdminRequired() error {
	return fault.New(fault.Forbidden, "second_admin_required", "A reset is confirmed by a site admin who is neither the user nor the one who reset the factor.")
}
