package accounts

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/pquerna/otp"
	"github.com/pquerna/otp/hotp"
	"github.com/pquerna/otp/totp"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Factor is what a user may know about its own second factor: a device that shows
// time-based one-time passwords (TOTP, RFC 6238).
type Factor struct {
	EnrolledAt     *time.Time // nil: there is none
	RecoveryCodes  int        // not used yet
	HeldUntil      *time.Time // after a reset: until when it does not serve for a step-up
	SteppedUpUntil *time.Time // of the token or session that the actor came with; nil when that is not stepped up
}

// Factor gives the state of the actor's own factor. An actor that is no user is NotFound.
func (s *Service) Factor(ctx context.Context, actor authz.Actor) (f Factor, err error) {
	err = postgres.InSnapshot(ctx, s.db, "accounts.factor", func(tx postgres.Tx) error {
		f, err = s.factorState(ctx, tx, actor)
		return err
	})
	return f, err
}

func (s *Service) factorState(ctx context.Context, tx postgres.Tx, actor authz.Actor) (Factor, error) {
	type row struct {
		stepUpRow
		EnrolledAt    *time.Time
		RecoveryCodes int
	}
	r, err := postgres.One[row](ctx, tx, queries.Get("FactorState"), s.stepUpArgs(actor))
	if postgres.NoRow(err) {
		return Factor{}, fault.Missing("user", string(actor.User))
	}
	if err != nil {
		return Factor{}, err
	}
	f := Factor{EnrolledAt: r.EnrolledAt, RecoveryCodes: r.RecoveryCodes, HeldUntil: r.HeldUntil}
	if r.Fresh {
		until := r.StepUpAt.Add(s.window)
		f.SteppedUpUntil = &until
	}
	return f, nil
}

// Enrolment is what a device is set up with. It is shown once.
type Enrolment struct {
	Secret string // in base32, for typing
	URI    string // otpauth://totp/…, for a QR code or a link
}

// BeginTOTP makes the secret of a new factor for the actor, who shows its password: with a
// stolen token alone nobody makes a factor of its own. site names the server to the
// device. The factor counts once ConfirmTOTP has seen a code of it, within 15 minutes; to
// begin again replaces it. Errors: as StepUp, Conflict totp_enrolled when there is a
// factor already.
func (s *Service) BeginTOTP(ctx context.Context, actor authz.Actor, password, site, address string) (Enrolment, error) {
	if err := canStepUp(actor); err != nil {
		return Enrolment{}, err
	}
	checked, err := s.checkPassword(ctx, actor, password, address)
	if err != nil {
		return Enrolment{}, err
	}
	made, err := newEnrolment(site, actor.Name)
	if err != nil {
		return Enrolment{}, err
	}
	var refused error
	err = postgres.InTx(ctx, s.db, "accounts.begin-totp", func(tx postgres.Tx) error {
		refused = nil
		still, err := stillThePassword(ctx, tx, actor.User, checked)
		if err != nil {
			return err
		}
		if !still {
			refused = fault.New(fault.Forbidden, "step_up_failed", "The password is wrong, or you have none: the server's operator sets one with holdfast admin users set-password.")
			return audit.Append(ctx, tx, entryOf(actor, "user.step-up-failed", actor.User, map[string]any{"address": address}))
		}
		if err := forgiveStepUp(ctx, tx, actor, address); err != nil {
			return err
		}
		if err := s.insertFactor(ctx, tx, actor.User, made.Secret); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.totp-begun", actor.User, nil))
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return Enrolment{}, err
	}
	return made, nil
}

// codeOptions are those that every device knows.
var codeOptions = hotp.ValidateOpts{Digits: otp.DigitsSix, Algorithm: otp.AlgorithmSHA1}

const codePeriod = 30 // seconds; the statement Factor counts in the same steps

// newEnrolment makes a random secret. Device and user see site and name.
func newEnrolment(site, name string) (Enrolment, error) {
	key, err := totp.Generate(totp.GenerateOpts{
		Issuer: "Holdfast", AccountName: name + "@" + site, Period: codePeriod, Digits: codeOptions.Digits, Algorithm: codeOptions.Algorithm,
	})
	if err != nil {
		return Enrolment{}, err
	}
	return Enrolment{Secret: key.Secret(), URI: key.URL()}, nil
}

// CurrentCode gives the code that a device with that secret shows at an instant.
func CurrentCode(secret string, at time.Time) (string, error) {
	code, err := totp.GenerateCode(strings.TrimSpace(secret), at)
	if err != nil {
		return "", fault.New(fault.Invalid, "totp_secret_invalid", "That is no secret of a device: it must be base32, such as holdfast dev writes to DIR/admin-totp.")
	}
	return code, nil
}

func factorLabel(user ids.User) string { return "totp " + string(user) }

func (s *Service) insertFactor(ctx context.Context, tx postgres.Tx, user ids.User, secret string) error {
	root, sealed, err := s.sealer.SealSiteValue(ctx, factorLabel(user), []byte(secret))
	if err != nil {
		return err
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("FactorBegin"), postgres.Args{"user_id": user, "root_version": root, "secret_sealed": sealed})
	if err == nil && n == 0 {
		return fault.New(fault.Conflict, "totp_enrolled", "You have a second factor already. To replace it, step up with it and disable it first.")
	}
	return err
}

// factor is a user's factor, opened and locked.
type factor struct {
	secret    string
	confirmed bool
	abandoned bool  // begun and not confirmed in time
	lastStep  int64 // of the last code that was accepted
	step      int64 // of a code of now
}

// factor opens and locks the user's factor; none is the zero value.
func (s *Service) factor(ctx context.Context, tx postgres.Tx, user ids.User) (factor, error) {
	type row struct {
		RootVersion          int
		SecretSealed         []byte
		LastStep, Step       int64
		Confirmed, Abandoned bool
	}
	r, err := postgres.One[row](ctx, tx, queries.Get("Factor"), postgres.Args{"user_id": user})
	if postgres.NoRow(err) {
		return factor{}, nil
	}
	if err != nil {
		return factor{}, err
	}
	secret, err := s.sealer.OpenSiteValue(ctx, factorLabel(user), r.RootVersion, r.SecretSealed)
	return factor{string(secret), r.Confirmed, r.Abandoned, r.LastStep, r.Step}, err
}

// matches gives the time step of a code that is good now: that of this half minute, or
// the one before or after, because clocks differ. A step that was used, or one before it,
// is good no more. All are compared, however early one fits.
func (f factor) matches(code string) (step int64, ok bool) {
	code = strings.ReplaceAll(code, " ", "")
	for candidate := f.step - 1; candidate <= f.step+1; candidate++ {
		equal, err := hotp.ValidateCustom(code, uint64(candidate), f.secret, codeOptions)
		if err == nil && equal && candidate > f.lastStep {
			step, ok = candidate, true
		}
	}
	return step, ok
}

// ConfirmTOTP makes the factor that BeginTOTP began count, by a code of its device, and
// gives the recovery codes, which are shown once. Errors: Invalid totp_code_wrong,
// Conflict totp_not_begun, Exhausted as StepUp.
func (s *Service) ConfirmTOTP(ctx context.Context, actor authz.Actor, code, address string) (recoveryCodes []string, err error) {
	if err := canStepUp(actor); err != nil {
		return nil, err
	}
	if err := s.countStepUp(ctx, actor, address); err != nil {
		return nil, err
	}
	var refused error
	err = postgres.InTx(ctx, s.db, "accounts.confirm-totp", func(tx postgres.Tx) error {
		refused = nil
		if err := lockUser(ctx, tx, actor.User); err != nil {
			return err
		}
		begun, err := s.factor(ctx, tx, actor.User)
		if err != nil {
			return err
		}
		if begun.secret == "" || begun.confirmed || begun.abandoned {
			return fault.New(fault.Conflict, "totp_not_begun", "There is no enrolment to confirm. Begin one and confirm it within 15 minutes.")
		}
		step, right := begun.matches(code)
		if !right {
			refused = fault.New(fault.Invalid, "totp_code_wrong", "The code is wrong. See that the device's clock is right, wait for the next code and try again.").At("/data/attributes/code")
			return audit.Append(ctx, tx, entryOf(actor, "user.step-up-failed", actor.User, map[string]any{"address": address}))
		}
		if err := forgiveStepUp(ctx, tx, actor, address); err != nil {
			return err
		}
		if err := confirmFactor(ctx, tx, actor, actor.User, step); err != nil {
			return err
		}
		recoveryCodes, err = replaceRecoveryCodes(ctx, tx, actor.User, begun.secret)
		return err
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return nil, err
	}
	return recoveryCodes, nil
}

func confirmFactor(ctx context.Context, tx postgres.Tx, actor authz.Actor, user ids.User, step int64) error {
	n, err := postgres.Exec(ctx, tx, queries.Get("FactorConfirm"), postgres.Args{"user_id": user, "step": step})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(fault.Conflict, "totp_enrolled", "The second factor is confirmed already.")
	}
	return audit.Append(ctx, tx, entryOf(actor, "user.totp-enrolled", user, nil))
}

// DisableTOTP takes the actor's own factor away, with its recovery codes and every
// step-up. The actor must be stepped up (as RequireStepUp).
func (s *Service) DisableTOTP(ctx context.Context, actor authz.Actor) error {
	return postgres.InTx(ctx, s.db, "accounts.disable-totp", func(tx postgres.Tx) error {
		if err := lockUserOf(ctx, tx, actor); err != nil {
			return err
		}
		if err := s.RequireStepUp(ctx, tx, actor); err != nil {
			return err
		}
		if err := removeFactor(ctx, tx, actor.User); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("FactorResetForget"), postgres.Args{"user_id": actor.User}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.totp-disabled", actor.User, nil))
	})
}

// lockUserOf locks the actor's own row, first, so that a share of it need not grow.
func lockUserOf(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if err := canStepUp(actor); err != nil {
		return err
	}
	return lockUser(ctx, tx, actor.User)
}

// removeFactor takes a confirmed factor away, and what was proved by it.
func removeFactor(ctx context.Context, tx postgres.Tx, user ids.User) error {
	n, err := postgres.Exec(ctx, tx, queries.Get("FactorDelete"), postgres.Args{"user_id": user})
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.New(fault.Conflict, "totp_not_enrolled", "There is no second factor to take away.")
	}
	return clearStepUps(ctx, tx, user)
}

// ProvisionTOTP gives a user a factor without a device to confirm it, and gives its
// secret. Only the server's operator does that, for a user whose secret it keeps in a
// file. There are no recovery codes. Conflict totp_enrolled when there is a factor.
func (s *Service) ProvisionTOTP(ctx context.Context, actor authz.Actor, user User, site string) (Enrolment, error) {
	if actor.Kind != authz.SystemActor {
		return Enrolment{}, fault.New(fault.Forbidden, "forbidden", "Only the server's operator can do this, on its host.")
	}
	made, err := newEnrolment(site, user.Username)
	if err != nil {
		return Enrolment{}, err
	}
	err = postgres.InTx(ctx, s.db, "accounts.provision-totp", func(tx postgres.Tx) error {
		if err := lockUser(ctx, tx, user.ID); err != nil {
			return err
		}
		if err := s.insertFactor(ctx, tx, user.ID, made.Secret); err != nil {
			return err
		}
		return confirmFactor(ctx, tx, actor, user.ID, 0)
	})
	if err != nil {
		return Enrolment{}, err
	}
	return made, nil
}

// SiteOf gives the host that a device shows, of the server's public address.
func SiteOf(address string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return address
}
