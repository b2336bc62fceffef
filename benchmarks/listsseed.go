package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	random "math/rand/v2"
	"os"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// How much there is to list.
const (
	listWorkspaces = 100_000
	listRuns       = 1_000_000
	listProjects   = 200
	listTags       = 50
	listBusy       = 100 // workspaces that have a thousand runs; the others have nine
	shownProject   = 7   // whose workspaces the member sees
)

// crowd is an organization with very many workspaces and runs, all copies of one workspace
// and its run as the server wrote them.
type crowd struct {
	db             *pgx.Conn
	workspace, run string // that the others are copies of
	projects       []string
	busy           []string // ids of workspaces with many runs
	some           []string // ids of other workspaces
	waiting        subject  // where new runs wait
	member         *api     // sees one workspace in a hundred
	seen           []string // ids of workspaces that it sees
}

// listSeeds are the tables of a workspace and its run, in order. Each row of from is taken
// once for each row of per, which has the numbers and ids of the copies; set says in which
// columns a copy differs. Order is that of the rows on disk: as they would have come.
var listSeeds = []struct {
	table, from, per, order string
	set                     map[string]string
}{
	{"projects", "t.id = (select project_id from workspaces where id = $1)", "seed_projects s", "s.k", map[string]string{
		"id": "s.id", "name": "'area-' || s.k", "is_default": "false", "created_at": "clock_timestamp()",
	}},
	{"workspaces", "t.id = $1", "seed_workspaces s", "s.k", map[string]string{
		"id": "s.id", "name": "s.name", "project_id": "s.project", "description": "'Looked after by team ' || s.k % 97",
		"created_at": "s.created", "updated_at": "s.created", "last_run_at": "s.created + interval '20 days' * random()",
	}},
	{"workspace_fences", "t.workspace_id = $1", "seed_workspaces s", "s.k", map[string]string{
		"workspace_id": "s.id", "holder_kind": "null", "holder_id": "null", "holder_name": "''", "reason": "''", "acquired_at": "null", "epoch": "2000",
	}},
	{"variables", "t.id = (select min(id) from variables where workspace_id = $1)", "seed_workspaces s, generate_series(1, 3) v", "s.k", map[string]string{
		"id": "'var-' || " + freshText, "workspace_id": "s.id", "key": "'setting_' || v",
	}},
	{"configuration_versions", "t.id = (select configuration_version_id from runs where id = $2)", "seed_workspaces s", "s.k", map[string]string{
		"id": "s.configuration", "workspace_id": "s.id", "created_at": "s.created",
	}},
	{"state_versions", "t.id = (select state_version_id from current_states where workspace_id = $1)", "seed_workspaces s", "s.k", map[string]string{
		"id": "'sv-' || s.text", "workspace_id": "s.id", "run_id": "null", "attempt_id": "null", "base_version_id": "null", "created_at": "s.created",
	}},
	{"current_states", "t.workspace_id = $1", "seed_workspaces s", "s.k", map[string]string{
		"workspace_id": "s.id", "state_version_id": "'sv-' || s.text",
	}},
	{"runs", "t.id = $2", "seed_runs s join seed_workspaces w on w.k = s.k", "s.n", map[string]string{
		"id": "s.id", "plan_id": "'plan-' || substr(s.id, 5)", "apply_id": "'apply-' || substr(s.id, 5)", "workspace_id": "w.id", "configuration_version_id": "w.configuration",
		"queue_seq": "nextval('run_queue_seq')", "message": "s.message", "source": "(array['tfe-api', 'tfe-ui', 'tfe-configuration-version', 'tfe-api'])[1 + s.n % 4]",
		"durable_status": "(array['succeeded', 'succeeded', 'succeeded', 'plan_failed', 'canceled'])[1 + s.chance % 5]", "plan_only": "s.chance % 4 = 0",
		"fence_epoch": "case when s.chance % 4 > 0 then s.n / 1000 end", "fence_released_at": "case when s.chance % 4 > 0 then s.created end", "predecessor_version_id": "null", "resulting_version_id": "null",
		"run_variables_sealed": "s.given", "created_at": "s.created", "finished_at": "s.created",
	}},
	{"run_history", "t.run_id = $2 and t.position < 3", "seed_runs s", "s.id, t.position", map[string]string{"run_id": "s.id"}},
	{"attempts", "t.run_id = $2 and t.phase = 'plan'", "seed_runs s join seed_workspaces w on w.k = s.k", "s.id", map[string]string{
		"id": "'att-' || substr(s.id, 5)", "run_id": "s.id", "workspace_id": "w.id", "created_at": "s.created",
	}},
}

const freshText = "translate(left(md5(random()::text || clock_timestamp()::text), 16), '0', 'z')"

// seedTables are the numbers, ids and names of the copies.
const seedTables = `
drop table if exists seed_projects, seed_workspaces, seed_runs;
create unlogged table seed_projects as
    select k, 'prj-' || ` + freshText + ` as id from generate_series(0, %[1]d - 1) k;
create unlogged table seed_workspaces as
    select x.k, 'ws-' || text as id, 'cv-' || text as configuration, text, p.id as project, clock_timestamp() - interval '1 year' * (1 - x.k / %[2]d.0) as created,
           (array['payments', 'checkout', 'search', 'identity', 'billing', 'catalog', 'shipping', 'reports', 'gateway', 'ledger', 'media', 'inbox', 'pricing', 'fraud'])[1 + x.k %% 14]
           || '-' || (array['api', 'db', 'cache', 'queue', 'network', 'dns', 'web', 'worker', 'iam'])[1 + x.k %% 9]
           || '-' || (array['prod', 'stage', 'test', 'dev', 'sandbox'])[1 + x.k %% 5]
           || '-' || (array['eu', 'us', 'ap', 'sa'])[1 + x.k / 7 %% 4] || '-' || lpad(x.k::text, 5, '0') as name
      from (select k, ` + freshText + ` as text from generate_series(0, %[2]d - 1) k) x join seed_projects p on p.k = x.k %% %[1]d;
alter table seed_workspaces add primary key (k);
create unlogged table seed_runs (n integer, id text, given bytea, k integer, chance integer, created timestamptz, message text);
analyze seed_workspaces`

// tagging gives each workspace two of the tags, a pair of key and value, its current run, and its
// place in the lists: triggers have not seen the copies.
const tagging = `
insert into listed_workspaces (id, organization_id, project_id, name, lower_name, last_run_at, deleted_at)
    select id, organization_id, project_id, name, lower(name collate "C"), last_run_at, deleted_at from workspaces on conflict do nothing;
delete from workspace_counts;
insert into workspace_counts (organization_id, project_id, living)
    select organization_id, project_id, count(*) from listed_workspaces where deleted_at is null group by 1, 2;
insert into current_runs (workspace_id, organization_id, run_id, status)
    select w.id, w.organization_id, r.id, r.durable_status from workspaces w join runs r on r.id = current_run_of(w.id) on conflict do nothing;
insert into tags (id, organization_id, name)
    select 'tag-' || ` + freshText + `, o.id, 'tag-' || k from organizations o, generate_series(0, %[1]d - 1) k where o.name = '` + organization + `';
insert into workspace_tags (organization_id, workspace_id, tag_id)
    select t.organization_id, s.id, t.id from seed_workspaces s, generate_series(1, 2) which
      join lateral (select 'tag-' || case which when 1 then s.k %% %[1]d else (s.k / %[1]d + 1 + s.k) %% %[1]d end as name) wanted on true join tags t on t.name = wanted.name
    on conflict do nothing;
insert into tag_bindings (id, organization_id, workspace_id, key, value)
    select 'tb-' || text, o.id, s.id, 'env', (array['prod', 'stage', 'test', 'dev', 'sandbox'])[1 + k %% 5] from seed_workspaces s, organizations o where o.name = '` + organization + `'`

// crowd fills the database of the stack. It takes some minutes: through the API it would
// take days.
func (b *bench) crowd(ctx context.Context) (c *crowd, err error) {
	c = &crowd{}
	if c.db, err = database(ctx); err != nil {
		return nil, err
	}
	if err := b.original(ctx, c); err != nil {
		return nil, err
	}
	var made bool // of an earlier run on a stack that was kept
	if err := c.db.QueryRow(ctx, "select to_regclass('seeded') is not null").Scan(&made); err != nil {
		return nil, err
	}
	if !made {
		if err := c.fill(ctx); err != nil {
			return nil, err
		}
	}
	if err := c.pick(ctx); err != nil {
		return nil, err
	}
	if err := c.warm(ctx); err != nil {
		return nil, err
	}
	return c, b.invite(ctx, c)
}

// fill makes the copies.
func (c *crowd) fill(ctx context.Context) error {
	sql := fmt.Sprintf(seedTables, listProjects, listWorkspaces)
	if _, err := c.db.Exec(ctx, sql); err != nil {
		return fmt.Errorf("number the copies: %w", err)
	}
	if err := c.sealRuns(ctx); err != nil {
		return err
	}
	if err := c.copy(ctx); err != nil {
		return err
	}
	for _, later := range []string{"vacuum analyze", "checkpoint"} { // as PostgreSQL would by itself, a while later
		if _, err := c.db.Exec(ctx, later); err != nil {
			return err
		}
	}
	_, err := c.db.Exec(ctx, "create table seeded ()")
	return err
}

// warm has the system read all rows and indexes from the disk, as they are in memory where a server
// has run for a while. Those that were just made are in memory anyway.
func (c *crowd) warm(ctx context.Context) error {
	_, err := c.db.Exec(ctx, `create extension if not exists pg_prewarm;
	    select pg_prewarm(c.oid::regclass, 'read') from pg_class c where c.relkind in ('r', 'i') and c.relnamespace = 'public'::regnamespace`)
	return err
}

// original makes the workspace and the run that the others are copies of.
func (b *bench) original(ctx context.Context, c *crowd) error {
	f, err := b.folder(ctx, onServer, trivialConfiguration)
	if err != nil {
		return err
	}
	if _, _, err := f.apply(ctx, 0); err != nil {
		return err
	}
	w, err := b.api.read(ctx, "GET", "/api/v2/organizations/"+organization+"/workspaces/"+f.workspace, nil)
	if err != nil {
		return err
	}
	c.workspace = w.Data.ID
	c.run, err = w.related("current-run")
	if err != nil {
		return err
	}
	_, err = b.api.do(ctx, "POST", "/api/v2/workspaces/"+c.workspace+"/vars",
		fmt.Appendf(nil, `{"data":{"type":"vars","attributes":{"key":"setting_%s","value":"x","category":"terraform"}}}`, rand.Text()), io.Discard)
	return err
}

// sealRuns gives each run an id and its variables, none, sealed for it: a list opens them.
func (c *crowd) sealRuns(ctx context.Context) error {
	ring, err := envelope.OpenKeyring(os.Getenv("HOLDFAST_KEYRING"))
	if err != nil {
		return err
	}
	db, err := postgres.Open(ctx, os.Getenv("HOLDFAST_DATABASE_URL"))
	if err != nil {
		return err
	}
	defer db.Close()
	var org ids.Organization
	if err := c.db.QueryRow(ctx, "select id from organizations where name = $1", organization).Scan(&org); err != nil {
		return err
	}
	var sealer artifacts.Sealer
	err = postgres.InTx(ctx, db, "benchmarks.sealer", func(tx postgres.Tx) (err error) {
		sealer, err = artifacts.New(db, nil, ring).Sealer(ctx, tx, org)
		return err
	})
	if err != nil {
		return err
	}
	n := 0
	_, err = c.db.CopyFrom(ctx, pgx.Identifier{"seed_runs"}, []string{"n", "id", "given", "k", "chance"}, pgx.CopyFromFunc(func() ([]any, error) {
		if n++; n > listRuns {
			return nil, nil
		}
		id := ids.New[ids.Run]()
		return []any{n, string(id), sealer.Seal("run-variables/"+string(id), []byte("[]")), workspaceOfRun(n), random.IntN(1000)}, nil
	}))
	if err != nil {
		return err
	}
	_, err = c.db.Exec(ctx, fmt.Sprintf(`update seed_runs set created = clock_timestamp() - interval '1 year' * (1 - n / %d.0),
	    message = (array['Merge pull request #', 'Triggered via API, change ', 'Rotate the certificates of ', 'Bump the module to 1.', 'Nightly check '])[1 + n %% 5] || n; analyze seed_runs`, listRuns))
	return err
}

// workspaceOfRun spreads runs: one in ten belongs to a busy workspace, the others go round.
func workspaceOfRun(n int) int {
	if n%10 == 0 {
		return n / 10 % listBusy
	}
	return n * 7919 % listWorkspaces // a prime, so that neighbours in time are none in number
}

func (c *crowd) copy(ctx context.Context) error {
	tx, err := c.db.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	// The copies fit together as the original does, so that nothing needs to be looked up for each.
	if _, err := tx.Exec(ctx, "set local session_replication_role = replica; set local work_mem = '256MB'"); err != nil {
		return err
	}
	for _, s := range listSeeds {
		columns, err := columnsToCopy(ctx, tx, s.table)
		if err != nil {
			return err
		}
		values := make([]string, len(columns))
		for i, name := range columns {
			if values[i] = s.set[name]; values[i] == "" {
				values[i] = "t." + name
			}
		}
		// Both parameters are used, whatever the rows are chosen by.
		sql := fmt.Sprintf("insert into %[1]s (%[2]s) select %[3]s from %[1]s t, %[4]s where %[5]s and $1::text <> $2::text order by %[6]s",
			s.table, strings.Join(columns, ", "), strings.Join(values, ", "), s.per, s.from, s.order)
		if _, err := tx.Exec(ctx, sql, c.workspace, c.run); err != nil {
			return fmt.Errorf("copy %s: %w", s.table, err)
		}
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf(tagging, listTags)); err != nil {
		return fmt.Errorf("tag the workspaces: %w", err)
	}
	return tx.Commit(ctx)
}

// columnsToCopy are those of a table that can be written.
func columnsToCopy(ctx context.Context, tx pgx.Tx, table string) ([]string, error) {
	rows, err := tx.Query(ctx, "select quote_ident(attname) from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = '' order by attnum", table)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// pick chooses what the lists ask for.
func (c *crowd) pick(ctx context.Context) (err error) {
	texts := func(sql string) (list []string) {
		if err != nil {
			return nil
		}
		var rows pgx.Rows
		if rows, err = c.db.Query(ctx, sql); err != nil {
			return nil
		}
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return list
	}
	c.projects = texts("select id from seed_projects order by k")
	c.busy = texts(fmt.Sprintf("select id from seed_workspaces where k < %d order by k", listBusy))
	c.some = texts(fmt.Sprintf("select id from seed_workspaces where k >= %d order by random() limit 10000", listBusy))
	c.seen = texts(fmt.Sprintf("select id from seed_workspaces where project = (select id from seed_projects where k = %d) order by k", shownProject))
	return err
}
