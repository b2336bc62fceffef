package main

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
)

type totpCmd struct {
	File string `env:"HOLDFAST_ADMIN_TOTP_FILE" required:"" type:"path" placeholder:"FILE" help:"File with the secret in base32, such as DIR/admin-totp of holdfast dev."`
}

// Run prints six digits and nothing else, for use in scripts. A code is accepted once:
// who needs another waits for the next half minute.
func (c totpCmd) Run() error {
	secret, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read the secret of the second factor: %w", err)
	}
	code, err := accounts.CurrentCode(string(secret), clock.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Println(code)
	return err
}

type resetTOTPCmd struct {
	databaseFlag
	Name string `arg:"" help:"The username."`
}

// Run resets as the host's operator, which is audited.
func (c resetTOTPCmd) Run(ctx context.Context) error {
	return c.withAccounts(ctx, func(who *accounts.Service) error {
		user, err := who.UserByName(ctx, authz.System(), c.Name)
		if err != nil {
			return err
		}
		_, err = who.ResetTOTP(ctx, authz.System(), user.ID)
		return err
	})
}
