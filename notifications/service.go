package notifications

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

// Settings say how messages are made and sent; Defaults gives all but Document and Mail.
type Settings struct {
	// Address is the server's own, such as https://tofu.example.com; messages link to it.
	Address string
	// Document draws the message for a generic receiver, as the API writes it.
	Document func(Event) ([]byte, error)
	// Mail sends email; nil when the server has been told of no mail server.
	Mail *Mail
	// Pauses are those between the tries of one delivery; after the last it is given up.
	Pauses []time.Duration
	// MostGivenUp is after how many deliveries given up in a row a configuration is disabled.
	MostGivenUp int
	Lease       time.Duration // in which a claimed delivery is not claimed by another server; longer than a call
	Keep        time.Duration // how long the log keeps a delivery that has ended
}

// Defaults are the settings of a server that is told nothing else.
func Defaults() Settings {
	return Settings{
		Pauses:      []time.Duration{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour},
		MostGivenUp: 3, Lease: time.Minute, Keep: 30 * 24 * time.Hour,
	}
}

// Service keeps configurations and sends what the outbox holds.
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
