package testdb

import (
	"strings"
	"sync"

	"github.com/holdfast-run/holdfast/postgres"
)

// watched has, for each database that New opened, who wants to see its statements now.
var watched sync.Map // *postgres.DB → *recorder

type recorder struct {
	sync.Mutex
	into *Work // nil: nobody
}

// Work is what PostgreSQL was asked to do.
type Work struct {
	Exchanges  int      // round trips
	Statements []string // begin and commit among them, in their order; a named one by its name
}

// Named counts the statements of queries.sql: those that are not there to begin, set up or end
// a transaction, or to wake somebody.
func (w Work) Named() (n int) {
	for _, s := range w.Statements {
		if s != "commit" && s != "rollback" && !strings.Contains(s, " ") {
			n++
		}
	}
	return n
}

// Watch tells what a database that New opened is asked to do while fn runs, by anybody.
func Watch(db *postgres.DB, fn func()) Work {
	var work Work
	found, _ := watched.Load(db)
	r := found.(*recorder)
	r.Lock()
	r.into = &work
	r.Unlock()
	fn()
	r.Lock()
	defer r.Unlock()
	r.into = nil
	return work
}

func (r *recorder) seen(statements []string) {
	r.Lock()
	defer r.Unlock()
	if r.into == nil {
		return
	}
	r.into.Exchanges++
	for _, s := range statements {
		name, _, _ := strings.Cut(strings.TrimPrefix(s, "-- "), "\n")
		r.into.Statements = append(r.into.Statements, name)
	}
}
