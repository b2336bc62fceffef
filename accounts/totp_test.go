package accounts_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pquerna/otp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestEnrolment(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.user("ada")
	ada := w.actor(u)
	require.NoError(t, w.SetPassword(ctx, system, "ada", password))
	_, err := w.BeginTOTP(ctx, ada, "another horse battery", "holdfast.test", here)
	require.True(t, fault.HasCode(err, "step_up_failed"), "a stolen token alone makes no factor")
	_, err = w.ConfirmTOTP(ctx, ada, "123456", here)
	require.True(t, fault.HasCode(err, "totp_not_begun"))

	replaced, err := w.BeginTOTP(ctx, ada, password, "holdfast.test", here)
	require.NoError(t, err)
	begun, err := w.BeginTOTP(ctx, ada, password, "holdfast.test", here)
	require.NoError(t, err)
	key, err := otp.NewKeyFromURL(begun.URI)
	require.NoError(t, err)
	assert.Equal(t, begun.Secret, key.Secret())
	assert.Equal(t, "ada@holdfast.test", key.AccountName())
	assert.Equal(t, "Holdfast", key.Issuer())
	parsed, err := url.Parse(begun.URI)
	require.NoError(t, err)
	assert.Equal(t, "otpauth", parsed.Scheme)

	state, err := w.Factor(ctx, ada)
	require.NoError(t, err)
	assert.Equal(t, accounts.Factor{}, state, "one that is only begun counts for nothing")
	assert.True(t, fault.HasCode(w.require(ada), "step_up_not_enrolled"))
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: "123456"}, here)
	assert.True(t, fault.HasCode(err, "step_up_not_enrolled"))

	_, err = w.ConfirmTOTP(ctx, ada, (&device{world: w, user: u, secret: replaced.Secret}).codeAt(0), here)
	assert.True(t, fault.HasCode(err, "totp_code_wrong"), "of the secret that was replaced")
	d := &device{world: w, user: u, secret: begun.Secret}
	used := d.codeAt(0)
	codes, err := w.ConfirmTOTP(ctx, ada, used, here)
	require.NoError(t, err)
	assert.Len(t, codes, 10)
	state, err = w.Factor(ctx, ada)
	require.NoError(t, err)
	require.NotNil(t, state.EnrolledAt)
	assert.Equal(t, accounts.Factor{EnrolledAt: state.EnrolledAt, RecoveryCodes: 10}, state)

	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: used}, here)
	assert.True(t, fault.HasCode(err, "step_up_failed"), "the code that confirmed is used")
	_, err = w.BeginTOTP(ctx, ada, password, "holdfast.test", here)
	assert.True(t, fault.HasCode(err, "totp_enrolled"), "a factor is not replaced without itself")
	w.exec("delete from sign_in_attempts", nil)
	_, err = w.ConfirmTOTP(ctx, ada, d.code(), here)
	assert.True(t, fault.HasCode(err, "totp_not_begun"))
	assert.Equal(t, 1, w.audited("user.totp-enrolled"))
}

func TestAnEnrolmentIsConfirmedInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.user("ada")
	ada := w.actor(u)
	require.NoError(t, w.SetPassword(ctx, system, "ada", password))
	begun, err := w.BeginTOTP(ctx, ada, password, "x", here)
	require.NoError(t, err)
	d := &device{world: w, user: u, secret: begun.Secret}
	w.exec("update totp_factors set created_at = clock_timestamp() - interval '15 minutes 1 second'", nil)
	_, err = w.ConfirmTOTP(ctx, ada, d.codeAt(0), here)
	require.True(t, fault.HasCode(err, "totp_not_begun"))
	w.exec("update totp_factors set created_at = clock_timestamp() - interval '13 minutes'", nil)
	_, err = w.ConfirmTOTP(ctx, ada, d.codeAt(0), here)
	require.NoError(t, err)
}

func TestSecretsOfAFactorAreInPlainNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, d := w.enrolled("ada")
	code := d.code()
	_, err := w.StepUp(ctx, ada, accounts.Proof{Password: password, Code: code}, here)
	require.NoError(t, err)
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, RecoveryCode: d.recovery[3]}, here)
	require.NoError(t, err)
	all := w.dump()
	assert.Contains(t, all, "user.stepped-up")
	assert.Contains(t, all, string(ada.Token), "the audit log names the credential")
	for _, secret := range []string{d.secret, `"` + code + `"`, d.recovery[3], strings.ToUpper(strings.ReplaceAll(d.recovery[3], "-", "")), password} {
		assert.NotContains(t, all, secret)
	}

	w.user("bob")
	w.exec(`insert into totp_factors (user_id, root_version, secret_sealed, confirmed_at)
	        select b.id, f.root_version, f.secret_sealed, f.confirmed_at from totp_factors f, users b where b.username = 'bob'`, nil)
	require.NoError(t, w.SetPassword(ctx, system, "bob", password))
	bob, err := w.UserByName(ctx, system, "bob")
	require.NoError(t, err)
	_, err = w.StepUp(ctx, w.actor(bob), accounts.Proof{Password: password, Code: d.codeAt(1)}, here)
	assert.True(t, fault.HasCode(err, "sealed_value_corrupt"), "a factor is its user's: moved to another it does not open")
}

func TestARecoveryCodeIsGoodOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, d := w.enrolled("ada")
	typed := strings.ToUpper(strings.ReplaceAll(d.recovery[0], "-", " "))
	done, err := w.StepUp(ctx, ada, accounts.Proof{Password: password, RecoveryCode: typed}, here)
	require.NoError(t, err)
	assert.Equal(t, "password+recovery-code", done.Method)
	assert.Equal(t, 9, done.RecoveryCodes)
	require.NoError(t, w.require(ada))
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, RecoveryCode: d.recovery[0]}, here)
	assert.True(t, fault.HasCode(err, "step_up_failed"))

	fresh, err := w.NewRecoveryCodes(ctx, ada)
	require.NoError(t, err)
	assert.Len(t, fresh, 10)
	assert.NotSubset(t, fresh, d.recovery)
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, RecoveryCode: d.recovery[1]}, here)
	assert.True(t, fault.HasCode(err, "step_up_failed"), "new codes end the old ones")
	_, err = w.StepUp(ctx, ada, accounts.Proof{Password: password, RecoveryCode: fresh[1]}, here)
	assert.NoError(t, err)
	assert.Equal(t, 1, w.audited("user.recovery-codes-made"))
}

// What weakens a factor, or makes somebody an admin, is not done with a stolen token.
func TestWhatWeakensAFactorNeedsAStepUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	root, rootDevice := w.enrolled("root")
	w.exec("update users set site_admin = true where username = 'root'", nil)
	root.SiteAdmin = true
	ada, adaDevice := w.enrolled("ada")
	org := w.organization("acme")
	eve := w.user("eve")
	acts := []struct {
		name string
		by   authz.Actor
		do   func(by authz.Actor) error
	}{
		{"disable the factor", ada, func(by authz.Actor) error { return w.DisableTOTP(ctx, by) }},
		{"new recovery codes", root, func(by authz.Actor) error { _, err := w.NewRecoveryCodes(ctx, by); return err }},
		{"make an owner", root, func(by authz.Actor) error { return w.AddMember(ctx, by, org.ID, eve.ID, authz.Owner) }},
		{"make a site admin", root, func(by authz.Actor) error {
			_, err := w.CreateUser(ctx, by, accounts.NewUser{Username: "boss", SiteAdmin: true})
			return err
		}},
		{"another's password", root, func(by authz.Actor) error { return w.SetPassword(ctx, by, "eve", "another horse battery") }},
		{"reset another's factor", root, func(by authz.Actor) error {
			_, err := w.ResetTOTP(ctx, by, w.enrolledAgain("zoe").ID)
			return err
		}},
		{"its own password", root, func(by authz.Actor) error { return w.SetPassword(ctx, by, "root", password+"!") }},
	}
	for _, act := range acts {
		assert.True(t, fault.HasCode(act.do(act.by), "step_up_required"), act.name)
	}
	assert.NoError(t, w.AddMember(ctx, root, org.ID, eve.ID, authz.Member), "a member is no admin")
	_, err := w.CreateUser(ctx, root, accounts.NewUser{Username: "frank"})
	assert.NoError(t, err, "nor is a user")
	w.steppedUp(ada, adaDevice)
	w.steppedUp(root, rootDevice)
	for _, act := range acts {
		assert.NoError(t, act.do(act.by), act.name)
	}
	assert.True(t, fault.HasCode(w.require(ada), "step_up_not_enrolled"), "disabling ends it all")
	assert.True(t, fault.HasCode(w.require(root), "step_up_required"), "a new password ends step-ups")
	assert.Zero(t, w.count("select count(*) from tokens where step_up_at is not null", nil))
	assert.NoError(t, w.SetPassword(ctx, system, "eve", password), "the host's operator is only audited")
}

// enrolledAgain is a user with a factor, also when there is one of that name.
func (w world) enrolledAgain(name string) accounts.User {
	w.Helper()
	u, err := w.UserByName(ctx, system, name)
	if err == nil {
		return u
	}
	_, d := w.enrolled(name)
	return d.user
}

func TestAFactorAfterAResetIsHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada, lost := w.enrolled("ada")
	admin := func(name string) authz.Actor {
		actor, d := w.enrolled(name)
		w.exec("update users set site_admin = true where username = @name", postgres.Args{"name": name})
		actor.SiteAdmin = true
		w.steppedUp(actor, d)
		return actor
	}
	one, two := admin("one"), admin("two")
	w.steppedUp(ada, lost)

	_, err := w.ResetTOTP(ctx, ada, lost.user.ID)
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.ResetTOTP(ctx, one, one.User)
	assert.True(t, fault.HasCode(err, "own_factor"))
	_, err = w.ConfirmTOTPReset(ctx, two, lost.user.ID)
	assert.True(t, fault.HasCode(err, "totp_not_reset"))
	u, err := w.ResetTOTP(ctx, one, lost.user.ID)
	require.NoError(t, err)
	assert.Equal(t, "ada", u.Username)
	assert.True(t, fault.HasCode(w.require(ada), "step_up_not_enrolled"))
	assert.Zero(t, w.count("select count(*) from tokens where user_id = @u and step_up_at is not null", postgres.Args{"u": ada.User}))
	_, err = w.ResetTOTP(ctx, one, lost.user.ID)
	assert.True(t, fault.HasCode(err, "totp_not_enrolled"))

	w.exec("update users set totp_reset_at = clock_timestamp() - interval '3 days' where totp_reset_at is not null", nil)
	device := w.enrol(ada, lost.user)
	w.steppedUp(ada, device)
	held := func() bool { return fault.HasCode(w.require(ada), "factor_too_new") }
	assert.True(t, held(), "the day begins with the new factor")
	assert.True(t, fault.HasCode(w.DisableTOTP(ctx, ada), "factor_too_new"), "that would begin it anew without the mark")
	state, err := w.Factor(ctx, ada)
	require.NoError(t, err)
	assert.WithinDuration(t, state.EnrolledAt.Add(24*time.Hour), *state.HeldUntil, 0)
	w.exec("update totp_factors set confirmed_at = clock_timestamp() - interval '23 hours 59 minutes' where after_reset", nil)
	assert.True(t, held())
	w.exec("update totp_factors set confirmed_at = clock_timestamp() - interval '24 hours 1 second' where after_reset", nil)
	assert.NoError(t, w.require(ada), "a day later")
	w.exec("update totp_factors set confirmed_at = clock_timestamp() where after_reset", nil)
	require.True(t, held())

	_, err = w.ConfirmTOTPReset(ctx, one, lost.user.ID)
	assert.True(t, fault.HasCode(err, "second_admin_required"), "who reset it")
	_, err = w.ConfirmTOTPReset(ctx, ada, lost.user.ID)
	assert.True(t, fault.Is(err, fault.Forbidden), "no admin")
	asAdmin := ada
	asAdmin.SiteAdmin = true
	_, err = w.ConfirmTOTPReset(ctx, asAdmin, lost.user.ID)
	assert.True(t, fault.HasCode(err, "second_admin_required"), "the user")
	_, err = w.ConfirmTOTPReset(ctx, system, lost.user.ID)
	assert.True(t, fault.HasCode(err, "step_up_not_possible"), "not even the host's operator")
	require.True(t, held())
	_, err = w.ConfirmTOTPReset(ctx, two, lost.user.ID)
	require.NoError(t, err)
	assert.NoError(t, w.require(ada))
	_, err = w.ConfirmTOTPReset(ctx, two, lost.user.ID)
	assert.True(t, fault.HasCode(err, "totp_not_reset"), "once")

	require.NoError(t, w.DisableTOTP(ctx, ada))
	again := w.enrol(ada, lost.user)
	w.steppedUp(ada, again)
	assert.NoError(t, w.require(ada), "a factor that its user replaced is nobody's reset")
	_, err = w.ResetTOTP(ctx, system, lost.user.ID)
	require.NoError(t, err)
	w.steppedUp(ada, w.enrol(ada, lost.user))
	assert.True(t, held(), "the host's operator resets as an admin does")
	w.exec("update totp_factors set confirmed_at = clock_timestamp() - interval '25 hours' where after_reset", nil)
	require.NoError(t, w.DisableTOTP(ctx, ada))
	w.steppedUp(ada, w.enrol(ada, lost.user))
	assert.NoError(t, w.require(ada), "a day later its user may replace it, and the next is not held back")
	assert.Equal(t, 2, w.audited("user.totp-reset"))
	assert.Equal(t, 1, w.audited("user.totp-reset-confirmed"))
}

func TestOnlyTheOperatorProvidesAFactor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	u := w.user("ada")
	ada := w.actor(u)
	require.NoError(t, w.SetPassword(ctx, system, "ada", password))
	_, err := w.ProvisionTOTP(ctx, ada, u, "x")
	require.True(t, fault.Is(err, fault.Forbidden))
	made, err := w.ProvisionTOTP(ctx, system, u, "x")
	require.NoError(t, err)
	w.steppedUp(ada, &device{world: w, user: u, secret: made.Secret})
	assert.NoError(t, w.require(ada))
	_, err = w.ProvisionTOTP(ctx, system, u, "x")
	assert.True(t, fault.HasCode(err, "totp_enrolled"))
	_, err = accounts.CurrentCode("not base32!", time.Unix(0, 0))
	assert.True(t, fault.HasCode(err, "totp_secret_invalid"))
	code, err := accounts.CurrentCode("GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ\n", time.Unix(59, 0))
	require.NoError(t, err)
	assert.Equal(t, "287082", code, "RFC 6238, appendix B")
}
