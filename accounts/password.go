package accounts

import (
	"context"
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

// passwordHasher lets two hashes run at once: each takes 64 MiB, and a burst of
// logins must not take the memory of the server.
type passwordHasher struct{ slots chan struct{} }

func newPasswordHasher() passwordHasher { return passwordHasher{slots: make(chan struct{}, 2)} }

func (h passwordHasher) hash(ctx context.Context, password string) (string, error) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	return argon2id.CreateHash(password, argon2id.DefaultParams)
}

// SetPassword gives the user a new password for the web pages: at least 12
// characters, else Invalid. Users set their own, site admins that of everybody; a
// user the actor may not act for is NotFound.
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
		n, err := postgres.Exec(ctx, tx, queries.Get("UserPasswordSet"), postgres.Args{"id": user.ID, "username": username, "password_hash": hash})
		if err != nil {
			return err
		}
		if n == 0 {
			return fault.Missing("user", username)
		}
		return audit.Append(ctx, tx, audit.Entry{Actor: actor, Action: "user.password-set", ObjectKind: "user", ObjectID: string(user.ID)})
	})
}
