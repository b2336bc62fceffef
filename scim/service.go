package scim

import (
	"context"
	_ "embed"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// StepUp answers nil when the actor has proved itself lately, as accounts.Service.RequireStepUp.
type StepUp func(ctx context.Context, tx postgres.Tx, actor authz.Actor) error

// Service serves identity providers, and the site admins who set them up.
type Service struct {
	db     *postgres.DB
	stepUp StepUp
}

// New makes the service.
func New(db *postgres.DB, stepUp StepUp) *Service { return &Service{db: db, stepUp: stepUp} }

// allowSite asks for a site admin; for anybody else there is nothing here.
func allowSite(actor authz.Actor) error {
	if !authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return nil
}

// provisioning is a change that an identity provider makes: in a transaction, after every other
// such change, while SCIM is on and not paused.
func (s *Service) provisioning(ctx context.Context, name string, actor authz.Actor, fn func(tx postgres.Tx) error) error {
	if !authz.Can(actor, authz.Provision, authz.Object{}) {
		return fault.New(fault.Forbidden, "forbidden", "Only an identity provider does this, with a SCIM token.")
	}
	return postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		settings, err := lockSettings(ctx, tx)
		if err != nil {
			return err
		}
		if !settings.Enabled || settings.Paused {
			return fault.New(fault.Forbidden, "provisioning_paused", "SCIM is off or paused on this site, so nothing is changed. A site admin turns it on again.")
		}
		return fn(tx)
	})
}

// reading is a read of an identity provider in one snapshot.
func (s *Service) reading(ctx context.Context, name string, actor authz.Actor, fn func(tx postgres.Tx) error) error {
	if !authz.Can(actor, authz.Provision, authz.Object{}) {
		return fault.New(fault.Forbidden, "forbidden", "Only an identity provider reads this, with a SCIM token.")
	}
	return postgres.InSnapshot(ctx, s.db, name, fn)
}

func (s *Service) onSettings(ctx context.Context, name string, actor authz.Actor, fn func(tx postgres.Tx, now Settings) error) error {
	if err := allowSite(actor); err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		now, err := lockSettings(ctx, tx)
		if err != nil {
			return err
		}
		return fn(tx, now)
	})
}

// Page is a part of a list.
type Page struct{ Limit, Offset int }

func entry(actor authz.Actor, action, kind, id string, details map[string]any) audit.Entry {
	return audit.Entry{Actor: actor, Action: action, ObjectKind: kind, ObjectID: id, Details: details}
}

func missingGroup(id ids.SCIMGroup) error { return fault.Missing("SCIM group", string(id)) }
