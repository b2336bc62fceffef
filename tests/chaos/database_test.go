package chaos

import (
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// query runs one statement on a connection of its own: the database may have been restarted
// since the last one.
func query[T any](s *stack, sql string, args ...any) ([]T, error) {
	s.mu.Lock()
	database := s.database
	s.mu.Unlock()
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return nil, errors.New("the database cannot be reached") // the cause may hold the password
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, sql, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[T])
}

func (s *stack) number(sql string, args ...any) (int, error) {
	type row struct{ Count int }
	rows, err := query[row](s, sql, args...)
	if err != nil || len(rows) != 1 {
		return 0, errors.Join(err, errors.New("no row"))
	}
	return rows[0].Count, nil
}

// bury notes that the runners of a name that exist now are dead. Their last sign of life is moved
// into the past, again and again because a request of theirs may still be on its way, so that
// the servers find out now and not after the ten minutes that they wait for an apply.
func (s *stack) bury(label string) error {
	type runner struct{ ID string }
	var found []runner
	err := await("the database", func() bool {
		var err error
		found, err = query[runner](s, "select id from runners where name = $1", label)
		return err == nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range found {
		s.dead = append(s.dead, r.ID)
	}
	return err
}

// forget keeps the dead silent until stop.
func (s *stack) forget(stop <-chan struct{}) {
	type touched struct{ One int }
	for {
		s.mu.Lock()
		dead := slices.Clone(s.dead)
		s.mu.Unlock()
		if len(dead) > 0 {
			// No database, no effect: the next round repeats it.
			_, _ = query[touched](s, `update attempts set heartbeat_at = clock_timestamp() - interval '15 minutes'
				where status = 'running' and runner_id = any($1) and heartbeat_at > clock_timestamp() - interval '12 minutes' returning 1 as one`, dead)
			_, _ = query[touched](s, `update attempts set assignment_expires_at = clock_timestamp()
				where status = 'assigned' and runner_id = any($1) and assignment_expires_at > clock_timestamp() returning 1 as one`, dead)
		}
		select {
		case <-stop:
			return
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// terminal are the durable statuses that a run does not leave by itself.
var terminal = []string{
	"succeeded", "plan_credentials_required", "plan_failed", "policy_failed", "rejected", "expired", "canceled",
	"needs_recovery", "apply_failed", "apply_start_uncertain", "apply_interrupted",
}

// tally counts the runs of workspaces by durable status.
func (s *stack) tally(workspaces []string) (map[string]int, error) {
	type row struct {
		Status string
		Count  int
	}
	rows, err := query[row](s, "select durable_status as status, count(*) as count from runs where workspace_id = any($1) group by 1", workspaces)
	counts := map[string]int{}
	for _, r := range rows {
		counts[r.Status] = r.Count
	}
	return counts, err
}

// openRuns counts runs that can still go on: those behind a held workspace cannot.
func (s *stack) openRuns(workspaces []string) (int, error) {
	return s.number(`select count(*) from runs r join workspace_fences f on f.workspace_id = r.workspace_id
		where r.workspace_id = any($1) and r.durable_status <> all($2) and not (f.recovery_held and r.admitted_at is null)`, workspaces, terminal)
}

// observe looks, as long as the traffic lasts, for what may be true at no instant: an epoch that
// has fallen, and a free workspace with a waiting run.
func (s *stack) observe(stop <-chan struct{}) {
	type fence struct {
		Workspace string
		Epoch     int64
		Idle      bool
	}
	for {
		fences, err := query[fence](s, `select f.workspace_id as workspace, f.epoch, f.holder_kind is null and exists (
			select from runs r where r.workspace_id = f.workspace_id and r.durable_status = 'queued' and not r.plan_only and not r.save_plan and r.admitted_at is null) as idle
			from workspace_fences f`)
		if err == nil {
			for _, f := range fences {
				s.history.add(event{Kind: "epoch", Workspace: f.Workspace, Epoch: f.Epoch})
				if f.Idle {
					s.history.add(event{Kind: "idle", Workspace: f.Workspace})
				}
			}
		}
		select {
		case <-stop:
			return
		case <-time.After(700 * time.Millisecond):
		}
	}
}
