package main

import (
	"context"
	"fmt"
	"os"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
	"github.com/holdfast-run/holdfast/postgres"
)

// adminUsersCmd keeps users. It works on the server's host, in the database itself.
type adminUsersCmd struct {
	Create      createUserCmd  `cmd:"" help:"Create a user and print a token that acts as this user."`
	SetPassword setPasswordCmd `cmd:"" help:"Set a user's password for the web pages. It is read from standard input."`
	ResetTOTP   resetTOTPCmd   `cmd:"" name:"reset-totp" help:"Take away the second factor of a user who has lost it. The next one serves for recovery after 24 hours, or when a site admin confirms."`
}

// databaseFlag says which database to work in.
type databaseFlag struct {
	DatabaseURL string `name:"database-url" env:"HOLDFAST_DATABASE_URL" required:"" help:"Address of the database (postgres://…)."`
}

// withAccounts opens the database for fn. There is no sealer: users need no keys.
func (f databaseFlag) withAccounts(ctx context.Context, fn func(*accounts.Service) error) error {
	db, err := postgres.Open(ctx, f.DatabaseURL)
	if err != nil {
		return err
	}
	defer db.Close()
	return fn(accounts.New(db, nil))
}

type createUserCmd struct {
	databaseFlag
	Name      string `arg:"" help:"The username."`
	Org       string `and:"membership" help:"Organization the user becomes a member of."`
	Role      string `and:"membership" help:"What the user is in the organization: owner, or member, who may do what its teams may."`
	Email     string `help:"E-mail address."`
	SiteAdmin bool   `help:"Let the user do everything on this site."`
}

// Validate refuses an unknown role before anything is made.
func (c createUserCmd) Validate() error {
	switch authz.Role(c.Role) {
	case "", authz.Owner, authz.Member:
		return nil
	}
	return fmt.Errorf("--role must be %s or %s", authz.Owner, authz.Member)
}

// Run prints the token on standard output and nothing else there, for use in scripts.
func (c createUserCmd) Run(ctx context.Context) error {
	return c.withAccounts(ctx, func(who *accounts.Service) error {
		var org accounts.Organization
		var err error
		if c.Org != "" { // looked up first: a mistyped name must not leave half a user
			if org, err = who.Organization(ctx, authz.System(), c.Org); err != nil {
				return err
			}
		}
		user, err := who.CreateUser(ctx, authz.System(), accounts.NewUser{Username: c.Name, Email: c.Email, SiteAdmin: c.SiteAdmin})
		if err != nil {
			return err
		}
		if c.Org != "" {
			if err := who.AddMember(ctx, authz.System(), org.ID, user.ID, authz.Role(c.Role)); err != nil {
				return err
			}
		}
		token, _, err := who.CreateUserToken(ctx, authz.System(), user.ID, "made with the user", 0)
		if err != nil {
			return err
		}
		_, err = fmt.Println(token)
		return err
	})
}

type setPasswordCmd struct {
	databaseFlag
	Name string `arg:"" help:"The username."`
}

// Run reads one line from standard input; on a terminal it is not shown.
func (c setPasswordCmd) Run(ctx context.Context) error {
	password, err := terminal.NewSecrets(os.Stdin, os.Stderr).Read(fmt.Sprintf("New password for %s: ", c.Name))
	if err != nil {
		return err
	}
	return c.withAccounts(ctx, func(who *accounts.Service) error {
		return who.SetPassword(ctx, authz.System(), c.Name, password)
	})
}
