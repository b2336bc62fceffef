package site

import (
	"context"
	_ "embed"
	"log/slog"
	"sync/atomic"
	"time"

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
type Service struct {
	db       *postgres.DB
	requests atomic.Int64 // a second of one token, as last read; 0 is no limit of the site's
}

// New makes the service.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// RequestLimit is how many requests a second each token may make at each server, by the
// settings as they were last read: by Watch, or changed by this service. 0 is no limit.
func (s *Service) RequestLimit() int { return int(s.requests.Load()) }

// Watch reads the settings every so often until ctx ends, because other servers change them,
// too. What cannot be read stays as it was.
func (s *Service) Watch(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		if _, err := s.Current(ctx); err != nil && ctx.Err() == nil {
			slog.Warn("the settings of the site cannot be read", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// noted keeps what is asked for at every request.
func (s *Service) noted(set Settings) {
	limit := 0
	if set.APIRateLimitingEnabled {
		limit = set.APIRateLimit
	}
	s.requests.Store(int64(limit))
}

func allowSite(actor authz.Actor) error {
	if !authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return nil
}
