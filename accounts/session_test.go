package accounts_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

const password = "correct horse battery"

// withPassword is a user who can sign in.
func (w world) withPassword(name string) accounts.User {
	w.Helper()
	u := w.user(name)
	require.NoError(w, w.SetPassword(ctx, system, name, password))
	return u
}

func (w world) signIn(name string) string {
	w.Helper()
	session, err := w.SignIn(ctx, name, password, "192.0.2.1")
	require.NoError(w, err)
	return session
}

func TestASessionActsAsItsUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.withPassword("ada")
	org := w.organization("one")
	require.NoError(t, w.AddMember(ctx, system, org.ID, ada.ID, authz.Owner))
	session := w.signIn("ada")

	actor, err := w.AuthenticateSession(ctx, session)
	require.NoError(t, err)
	byToken := w.actor(ada)
	assert.NotEmpty(t, byToken.Token)
	assert.NotEmpty(t, actor.Session)
	assert.NotContains(t, session, actor.Session)
	byToken.Token, byToken.Session = "", actor.Session
	assert.Equal(t, byToken, actor, "the same as by a token")
	_, err = w.Authenticate(ctx, session)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "a session is no token")
	token, _, err := w.CreateUserToken(ctx, system, ada.ID, "", 0)
	require.NoError(t, err)
	_, err = w.AuthenticateSession(ctx, token)
	assert.True(t, fault.Is(err, fault.Unauthenticated), "a token is no session")

	dump := w.dump()
	assert.NotContains(t, dump, session[4:])
	assert.NotContains(t, dump, password)
	assert.Equal(t, 1, w.count("select count(*) from audit_entries where action = 'user.signed-in' and actor_id = @id and details->>'address' = '192.0.2.1'", postgres.Args{"id": ada.ID}))
}

func TestSignInRefusesAllAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	w.user("without")
	_, wrong := w.SignIn(ctx, "ada", "not the password", "192.0.2.1")
	require.Error(t, wrong)
	for name, try := range map[string][2]string{
		"unknown": {"nobody", password}, "no password": {"without", ""}, "no password, guessed": {"without", password}, "empty": {"", ""},
		"NUL": {"ada\x00", password}, "no UTF-8": {"\xff", password}, "other case": {"Ada", password},
		"NUL in the password": {"ada", password + "\x00"}, "endless password": {"ada", strings.Repeat("x", 1<<20)},
	} {
		_, err := w.SignIn(ctx, try[0], try[1], "192.0.2.1")
		assert.Truef(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
		assert.EqualErrorf(t, err, wrong.Error(), "%s", name)
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.withPassword("ada")
	asAda := w.actor(ada)
	over := func(session, why string) {
		t.Helper()
		_, err := w.AuthenticateSession(ctx, session)
		assert.Truef(t, fault.Is(err, fault.Unauthenticated), "%s: %v", why, err)
	}
	over("", "none")
	over("hfs_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "unknown")

	idle := w.signIn("ada")
	w.exec("update sessions set seen_at = clock_timestamp() - interval '11 hours 59 minutes'", nil)
	_, err := w.AuthenticateSession(ctx, idle)
	require.NoError(t, err)
	assert.Equal(t, 1, w.count("select count(*) from sessions where seen_at > clock_timestamp() - interval '1 minute'", nil), "looking at a page keeps it alive")
	w.exec("update sessions set seen_at = clock_timestamp() - interval '12 hours'", nil)
	over(idle, "idle")

	old := w.signIn("ada")
	w.exec("update sessions set created_at = clock_timestamp() - interval '7 days'", nil)
	over(old, "old, though in use")

	left, other := w.signIn("ada"), w.signIn("ada")
	require.NoError(t, w.SignOut(ctx, asAda, left))
	require.NoError(t, w.SignOut(ctx, asAda, left), "a second time")
	over(left, "signed out")
	_, err = w.AuthenticateSession(ctx, other)
	require.NoError(t, err, "the other browser stays signed in")
	bob := w.actor(w.user("bob"))
	require.NoError(t, w.SignOut(ctx, bob, other))
	_, err = w.AuthenticateSession(ctx, other)
	require.NoError(t, err, "nobody signs out another user")

	require.NoError(t, w.SetPassword(ctx, system, "ada", "another horse battery"))
	over(other, "the password was changed")
	_, err = w.SignIn(ctx, "ada", password, "192.0.2.1")
	assert.True(t, fault.Is(err, fault.Unauthenticated), "the old password")
}

// TestAPasswordChangedDuringSignInCounts: the sign-in has compared the old password when
// the new one is stored, and waits for that.
func TestAPasswordChangedDuringSignInCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	answer := make(chan error, 1)
	require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update users set password_hash = 'new' where username = 'ada'", nil)
		go func() {
			_, err := w.SignIn(ctx, "ada", password, "192.0.2.1")
			answer <- err
		}()
		require.Eventually(t, func() bool {
			return w.count("select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'", nil) == 1
		}, time.Minute, 10*time.Millisecond)
		return err
	}))
	err := <-answer
	assert.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
	assert.Zero(t, w.count("select count(*) from sessions", nil))
}

func TestOldSessionsAreClearedAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	w.createCode(w.signIn("ada"))
	w.exec("update sessions set created_at = clock_timestamp() - interval '15 days'", nil)
	w.exec("update sign_in_attempts set since = clock_timestamp() - interval '16 minutes'", nil)
	_, err := w.SignIn(ctx, "ada", password, "192.0.2.9")
	require.NoError(t, err)
	assert.Equal(t, 1, w.count("select count(*) from sessions", nil))
	assert.Zero(t, w.count("select count(*) from login_codes", nil))
	assert.Equal(t, 2, w.count("select count(*) from sign_in_attempts", nil), "this attempt's address and user")
}

func TestAttemptsThatNoLongerCountAreClearedAwayAlsoByWrongOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("insert into sign_in_attempts (subject, attempts, since) select sha256(n::text::bytea), 1, clock_timestamp() - interval '16 minutes' from generate_series(1, 30) n", nil)
	for _, left := range []int{30 - 20 + 3, 3} {
		_, err := w.SignIn(ctx, "nobody", "wrong", "192.0.2.1")
		require.True(t, fault.Is(err, fault.Unauthenticated), "%v", err)
		assert.Equal(t, left, w.count("select count(*) from sign_in_attempts", nil))
	}
}

func TestGuessingOneUsersPasswordIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	guesses := 20
	answers := make([]error, guesses)
	var all sync.WaitGroup
	for i := range guesses { // all at once
		all.Go(func() { _, answers[i] = w.SignIn(ctx, "ada", "wrong guess number", "192.0.2.1") })
	}
	all.Wait()
	compared, refused := 0, 0
	for _, err := range answers {
		switch {
		case fault.Is(err, fault.Unauthenticated):
			compared++
		case fault.Is(err, fault.Exhausted):
			refused++
			assert.ErrorContains(t, err, "Try again in 15 minutes")
		}
	}
	assert.Equal(t, 10, compared)
	assert.Equal(t, 10, refused)

	_, err := w.SignIn(ctx, "ada", password, "192.0.2.1")
	assert.True(t, fault.Is(err, fault.Exhausted), "the right one does not come through either")
	assert.NotContains(t, w.dump(), "192.0.2.1", "addresses of those who fail are not listed")
	_, err = w.SignIn(ctx, "ada", password, "198.51.100.1")
	require.NoError(t, err, "who guesses elsewhere does not keep the user out")
	w.exec("update sign_in_attempts set since = since - interval '15 minutes'", nil)
	w.signIn("ada")
	for range 9 {
		_, err := w.SignIn(ctx, "ada", "wrong", "192.0.2.1")
		require.True(t, fault.Is(err, fault.Unauthenticated))
	}
	w.signIn("ada")
	_, err = w.SignIn(ctx, "ada", "wrong", "192.0.2.1")
	assert.True(t, fault.Is(err, fault.Unauthenticated), "a right password starts the count anew")
}

func TestGuessingFromOneAddressIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	for range 3 {
		w.signIn("ada") // does not count
	}
	_, err := w.SignIn(ctx, "nobody", "wrong", "192.0.2.1")
	require.True(t, fault.Is(err, fault.Unauthenticated))
	assert.Equal(t, 1, w.count("select max(attempts) from sign_in_attempts", nil))
	w.exec("update sign_in_attempts set attempts = 60 where subject = sha256('address'::bytea || '\\x00'::bytea || '192.0.2.1'::bytea)", nil)
	_, err = w.SignIn(ctx, "ada", password, "192.0.2.1")
	assert.True(t, fault.Is(err, fault.Exhausted))
	assert.ErrorContains(t, err, "from your address")
	_, err = w.SignIn(ctx, "ada", password, "192.0.2.2")
	assert.NoError(t, err, "others still come in")
}

func TestGuessingOneUsersPasswordFromManyAddressesIsLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.withPassword("ada")
	for i := range 12 {
		_, err := w.SignIn(ctx, "ada", "wrong", "192.0.2.1")
		require.Equal(t, i >= 10, fault.Is(err, fault.Exhausted), "%v", err)
	}
	ofUser := "subject = sha256('user'::bytea || '\\x00'::bytea || 'ada'::bytea)"
	attempts := "select attempts from sign_in_attempts where " + ofUser
	assert.Equal(t, 10, w.count(attempts, nil), "what one address is refused counts against nobody else")
	_, err := w.SignIn(ctx, "ada", password, "192.0.2.2")
	require.NoError(t, err)
	assert.Equal(t, 10, w.count(attempts, nil), "a right password takes back its own attempt only")

	w.exec("update sign_in_attempts set attempts = 100 where "+ofUser, nil)
	_, err = w.SignIn(ctx, "ada", password, "192.0.2.3")
	assert.True(t, fault.Is(err, fault.Exhausted), "%v", err)
	w.exec("update sign_in_attempts set attempts = 60", nil)
	_, err = w.SignIn(ctx, "ada", password, "192.0.2.1")
	assert.ErrorContains(t, err, "from your address")
	assert.Equal(t, 60, w.count(attempts, nil), "an exhausted address does not reach the user's count")
}

func TestTheSchemaKeepsSessionsAndCodesInShape(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.withPassword("ada")
	session := w.signIn("ada")
	w.createCode(session)
	refused := func(constraint, sql string) {
		t.Helper()
		err := postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, sql, postgres.Args{"user": ada.ID})
			return err
		})
		testdb.WantViolation(t, err, "23514", constraint)
	}
	refused("sessions_hash_size", "insert into sessions (hash, user_id) values ('short', @user)")
	refused("login_codes_hash_size", "update login_codes set hash = 'short'")
	refused("sign_in_attempts_subject_size", "insert into sign_in_attempts (subject, attempts) values ('ada', 1)")
	_, token, err := w.CreateUserToken(ctx, system, ada.ID, "", 0)
	require.NoError(t, err)
	refused("login_codes_token", "update login_codes set token_id = '"+string(token.ID)+"'")
}
