package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// copyOf gives the id of a row's copy number k. It lives for the session.
const copyOf = `create function pg_temp.copy_of(id text, k integer) returns text immutable language sql as $$
    select split_part(id, '-', 1) || '-' || translate(left(md5(id || k), 16), '0', 'z') $$`

// columnsOf lists the columns of a table, to insert into and to select from made.
const columnsOf = `select string_agg(quote_ident(attname), ', ' order by attnum), string_agg('made.' || quote_ident(attname), ', ' order by attnum)
  from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped`

// copied are the tables of a workspace and its waiting runs: which rows, and what differs
// in a copy. Everything else is as the server wrote it, whatever columns there are.
var copied = []struct{ table, rows, differs string }{
	{"workspaces", "t.id = $1", `'id', pg_temp.copy_of(t.id, k), 'name', t.name || '-' || k`},
	{"workspace_fences", "t.workspace_id = $1", `'workspace_id', pg_temp.copy_of(t.workspace_id, k), 'holder_id', pg_temp.copy_of(t.holder_id, k)`},
	{"configuration_versions", "t.workspace_id = $1", `'id', pg_temp.copy_of(t.id, k), 'workspace_id', pg_temp.copy_of(t.workspace_id, k)`},
	{"runs", "t.workspace_id = $1", `'id', pg_temp.copy_of(t.id, k), 'plan_id', pg_temp.copy_of(t.plan_id, k), 'apply_id', pg_temp.copy_of(t.apply_id, k),
        'workspace_id', pg_temp.copy_of(t.workspace_id, k), 'configuration_version_id', pg_temp.copy_of(t.configuration_version_id, k), 'queue_seq', nextval('run_queue_seq')`},
	{"attempts", "t.workspace_id = $1", `'id', pg_temp.copy_of(t.id, k), 'workspace_id', pg_temp.copy_of(t.workspace_id, k), 'run_id', pg_temp.copy_of(t.run_id, k)`},
	{"run_history", "t.run_id in (select id from runs where workspace_id = $1)", `'run_id', pg_temp.copy_of(t.run_id, k)`},
	{"run_stages", "t.run_id in (select id from runs where workspace_id = $1)", `'id', pg_temp.copy_of(t.id, k), 'run_id', pg_temp.copy_of(t.run_id, k),
        'attempt_id', pg_temp.copy_of(t.attempt_id, k)`},
}

// copyWorkspace makes copies of a workspace with its waiting runs, row by row as the server
// wrote them: ten thousand runs through the API would take minutes.
func copyWorkspace(ctx context.Context, db *pgx.Conn, workspace string, copies int) (err error) {
	if _, err := db.Exec(ctx, copyOf); err != nil {
		return err
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	// A run is born in its first status; the copies are of later ones, so the triggers stay silent.
	if _, err := tx.Exec(ctx, "set local session_replication_role = replica"); err != nil {
		return err
	}
	for _, c := range copied {
		var into, from string
		if err := tx.QueryRow(ctx, columnsOf, c.table).Scan(&into, &from); err != nil {
			return fmt.Errorf("read the columns of %s: %w", c.table, err)
		}
		sql := fmt.Sprintf("insert into %[1]s (%[4]s) select %[5]s from %[1]s t, generate_series(1, $2::integer) k, jsonb_populate_record(null::%[1]s, to_jsonb(t) || jsonb_build_object(%[3]s)) made where %[2]s",
			c.table, c.rows, c.differs, into, from)
		if _, err := tx.Exec(ctx, sql, workspace, copies); err != nil {
			return fmt.Errorf("copy %s: %w", c.table, err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		return err
	}
	_, err = db.Exec(ctx, "analyze") // as autovacuum would a minute later
	return err
}
