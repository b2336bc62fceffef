//go:build !nodev

package main

import (
	"context"
	"crypto/rand"
	"log/slog"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/config"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/devstack"
	"github.com/holdfast-run/holdfast/migrations"
	"github.com/holdfast-run/holdfast/postgres"
)

const devOrganization = "demo"

// devBootstrap makes what a new data folder lacks: the schema, the site admin with a
// token, a password and a second factor, the organization it owns, and a group of runners that serves all
// organizations. It is run at every start and keeps what is good.
func devBootstrap(ctx context.Context, env map[string]string, stored devstack.Credentials) (devstack.Credentials, error) {
	slog.SetLogLoggerLevel(slog.LevelWarn) // the migrations would talk into the progress lines
	defer slog.SetLogLoggerLevel(slog.LevelInfo)
	if err := migrations.Up(ctx, env["HOLDFAST_DATABASE_URL"]); err != nil {
		return stored, err
	}
	s, err := open(ctx, config.Storage{
		DatabaseURL: env["HOLDFAST_DATABASE_URL"], Keyring: env["HOLDFAST_KEYRING"],
		S3: artifacts.S3Config{
			Endpoint: env["HOLDFAST_S3_ENDPOINT"], Bucket: env["HOLDFAST_S3_BUCKET"], Region: env["HOLDFAST_S3_REGION"],
			AccessKeyID: env["HOLDFAST_S3_ACCESS_KEY_ID"], SecretAccessKey: env["HOLDFAST_S3_SECRET_ACCESS_KEY"],
		},
	}, config.DefaultLimits())
	if err != nil {
		return stored, err
	}
	defer s.db.Close()
	admin, created, err := s.devAdmin(ctx)
	if err != nil {
		return stored, err
	}
	if err := s.devOrganization(ctx, admin); err != nil {
		return stored, err
	}
	if _, err := s.accounts.Authenticate(ctx, stored.UserToken); fault.Is(err, fault.Unauthenticated) {
		if stored.UserToken, _, err = s.accounts.CreateUserToken(ctx, authz.System(), admin.User, "holdfast dev", 0); err != nil {
			return stored, err
		}
	} else if err != nil {
		return stored, err
	}
	if stored.AdminPassword == "" || created {
		stored.AdminPassword = rand.Text()
		if err := s.accounts.SetPassword(ctx, authz.System(), admin.Name, stored.AdminPassword); err != nil {
			return stored, err
		}
	}
	if stored.AdminTOTP, err = s.devFactor(ctx, admin, stored.AdminTOTP, env["HOLDFAST_ADDRESS"]); err != nil {
		return stored, err
	}
	if _, err := s.accounts.RunnerGroupByToken(ctx, stored.RunnerToken); fault.Is(err, fault.Unauthenticated) {
		if stored.RunnerToken, _, err = s.accounts.CreateRunnerGroup(ctx, authz.System(), "", "local"); err != nil {
			return stored, err
		}
	} else if err != nil {
		return stored, err
	}
	return stored, nil
}

func (s *services) devAdmin(ctx context.Context) (admin authz.Actor, created bool, err error) {
	user, err := s.accounts.UserByName(ctx, authz.System(), "admin")
	if fault.Is(err, fault.NotFound) {
		created = true
		user, err = s.accounts.CreateUser(ctx, authz.System(), accounts.NewUser{Username: "admin", Email: "admin@localhost", SiteAdmin: true})
	}
	return authz.Actor{Kind: authz.UserActor, User: user.ID, Name: user.Username, SiteAdmin: true}, created, err
}

// devFactor gives the secret of the admin's second factor. A secret that was lost is
// replaced like any other: the new factor is held back for a day.
func (s *services) devFactor(ctx context.Context, admin authz.Actor, stored, address string) (secret string, err error) {
	factor, err := s.accounts.Factor(ctx, admin)
	if err != nil {
		return "", err
	}
	if factor.EnrolledAt != nil {
		if stored != "" {
			return stored, nil
		}
		if _, err := s.accounts.ResetTOTP(ctx, authz.System(), admin.User); err != nil {
			return "", err
		}
	}
	user := accounts.User{ID: admin.User, Username: admin.Name}
	made, err := s.accounts.ProvisionTOTP(ctx, authz.System(), user, accounts.SiteOf(address))
	return made.Secret, err
}

func (s *services) devOrganization(ctx context.Context, admin authz.Actor) error {
	_, err := s.accounts.Organization(ctx, admin, devOrganization)
	if fault.Is(err, fault.NotFound) {
		_, err = s.workspaces.CreateOrganization(ctx, admin, accounts.NewOrganization{Name: devOrganization})
	}
	return err
}

// devRunnerConnected is nil once the local runner has told the server which tofu it has.
func devRunnerConnected(ctx context.Context, env map[string]string) error {
	db, err := postgres.Open(ctx, env["HOLDFAST_DATABASE_URL"])
	if err != nil {
		return err
	}
	defer db.Close()
	return postgres.InSnapshot(ctx, db, "dev.runner-connected", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, authz.System(), authz.OrganizationRead, devOrganization)
		if err != nil {
			return err
		}
		versions, err := dispatch.Versions(ctx, tx, org.ID)
		if err == nil && len(versions) == 0 {
			err = fault.New(fault.Unavailable, "no_runner", "no runner has connected")
		}
		return err
	})
}
