package dispatch_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// crowd fills the queue: attempts pending attempts in 1,000 workspaces of ten
// organizations, beside as many that have ended.
func (w world) crowd(attempts int) {
	w.Helper()
	var orgs []string
	for i := range 10 {
		org, err := workspaces.New(w.db, accounts.New(w.db, w.objects), w.objects).CreateOrganization(ctx, authz.System(), accounts.NewOrganization{Name: fmt.Sprintf("org-%d", i)})
		require.NoError(w, err)
		orgs = append(orgs, string(org.ID))
	}
	args := postgres.Args{"orgs": orgs, "user": w.user, "version": tofu, "attempts": attempts}
	w.do(func(tx postgres.Tx) error {
		for _, sql := range []string{
			"set local session_replication_role = replica", // rows as they would be, without the rows they come from
			`insert into workspaces (id, organization_id, project_id, name)
		 select 'ws-' || n, (@orgs::text[])[1 + n % 10], 'prj-x', 'ws-' || n from generate_series(1, 1000) n`,
			`insert into attempts (id, organization_id, workspace_id, run_id, phase, tofu_version, speculative, status, claim_seq, created_at)
		 select 'att-' || n, (@orgs::text[])[1 + n % 10], 'ws-' || (1 + n % 1000), 'run-' || n, 'plan', @version, n % 3 = 0,
		        case when n <= @attempts::int then 'pending' else 'finished' end, case when n > @attempts::int then nextval('attempt_claims') end, clock_timestamp() - n * interval '1 second'
		   from generate_series(1, 2 * @attempts::int) n`,
		} {
			if _, err := postgres.Exec(ctx, tx, sql, args); err != nil {
				return err
			}
		}
		return nil
	})
	w.do(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "analyze attempts", nil)
		return err
	})
}

var buffers = regexp.MustCompile(`Buffers: shared hit=(\d+)`)

// TestAClaimStaysCheapInALongQueue: what a claim reads does not grow with the queue.
func TestAClaimStaysCheapInALongQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.crowd(10_000)
	var text []string
	w.do(func(tx postgres.Tx) (err error) {
		text, err = postgres.Values[string](ctx, tx, "explain (analyze, buffers) "+dispatch.Queries.Get("Claim"), postgres.Args{
			"runner_id": w.runner, "group_id": w.group.ID, "versions": []string{tofu}, "labels": []string{}, "expiry_seconds": 60.0,
			"organization": "", "takes_remote": true, "scoped": true, "everywhere": true,
		})
		return err
	})
	plan := strings.Join(text, "\n")
	assert.NotContains(t, plan, "Seq Scan on attempts", plan)
	read, err := strconv.Atoi(buffers.FindStringSubmatch(plan)[1])
	require.NoError(t, err)
	assert.Less(t, read, 1500, plan)

	claimed := map[ids.Organization]int{}
	for range 20 {
		a, found := w.claim()
		require.True(t, found)
		claimed[a.OrganizationID]++
	}
	assert.Len(t, claimed, 10)
	for org, n := range claimed {
		assert.Equal(t, 2, n, "each organization had two turns: %s", org)
	}
}
