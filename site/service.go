package site

import (
	_ "embed"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Service reads and changes what the site decides, for site admins; for anybody else there
// is nothing here (NotFound).
type Service struct{ db *postgres.DB }

// New makes the service.
func New(db *postgres.DB) *Service { return &Service{db: db} }

func allowSite(actor authz.Actor) error {
	if !authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return nil
}
