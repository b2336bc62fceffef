package accounts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

// Attempts to sign in within a window of 15 minutes. An address may be that of a whole
// office, so it has more of them. A user has few from each address, so that guessing
// from one does not keep the user out at another, and more from all together.
const (
	attemptsPerAddress     = 60
	attemptsPerUserAddress = 10
	attemptsPerUser        = 100
)

// subjects are what one attempt is counted under. They are locked in this order.
type subjects struct{ address, userAddress, user []byte }

func subjectsOf(username, address string) subjects {
	// An address has no NUL, so no two pairs are written alike.
	return subjects{subject("address", address), subject("user-address", address+"\x00"+username), subject("user", username)}
}

// SignIn starts a session for the user with that password and gives its secret, which
// is stored only as a digest. A session ends 12 hours after it was last used, 7 days
// after it began, by SignOut, or when the password changes. address says where the
// attempt comes from. Errors: Unauthenticated for a wrong name or password alike,
// Exhausted after too many attempts for one name or from one address, and when too many
// people sign in at once.
func (s *Service) SignIn(ctx context.Context, username, password, address string) (secret string, err error) {
	counted := subjectsOf(username, address)
	if err := s.countSignIn(ctx, counted); err != nil {
		return "", err
	}
	user, hash, err := s.passwordOf(ctx, username)
	if err != nil {
		return "", err
	}
	right, err := s.passwords.matches(ctx, password, hash)
	if err != nil {
		return "", err
	}
	if !right {
		return "", wrongPassword()
	}
	secret, digest := newSecret(sessionPrefix)
	err = postgres.InTx(ctx, s.db, "accounts.sign-in", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, queries.Get("SessionInsert"), postgres.Args{"hash": digest, "user_id": user.ID, "password_hash": hash})
		if err != nil {
			return err
		}
		if n == 0 {
			return wrongPassword() // it was changed while we compared
		}
		if err := forgive(ctx, tx, counted); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Actor:  authz.Actor{Kind: authz.UserActor, User: user.ID, Name: user.Username},
			Action: "user.signed-in", ObjectKind: "user", ObjectID: string(user.ID), Details: map[string]any{"address": address},
		})
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// forgive takes back the attempts that led to a right password, and clears away the
// sessions that no longer count. What others guessed about the user still counts.
func forgive(ctx context.Context, tx postgres.Tx, counted subjects) error {
	for _, step := range []struct {
		query string
		args  postgres.Args
	}{
		{"SignInForgive", postgres.Args{"subject": counted.address}},
		{"SignInClear", postgres.Args{"subject": counted.userAddress}},
		{"SignInForgive", postgres.Args{"subject": counted.user}},
		{"SessionsPrune", postgres.Args{}},
	} {
		if _, err := postgres.Exec(ctx, tx, queries.Get(step.query), step.args); err != nil {
			return err
		}
	}
	return nil
}

func wrongPassword() error {
	return fault.New(fault.Unauthenticated, "wrong_password", "The username or the password is wrong.")
}

// subject is what attempts are counted under.
func subject(kind, name string) []byte {
	sum := sha256.Sum256([]byte(kind + "\x00" + name))
	return sum[:]
}

// attemptLimit is how many attempts are let through under a subject in 15 minutes.
type attemptLimit struct {
	subject []byte
	limit   int
	where   string // as people are told
}

// passedLimit is the limit that an attempt has passed.
type passedLimit struct {
	attemptLimit
	first   bool    // nobody had passed it in this window
	seconds float64 // until the window is over
}

// countSignIn counts the attempt before its password is looked at: guesses made at the
// same time cannot slip through together.
func (s *Service) countSignIn(ctx context.Context, counted subjects) error {
	var passed *passedLimit
	err := postgres.InTx(ctx, s.db, "accounts.count-sign-in", func(tx postgres.Tx) (err error) {
		passed, err = countAttempt(ctx, tx, []attemptLimit{
			{counted.address, attemptsPerAddress, "from your address"},
			{counted.userAddress, attemptsPerUserAddress, "for this username from your address"},
			{counted.user, attemptsPerUser, "for this username"},
		})
		return err
	})
	if err != nil || passed == nil {
		return err
	}
	return tooManySignIns(passed.where, passed.seconds)
}

// countAttempt counts an attempt under each subject in turn, and gives the first limit
// that it passes. It is not counted under the subjects after that one, so that nobody
// uses up what belongs to others.
func countAttempt(ctx context.Context, tx postgres.Tx, limits []attemptLimit) (*passedLimit, error) {
	type window struct {
		Attempts int
		Seconds  float64
	}
	var passed *passedLimit
	for _, l := range limits {
		w, err := postgres.One[window](ctx, tx, queries.Get("SignInCount"), postgres.Args{"subject": l.subject})
		if err != nil {
			return nil, err
		}
		if w.Attempts > l.limit {
			passed = &passedLimit{l, w.Attempts == l.limit+1, w.Seconds}
			break
		}
	}
	// Last, and past rows that are locked: it waits for nobody while others wait for it.
	_, err := postgres.Exec(ctx, tx, queries.Get("SignInPrune"), postgres.Args{})
	return passed, err
}

func tooManySignIns(where string, seconds float64) error {
	return fault.New(fault.Exhausted, "too_many_sign_ins", "There were too many attempts to sign in %s. Try again in %d minutes.", where, minutes(seconds))
}

// minutes are those to wait, as people are told.
func minutes(seconds float64) int { return max(1, int(math.Ceil(seconds/60))) }

// passwordOf gives the user with the hash of its password. For a name that nobody has
// both are empty.
func (s *Service) passwordOf(ctx context.Context, username string) (User, string, error) {
	if !usernameRule.MatchString(username) {
		username = ""
	}
	type row struct {
		User
		PasswordHash string
	}
	var found row
	err := postgres.InSnapshot(ctx, s.db, "accounts.password", func(tx postgres.Tx) (err error) {
		found, err = postgres.One[row](ctx, tx, queries.Get("UserPassword"), postgres.Args{"username": username})
		if postgres.NoRow(err) {
			return nil
		}
		return err
	})
	return found.User, found.PasswordHash, err
}

// AuthenticateSession gives the actor behind a session, with its roles. One that is
// unknown or over is Unauthenticated. A session is no token: the API takes none.
func (s *Service) AuthenticateSession(ctx context.Context, secret string) (authz.Actor, error) {
	over := fault.New(fault.Unauthenticated, "session_over", "You are signed out. Sign in to go on.")
	if !wellFormed(secret, sessionPrefix) {
		return authz.Actor{}, over
	}
	actor, err := s.actor(ctx, "accounts.authenticate-session", "SessionActor", secret, over)
	if err != nil {
		return authz.Actor{}, err
	}
	actor.Session = hex.EncodeToString(digest(secret))
	err = postgres.InTx(ctx, s.db, "accounts.session-seen", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, queries.Get("SessionSeen"), postgres.Args{"hash": digest(secret)})
		return err
	})
	return actor, err
}

// SignOut ends a session, and with it the codes it gave that are not exchanged yet. One
// that is already over stays so.
func (s *Service) SignOut(ctx context.Context, actor authz.Actor, secret string) error {
	return postgres.InTx(ctx, s.db, "accounts.sign-out", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, queries.Get("SessionEnd"), postgres.Args{"hash": digest(secret), "user_id": actor.User})
		if err != nil || n == 0 {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "user.signed-out", ObjectKind: "user", ObjectID: string(actor.User)})
	})
}
