package accounts_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

const here = "192.0.2.1"

// device is what shows codes.
type device struct {
	world
	user     accounts.User
	secret   string
	recovery []string
}

// code is one that was not shown before: each call takes the next half minute, and the
// server forgets which it has seen.
func (d *device) code() string {
	d.Helper()
	d.exec("update totp_factors set last_step = 0 where user_id = @id", postgres.Args{"id": d.user.ID})
	return d.codeAt(0)
}

// codeAt is the code of so many half minutes from now, by the database's clock.
func (d *device) codeAt(steps int) string {
	d.Helper()
	seconds := d.count("select extract(epoch from clock_timestamp())::bigint", nil)
	code, err := totp.GenerateCode(d.secret, time.Unix(int64(seconds), 0).Add(time.Duration(steps)*30*time.Second))
	require.NoError(d, err)
	return code
}

// enrolled is a user with password and factor, and an actor of its with a token.
func (w world) enrolled(name string) (authz.Actor, *device) {
	w.Helper()
	u := w.user(name)
	actor := w.actor(u)
	require.NoError(w, w.SetPassword(ctx, system, name, password))
	return actor, w.enrol(actor, u)
}

func (w world) enrol(actor authz.Actor, u accounts.User) *device {
	w.Helper()
	begun, err := w.BeginTOTP(ctx, actor, password, "holdfast.test", here)
	require.NoError(w, err)
	d := &device{world: w, user: u, secret: begun.Secret}
	d.recovery, err = w.ConfirmTOTP(ctx, actor, d.codeAt(0), here)
	require.NoError(w, err)
	return d
}

func (w world) steppedUp(actor authz.Actor, d *device) {
	w.Helper()
	_, err := w.StepUp(ctx, actor, accounts.Proof{Password: password, Code: d.code()}, here)
	require.NoError(w, err)
}

func (w world) require(actor authz.Actor) error {
	return postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error { return w.RequireStepUp(ctx, tx, actor) })
}

func (w world) audited(action string) int {
	w.Helper()
	return w.count("select count(*) from audit_entries where action = @action", postgres.Args{"action": action})
}

// RC-12, ER-11: by the database's clock, for the window and not a second longer.
func TestAStepUpServesForItsWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, device := w.enrolled("ada")
	code := func(err error) string {
		for _, c := range []string{"step_up_required", "step_up_not_enrolled", "step_up_not_possible", "factor_too_new"} {
			if fault.HasCode(err, c) && fault.Is(err, fault.Forbidden) {
				return c
			}
		}
		return fmt.Sprint(err)
	}
	assert.Equal(t, "step_up_required", code(w.require(ada)), "an enrolment is no step-up")
	done, err := w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: device.code()}, here)
	require.NoError(t, err)
	assert.Equal(t, accounts.SteppedUp{At: done.At, Method: "password+totp", Window: 15 * time.Minute, RecoveryCodes: 10}, done)
	require.NoError(t, w.require(ada))

	age := func(seconds int) {
		w.exec("update tokens set step_up_at = clock_timestamp() - make_interval(secs => @s::float8) where step_up_at is not null", postgres.Args{"s": seconds})
	}
	age(840)
	assert.NoError(t, w.require(ada))
	age(901)
	err = w.require(ada)
	assert.Equal(t, "step_up_required", code(err))
	var stale *fault.Error
	require.ErrorAs(t, err, &stale)
	assert.Equal(t, map[string]any{"max-age": 900}, stale.Meta)

	w.steppedUp(ada, device)
	short := accounts.New(w.db, w.keys, accounts.StepUpWindow(time.Minute))
	age(61)
	assert.NoError(t, w.require(ada))
	err = postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error { return short.RequireStepUp(ctx, tx, ada) })
	assert.Equal(t, "step_up_required", code(err), "the window is configuration")

	bob := w.actor(w.user("bob"))
	assert.Equal(t, "step_up_not_enrolled", code(w.require(bob)))
	_, err = w.StepUp(ctx, bob, accounts.Proof{Password: password, Code: "123456"}, here)
	assert.Equal(t, "step_up_not_enrolled", code(err))
}

// G-30: only the token or session that the user came with, and nobody but a user.
func TestOnlyACredentialOfAPersonIsSteppedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, device := w.enrolled("ada")
	other := w.actor(device.user)
	secret, err := w.SignIn(ctx, "ada", password, here)
	require.NoError(t, err)
	session, err := w.AuthenticateSession(ctx, secret)
	require.NoError(t, err)

	w.steppedUp(ada, device)
	assert.NoError(t, w.require(ada))
	assert.True(t, fault.HasCode(w.require(other), "step_up_required"), "another token of the user")
	assert.True(t, fault.HasCode(w.require(session), "step_up_required"), "a session of the user")
	w.steppedUp(session, device)
	assert.NoError(t, w.require(session))

	asAnother := ada
	asAnother.User = w.user("bob").ID
	assert.True(t, fault.HasCode(w.require(asAnother), "step_up_not_enrolled"), "a stamp is its user's only")
	require.NoError(t, w.SignOut(ctx, session, secret))
	assert.True(t, fault.HasCode(w.require(session), "step_up_required"), "a session that is over")
	require.NoError(t, w.RevokeUserToken(ctx, ada, ada.Token))
	assert.True(t, fault.HasCode(w.require(ada), "step_up_required"), "a token that is revoked")
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: device.code()}, here)
	assert.True(t, fault.Is(err, fault.Unauthenticated))

	later := func() (actor authz.Actor) {
		require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
			actor, err = accounts.ActorOf(ctx, tx, device.user.ID)
			return err
		}))
		return actor
	}()
	for name, actor := range map[string]authz.Actor{
		"attempt": {Kind: authz.AttemptActor, User: device.user.ID, Token: other.Token}, "system": system,
		"in its user's name, later": later,
	} {
		assert.Truef(t, fault.HasCode(w.require(actor), "step_up_not_possible"), name)
		_, err := w.StepUp(ctx, actor, accounts.Proof{Password: password, Code: device.code()}, here)
		assert.Truef(t, fault.HasCode(err, "step_up_not_possible") && fault.Is(err, fault.Forbidden), name)
		_, err = w.BeginTOTP(ctx, actor, password, "x", here)
		assert.Truef(t, fault.HasCode(err, "step_up_not_possible"), name)
		_, err = w.ConfirmTOTP(ctx, actor, "123456", here)
		assert.Truef(t, fault.HasCode(err, "step_up_not_possible"), name)
	}
}

func TestEveryWrongProofIsRefusedAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, device := w.enrolled("ada")
	failed := func(what string, proof accounts.Proof) {
		t.Helper()
		_, err := w.StepUp(ctx, ada, proof, here)
		want := fault.New(fault.Forbidden, "step_up_failed", "The password or the code is wrong, or the code was used already. Wait for the next code and try again.")
		assert.Equal(t, want, err, what)
		assert.True(t, fault.HasCode(w.require(ada), "step_up_required"), what)
		w.exec("delete from sign_in_attempts", nil)
	}
	fresh := device.code()
	failed("wrong password", accounts.Proof{Password: "another horse battery", Code: fresh})
	failed("wrong code", accounts.Proof{Password: password, Code: wrongCode(device)})
	failed("no digits", accounts.Proof{Password: password, Code: "sesame"})
	failed("both wrong", accounts.Proof{Password: "x", Code: "y"})
	failed("of a minute ago", accounts.Proof{Password: password, Code: device.codeAt(-2)})
	failed("of the minute to come", accounts.Proof{Password: password, Code: device.codeAt(3)})
	failed("wrong recovery code", accounts.Proof{Password: password, RecoveryCode: "aaaa-bbbb-cccc-dddd"})
	failed("recovery code with a wrong password", accounts.Proof{Password: "x", RecoveryCode: device.recovery[0]})
	assert.Equal(t, 8, w.audited("user.step-up-failed"))
	_, err := w.StepUp(ctx, ada, accounts.Proof{Password: password}, here)
	assert.True(t, fault.Is(err, fault.Invalid), "no code")

	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, RecoveryCode: device.recovery[0]}, here)
	require.NoError(t, err, "neither the wrong password nor the wrong code used it up")
}

func wrongCode(d *device) string {
	right := map[string]bool{d.codeAt(-1): true, d.codeAt(0): true, d.codeAt(1): true, d.codeAt(2): true}
	for i := range 5 {
		if code := strings.Repeat(fmt.Sprint(i), 6); !right[code] {
			return code
		}
	}
	panic("five codes at once")
}

func TestACodeIsGoodOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, device := w.enrolled("ada")
	first := device.code()
	_, err := w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: first[:3] + " " + first[3:]}, here)
	require.NoError(t, err, "as devices show it")
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: first}, here)
	assert.True(t, fault.HasCode(err, "step_up_failed"), "a second time")
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: device.codeAt(-1)}, here)
	assert.True(t, fault.HasCode(err, "step_up_failed"), "one from before it")
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: device.codeAt(1)}, here)
	assert.NoError(t, err, "the next one, of a clock that is ahead")

	atOnce := device.code()
	w.exec("delete from sign_in_attempts", nil)
	var wg sync.WaitGroup
	var good atomic.Int32
	for range 4 {
		wg.Go(func() {
			if _, err := w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: atOnce}, here); err == nil {
				good.Add(1)
			} else {
				assert.True(t, fault.HasCode(err, "step_up_failed"), err)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, int32(1), good.Load(), "at the same time")
}

func TestGuessingCodesIsLockedOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, device := w.enrolled("ada")
	guess := func(proof accounts.Proof, address string) error {
		_, err := w.StepUp(ctx, ada, proof, address)
		return err
	}
	for i := range 5 {
		require.True(t, fault.HasCode(guess(accounts.Proof{Password: password, Code: wrongCode(device)}, fmt.Sprintf("192.0.2.%d", i)), "step_up_failed"))
	}
	for range 2 {
		err := guess(accounts.Proof{Password: password, Code: device.code()}, "198.51.100.1")
		require.True(t, fault.Is(err, fault.Exhausted) && fault.HasCode(err, "too_many_step_ups"), err)
	}
	assert.Equal(t, 1, w.audited("user.step-up-locked"), "once for the window")
	_, err := w.ConfirmTOTP(ctx, ada, "123456", here)
	assert.True(t, fault.Is(err, fault.Exhausted), "codes are not guessed there instead")
	_, err = w.BeginTOTP(ctx, ada, password, "x", here)
	assert.True(t, fault.Is(err, fault.Exhausted), "nor passwords")
	again := accounts.New(w.db, w.keys)
	_, err = again.StepUp(ctx, ada, accounts.Proof{Password: password, Code: device.code()}, here)
	assert.True(t, fault.Is(err, fault.Exhausted), "on another server too")
	_, err = w.SignIn(ctx, "ada", password, here)
	assert.NoError(t, err, "signing in has limits of its own")

	w.exec("update sign_in_attempts set since = clock_timestamp() - interval '15 minutes 1 second'", nil)
	assert.NoError(t, guess(accounts.Proof{Password: password, Code: device.code()}, here))
	for range 6 {
		assert.NoError(t, guess(accounts.Proof{Password: password, Code: device.code()}, here), "a right one takes its attempt back")
	}

	w.exec("update sign_in_attempts set attempts = 30 where attempts = 0", nil)
	assert.True(t, fault.Is(guess(accounts.Proof{Password: password, Code: device.code()}, here), fault.Exhausted), "from one address")
}

func TestAWrongGuessOfAnEnrolmentIsCountedToo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.actor(w.user("ada"))
	for range 5 {
		_, err := w.BeginTOTP(ctx, ada, password, "x", here)
		require.True(t, fault.HasCode(err, "step_up_failed"), "no password is no reason to do without")
	}
	_, err := w.BeginTOTP(ctx, ada, password, "x", here)
	assert.True(t, fault.Is(err, fault.Exhausted))
}
