package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// settle is how long a request may go on writing after its answer.
const settle = 30 * time.Millisecond

// statements counts the SQL statements behind a request. PostgreSQL writes each into its
// log before it runs it; the stack is ours, so we may tell it to. What the server does
// besides falls into some of the repetitions, and the median leaves it out.
func statements(ctx context.Context, b *bench) (err error) {
	requests, err := b.requests(ctx)
	if err != nil {
		return err
	}
	db, err := database(ctx)
	if err != nil {
		return err
	}
	defer db.Close(context.WithoutCancel(ctx))
	stop, err := logStatements(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	log := filepath.Join(b.data, "logs", "postgres.log")
	for _, r := range requests {
		const rounds = 9
		var counts, all []int
		for range rounds {
			c, err := b.count(ctx, log, r.path)
			if err != nil {
				return err
			}
			counts, all = append(counts, c.statements), append(all, c.statements+c.control)
		}
		if median(counts) == 0 && r.most > 0 {
			return fmt.Errorf("%s: no statement is in %s", r.path, log)
		}
		goal := ""
		if r.most > 0 {
			goal = b.table.judge(fmt.Sprintf("%s ≤ %d statements", r.what, r.most), median(counts) <= r.most)
		}
		b.table.add(row{
			what: r.what, n: rounds, value: fmt.Sprintf("%d statements", median(counts)), spread: fmt.Sprintf("%d – %d", slices.Min(counts), slices.Max(counts)),
			beside: fmt.Sprintf("%d with begin and commit", median(all)), goal: goal, command: "GET " + readable(r.path),
		})
	}
	return nil
}

// database connects to the database of the stack, as its superuser.
func database(ctx context.Context) (*pgx.Conn, error) {
	db, err := pgx.Connect(ctx, os.Getenv("HOLDFAST_DATABASE_URL"))
	if err != nil {
		return nil, errors.New("the database of the stack cannot be reached") // the cause may hold the password
	}
	return db, nil
}

// logStatements lets PostgreSQL write every statement into its log, until stop.
func logStatements(ctx context.Context, db *pgx.Conn) (stop func() error, err error) {
	err = settings(ctx, db, "alter system set log_statement = 'all'", "alter system set log_parameter_max_length = 0")
	return func() error {
		return settings(context.WithoutCancel(ctx), db, "alter system reset log_statement", "alter system reset log_parameter_max_length")
	}, err
}

// settings changes PostgreSQL's settings and returns when they hold.
func settings(ctx context.Context, db *pgx.Conn, changes ...string) error {
	for _, sql := range append(changes, "select pg_reload_conf()") {
		if _, err := db.Exec(ctx, sql); err != nil {
			return err
		}
	}
	time.Sleep(200 * time.Millisecond) // a session takes a signal for it, and tells nobody when it has
	return nil
}

// request is one whose statements are counted, and how many it may have; 0: as many as it needs.
type request struct {
	what, path string
	most       int
}

// requests makes what is asked for: 20 workspaces, a run, and 100 versions of a state.
func (b *bench) requests(ctx context.Context) ([]request, error) {
	for i := range 20 {
		if _, err := b.api.workspace(ctx, fmt.Sprintf("statements-%d", i)); err != nil {
			return nil, err
		}
	}
	id, err := b.api.lockedWorkspace(ctx, "statements-versions")
	if err != nil {
		return nil, err
	}
	w, body := &writer{bench: b, workspace: id}, newStateBody(realistic, 2000)
	for range 100 {
		w.serial++
		if err := w.create(ctx, body, body.number(w.serial), &times{}); err != nil {
			return nil, err
		}
	}
	f, err := b.folder(ctx, onServer, trivialConfiguration)
	if err != nil {
		return nil, err
	}
	if _, _, err := f.apply(ctx, 0); err != nil {
		return nil, err
	}
	workspaces := "/api/v2/organizations/" + organization + "/workspaces"
	withRun, err := b.api.read(ctx, http.MethodGet, workspaces+"/"+f.workspace, nil)
	if err != nil {
		return nil, err
	}
	run, err := withRun.related("current-run")
	if err != nil {
		return nil, err
	}
	r, err := b.api.read(ctx, http.MethodGet, "/api/v2/runs/"+run, nil)
	if err != nil {
		return nil, err
	}
	plan, err := r.related("plan")
	if err != nil {
		return nil, err
	}
	return []request{
		{"ping", "/api/v2/ping", 0},
		{"workspace read", workspaces + "/" + f.workspace, 3},
		{"page of 20 workspaces", workspaces + "?page%5Bsize%5D=20", 5},
		{"run read", "/api/v2/runs/" + run, 0},
		{"plan read", "/api/v2/plans/" + plan, 0},
		{"current state version", "/api/v2/workspaces/" + withRun.Data.ID + "/current-state-version", 0},
		{"page of 100 state versions", pageOfVersions("statements-versions"), 0},
	}, nil
}

// counted are the statements of one request.
type counted struct{ statements, control int }

var (
	logged  = regexp.MustCompile(`(?m)LOG:  (?:execute [^:]+|statement): *(\S*)`)
	control = regexp.MustCompile(`(?i)^(begin|commit|rollback)`)
)

// count sends a request and counts what the log says meanwhile.
func (b *bench) count(ctx context.Context, log, path string) (c counted, err error) {
	before, err := os.Stat(log)
	if err != nil {
		return c, err
	}
	if _, err := b.api.do(ctx, http.MethodGet, path, nil, io.Discard); err != nil {
		return c, err
	}
	time.Sleep(settle)
	file, err := os.Open(log)
	if err != nil {
		return c, err
	}
	defer file.Close()
	said, err := io.ReadAll(io.NewSectionReader(file, before.Size(), 1<<20))
	if err != nil {
		return c, err
	}
	return countIn(said), nil
}

func countIn(log []byte) (c counted) {
	for _, found := range logged.FindAllSubmatch(log, -1) {
		if control.Match(found[1]) {
			c.control++
		} else {
			c.statements++
		}
	}
	return c
}

// readable shows a path as documentation writes it.
func readable(path string) string {
	if plain, err := url.PathUnescape(path); err == nil {
		return plain
	}
	return path
}
