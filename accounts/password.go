package accounts

import (
	"context"
	"crypto/rand"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

const (
	minPassword = 12   // characters
	maxPassword = 1024 // bytes
)

// passwordHasher lets four hashes run at once: each takes 64 MiB, and a burst of
// sign-ins must not take the memory of the server.
type passwordHasher struct {
	slots chan struct{}
	decoy func() (string, error) // a hash of a password that nobody knows
}

func newPasswordHasher() passwordHasher {
	return passwordHasher{slots: make(chan struct{}, hashesAtOnce), decoy: sync.OnceValues(func() (string, error) {
		return argon2id.CreateHash(rand.Text(), argon2id.DefaultParams)
	})}
}

const hashesAtOnce = 4

// queueFor is how long a hash waits for its turn. Then there are too many, whoever they are.
var queueFor = 2 * time.Second

func (h passwordHasher) enter(ctx context.Context) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, queueFor)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots }, nil
	case <-ctx.Done():
		return nil, fault.New(fault.Exhausted, "sign_in_busy", "Too many people sign in at this moment. Try again in a minute.").Because(ctx.Err())
	}
}

func (h passwordHasher) hash(ctx context.Context, password string) (string, error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	return argon2id.CreateHash(password, argon2id.DefaultParams)
}

// matches tells whether the password has that hash. An empty hash has no password, and
// finding that out takes as long as for any other, so that nobody can time which users
// exist.
func (h passwordHasher) matches(ctx context.Context, password, hash string) (bool, error) {
	leave, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	decoy, err := h.decoy()
	if err != nil {
		return false, err
	}
	if hash == "" {
		_, err := argon2id.ComparePasswordAndHash(password, decoy)
		return false, err
	}
	return argon2id.ComparePasswordAndHash(password, hash)
}

// SetPassword gives the user a new password for the web pages, at least 12
// characters, else Invalid, and ends the user's sessions and step-ups: whoever had
// learned the old one is out. Users set their own, site admins that of everybody, both
// stepped up (as RequireStepUp): with a stolen token alone nobody makes a factor of
// its own. A user the actor may not act for is NotFound.
func (s *Service) SetPassword(ctx context.Context, actor authz.Actor, username, password string) error {
	user, err := s.UserByName(ctx, actor, username)
	if err != nil {
		return err
	}
	if err := allowSelf(actor, user.ID, username); err != nil {
		return err
	}
	if utf8.RuneCountInString(password) < minPassword || len(password) > maxPassword {
		return Invalid("password", "Password must have at least %d characters and at most %d bytes", minPassword, maxPassword)
	}
	hash, err := s.passwords.hash(ctx, password)
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "accounts.set-password", func(tx postgres.Tx) error {
		if err := s.demandStepUp(ctx, tx, actor); err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("UserPasswordSet"), postgres.Args{"id": user.ID, "username": username, "password_hash": hash})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("user", username)
		}
		if _, err := postgres.Exec(ctx, tx, queries.Get("SessionsEnd"), postgres.Args{"user_id": user.ID}); err != nil {
			return err
		}
		if err := clearStepUps(ctx, tx, user.ID); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "user.password-set", ObjectKind: "user", ObjectID: string(user.ID)})
	})
}
