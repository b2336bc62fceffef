package runtasks

import (
	"context"
	_ "embed"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Sealer seals and opens small values under an organization's key. The label names
// the place of a value: it opens only under the same label.
type Sealer interface {
	SealValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, plain []byte) ([]byte, error)
	OpenValue(ctx context.Context, tx postgres.Tx, org ids.Organization, label string, sealed []byte) ([]byte, error)
}

// Settings say how services are asked; Defaults gives all but the two functions.
type Settings struct {
	// Document draws a request as the API writes it. Of a test of the address only Test is set.
	Document func(Request) ([]byte, error)
	Pauses   []time.Duration // between the tries of one request; after the last the service has failed
	Lease    time.Duration   // in which a claimed request is not sent by another server; longer than a call
}

// Defaults are the settings of a server that is told nothing else.
func Defaults() Settings {
	return Settings{Pauses: []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second}, Lease: time.Minute}
}

// Service keeps run tasks and asks them.
type Service struct {
	db       *postgres.DB
	sealer   Sealer
	client   *outbound.Client
	settings Settings
}

// New makes the service.
func New(db *postgres.DB, sealer Sealer, client *outbound.Client, settings Settings) *Service {
	return &Service{db: db, sealer: sealer, client: client, settings: settings}
}
