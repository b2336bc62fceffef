package accounts

import (
	"context"
	"crypto/subtle"
	"encoding/hex"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
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

// demandStepUp is RequireStepUp for what weakens a factor or makes an admin. The host's
// operator can change the database anyway, and is only audited.
func (s *Service) demandStepUp(ctx context.Context, tx postgres.Tx, actor authz.Actor) error {
	if actor.Kind == authz.SystemActor {
		return nil
	}
	return s.RequireStepUp(ctx, tx, actor)
}

// What a user can step up by. Another factor is another method; what is stamped, and what
// is asked of the stamp, is the same for all.
const (
	methodCode         = "password+totp"
	methodRecoveryCode = "password+recovery-code"
)

// Proof is what a user proves itself by: the password, and a code of the device or, when
// that is lost, one of the recovery codes. Either code is good once.
type Proof struct{ Password, Code, RecoveryCode string }

// SteppedUp is a step-up that has just happened.
type SteppedUp struct {
	At            time.Time
	Method        string
	Window        time.Duration // how long it serves
	RecoveryCodes int           // not used yet
}

// StepUp stamps the token or session that the actor came with, by the database's clock
// (G-30). Nothing else of the user's is stepped up by it. address says where the request
// comes from. Errors: step_up_not_possible and step_up_not_enrolled as RequireStepUp;
// Forbidden step_up_failed for a wrong password, a wrong code and one that was used
// already alike; Exhausted too_many_step_ups.
func (s *Service) StepUp(ctx context.Context, actor authz.Actor, proof Proof, address string) (SteppedUp, error) {
	if err := canStepUp(actor); err != nil {
		return SteppedUp{}, err
	}
	if (proof.Code == "") == (proof.RecoveryCode == "") {
		return SteppedUp{}, Invalid("code", "Give either code or recovery-code, and the password")
	}
	state, err := s.Factor(ctx, actor)
	if err != nil {
		return SteppedUp{}, err
	}
	if state.EnrolledAt == nil {
		return SteppedUp{}, notEnrolled()
	}
	checked, err := s.checkPassword(ctx, actor, proof.Password, address)
	if err != nil {
		return SteppedUp{}, err
	}
	var done SteppedUp
	var refused error
	err = postgres.InTx(ctx, s.db, "accounts.step-up", func(tx postgres.Tx) error {
		refused = nil
		method, err := s.prove(ctx, tx, actor, proof, checked)
		if err != nil {
			return err
		}
		if method == "" {
			refused = stepUpFailed()
			return audit.Append(ctx, tx, entryOf(actor, "user.step-up-failed", actor.User, map[string]any{"address": address}))
		}
		if done, err = s.stamp(ctx, tx, actor, method); err != nil {
			return err
		}
		if err := forgiveStepUp(ctx, tx, actor, address); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.stepped-up", actor.User, map[string]any{"method": method, "credential": credentialOf(actor), "address": address}))
	})
	if err == nil {
		err = refused
	}
	if err != nil {
		return SteppedUp{}, err
	}
	return done, nil
}

func stepUpFailed() error {
	return fault.New(fault.Forbidden, "step_up_failed", "The password or the code is wrong, or the code was used already. Wait for the next code and try again.")
}

// checkedPassword is a password that was compared with the hash that then was the user's.
type checkedPassword struct {
	right bool
	hash  string
}

// checkPassword counts the attempt, then compares. A user without a password takes as
// long as any other. Errors: Exhausted.
func (s *Service) checkPassword(ctx context.Context, actor authz.Actor, password, address string) (checkedPassword, error) {
	if err := s.countStepUp(ctx, actor, address); err != nil {
		return checkedPassword{}, err
	}
	var hash string
	err := postgres.InOneStatement(ctx, s.db, "accounts.password-hash", func(tx postgres.Tx) (err error) {
		hash, err = postgres.Value[string](ctx, tx, queries.Get("PasswordHash"), postgres.Args{"user_id": actor.User})
		return err
	})
	if err != nil {
		return checkedPassword{}, err
	}
	right, err := s.passwords.matches(ctx, password, hash)
	return checkedPassword{right, hash}, err
}

// prove gives the method by which the user has proved itself, or "" when it has not. A
// code that was right beside a wrong password is not used up.
func (s *Service) prove(ctx context.Context, tx postgres.Tx, actor authz.Actor, proof Proof, checked checkedPassword) (method string, err error) {
	still, err := stillThePassword(ctx, tx, actor.User, checked)
	if err != nil {
		return "", err
	}
	factor, err := s.factor(ctx, tx, actor.User)
	if err != nil {
		return "", err
	}
	if !factor.confirmed {
		return "", notEnrolled()
	}
	step, right := factor.matches(proof.Code)
	switch {
	case !still:
		return "", nil
	case proof.RecoveryCode != "":
		used, err := useRecoveryCode(ctx, tx, actor.User, factor.secret, proof.RecoveryCode)
		if err != nil || !used {
			return "", err
		}
		return methodRecoveryCode, nil
	case !right:
		return "", nil
	}
	n, err := postgres.Exec(ctx, tx, queries.Get("FactorUse"), postgres.Args{"user_id": actor.User, "step": step})
	if err != nil || n == 0 {
		return "", err // no row cannot be while the factor is locked
	}
	return methodCode, nil
}

// stillThePassword tells whether a right password is still the user's: it may have been
// changed while we compared. The user's row stays locked.
func stillThePassword(ctx context.Context, tx postgres.Tx, user ids.User, checked checkedPassword) (bool, error) {
	if err := lockUser(ctx, tx, user); err != nil {
		return false, err
	}
	hash, err := postgres.Value[string](ctx, tx, queries.Get("PasswordHash"), postgres.Args{"user_id": user})
	return checked.right && subtle.ConstantTimeCompare([]byte(hash), []byte(checked.hash)) == 1, err
}

func lockUser(ctx context.Context, tx postgres.Tx, user ids.User) error {
	_, err := postgres.Value[ids.User](ctx, tx, queries.Get("UserLock"), postgres.Args{"user_id": user})
	if postgres.NoRow(err) {
		return fault.Missing("user", string(user))
	}
	return err
}

// stamp marks the token or session. One that is over in the meantime is Unauthenticated.
func (s *Service) stamp(ctx context.Context, tx postgres.Tx, actor authz.Actor, method string) (SteppedUp, error) {
	query := "TokenStepUp"
	if actor.Token == "" {
		query = "SessionStepUp"
	}
	args := s.stepUpArgs(actor)
	args["method"] = method
	at, err := postgres.Value[time.Time](ctx, tx, queries.Get(query), args)
	if postgres.NoRow(err) {
		return SteppedUp{}, unauthenticated()
	}
	if err != nil {
		return SteppedUp{}, err
	}
	state, err := s.factorState(ctx, tx, actor)
	return SteppedUp{At: at, Method: method, Window: s.window, RecoveryCodes: state.RecoveryCodes}, err
}

// clearStepUps ends every step-up of the user.
func clearStepUps(ctx context.Context, tx postgres.Tx, user ids.User) error {
	for _, query := range []string{"TokenStepUpsClear", "SessionStepUpsClear"} {
		if _, err := postgres.Exec(ctx, tx, queries.Get(query), postgres.Args{"user_id": user}); err != nil {
			return err
		}
	}
	return nil
}

// Attempts to prove oneself within a window of 15 minutes, right ones apart. Only who
// holds a credential of the user can use up the user's: guessing does not lock out the user
// on the sign-in page, nor anybody else.
const (
	stepUpsPerAddress = 30
	stepUpsPerUser    = 5
)

func stepUpSubjects(actor authz.Actor, address string) (byAddress, byUser []byte) {
	return subject("step-up-address", address), subject("step-up-user", string(actor.User))
}

// countStepUp counts the attempt before anything of it is looked at.
func (s *Service) countStepUp(ctx context.Context, actor authz.Actor, address string) error {
	byAddress, byUser := stepUpSubjects(actor, address)
	var passed *passedLimit
	err := postgres.InTx(ctx, s.db, "accounts.count-step-up", func(tx postgres.Tx) (err error) {
		passed, err = countAttempt(ctx, tx, []attemptLimit{{byAddress, stepUpsPerAddress, "from your address"}, {byUser, stepUpsPerUser, "as this user"}})
		if err != nil || passed == nil || !passed.first {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.step-up-locked", actor.User, map[string]any{"address": address, "limit": passed.where}))
	})
	if err != nil || passed == nil {
		return err
	}
	return fault.New(fault.Exhausted, "too_many_step_ups", "There were too many wrong passwords or codes %s. Try again in %d minutes.", passed.where, minutes(passed.seconds))
}

// forgiveStepUp takes a right attempt back.
func forgiveStepUp(ctx context.Context, tx postgres.Tx, actor authz.Actor, address string) error {
	byAddress, byUser := stepUpSubjects(actor, address)
	for _, subject := range [][]byte{byAddress, byUser} {
		if _, err := postgres.Exec(ctx, tx, queries.Get("SignInForgive"), postgres.Args{"subject": subject}); err != nil {
			return err
		}
	}
	return nil
}

// credentialOf names what the actor came with, for the audit log.
func credentialOf(actor authz.Actor) string {
	if actor.Token != "" {
		return string(actor.Token)
	}
	return "session"
}

func entryOf(actor authz.Actor, action string, user ids.User, details map[string]any) audit.Entry {
	return audit.Entry{Actor: actor, Action: action, ObjectKind: "user", ObjectID: string(user), Details: details}
}
