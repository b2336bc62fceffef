package accounts

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

const (
	recoveryCodeCount = 10
	recoveryCodeBytes = 10 // 80 random bits: nobody guesses them, even with the digests in hand
	recoveryCodeGroup = 4  // characters between dashes
)

var recoveryCodeText = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewRecoveryCodes gives new recovery codes in place of all the actor had. The actor must
// be stepped up (as RequireStepUp).
func (s *Service) NewRecoveryCodes(ctx context.Context, actor authz.Actor) (codes []string, err error) {
	err = postgres.InTx(ctx, s.db, "accounts.new-recovery-codes", func(tx postgres.Tx) error {
		if err := lockUserOf(ctx, tx, actor); err != nil {
			return err
		}
		if err := s.RequireStepUp(ctx, tx, actor); err != nil {
			return err
		}
		own, err := s.factor(ctx, tx, actor.User)
		if err != nil {
			return err
		}
		if codes, err = replaceRecoveryCodes(ctx, tx, actor.User, own.secret); err != nil {
			return err
		}
		return audit.Append(ctx, tx, entryOf(actor, "user.recovery-codes-made", actor.User, nil))
	})
	if err != nil {
		return nil, err
	}
	return codes, nil
}

func replaceRecoveryCodes(ctx context.Context, tx postgres.Tx, user ids.User, secret string) ([]string, error) {
	if _, err := postgres.Exec(ctx, tx, queries.Get("RecoveryCodesClear"), postgres.Args{"user_id": user}); err != nil {
		return nil, err
	}
	codes, hashes := make([]string, recoveryCodeCount), make([][]byte, recoveryCodeCount)
	for i := range codes {
		codes[i] = newRecoveryCode()
		hashes[i] = recoveryCodeHash(secret, codes[i])
	}
	_, err := postgres.Exec(ctx, tx, queries.Get("RecoveryCodesInsert"), postgres.Args{"user_id": user, "hashes": hashes})
	return codes, err
}

func newRecoveryCode() string {
	random := make([]byte, recoveryCodeBytes)
	_, _ = rand.Read(random) // never fails: crypto/rand aborts the program instead
	text := strings.ToLower(recoveryCodeText.EncodeToString(random))
	var groups []string
	for len(text) > 0 {
		groups = append(groups, text[:recoveryCodeGroup])
		text = text[recoveryCodeGroup:]
	}
	return strings.Join(groups, "-")
}

// recoveryCodeHash is keyed with the factor's secret, which is sealed: the database alone
// cannot tell whether a code is right. Case, dashes and spaces do not matter.
func recoveryCodeHash(secret, code string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("recovery code\x00" + strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))))
	return mac.Sum(nil)
}

// useRecoveryCode uses the code up, and tells whether it was one of the user's that had
// not been used.
func useRecoveryCode(ctx context.Context, tx postgres.Tx, user ids.User, secret, code string) (bool, error) {
	n, err := postgres.Exec(ctx, tx, queries.Get("RecoveryCodeUse"), postgres.Args{"user_id": user, "hash": recoveryCodeHash(secret, code)})
	return n == 1, err
}
