package runs

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

// rule changes what is said about approvals of a workspace.
func (w *world) rule(ws ids.Workspace, fn func(*approvals.Setting)) {
	w.Helper()
	_, err := approvals.New(w.db).Change(ctx, system, approvals.Target{Workspace: ws}, fn)
	require.NoError(w, err)
}

func quorumOfTwo(s *approvals.Setting) { s.Required, s.ExcludeRequester = ptr(2), ptr(true) }

// person makes an owner, or with a team a member of it alone.
func (w *world) person(name string, teams ...accounts.Team) authz.Actor {
	w.Helper()
	u, err := w.who.CreateUser(ctx, system, accounts.NewUser{Username: name})
	require.NoError(w, err)
	role := authz.Owner
	if len(teams) > 0 {
		role = authz.Member
	}
	require.NoError(w, w.who.AddMember(ctx, system, w.acme.ID, u.ID, role))
	for _, t := range teams {
		require.NoError(w, w.who.AddTeamMembers(ctx, system, t.ID, accounts.TeamMembers{Usernames: []string{name}}))
	}
	return w.again(authz.Actor{User: u.ID})
}

// again is somebody with the rights of now.
func (w *world) again(a authz.Actor) (now authz.Actor) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		now, err = accounts.ActorOf(ctx, tx, a.User)
		return err
	}))
	return now
}

func (w *world) team(name string, access ...string) accounts.Team {
	w.Helper()
	gives := map[string]bool{}
	for _, a := range access {
		gives[a] = true
	}
	team, err := w.who.CreateTeam(ctx, system, "acme", accounts.TeamSettings{Name: &name, Access: gives})
	require.NoError(w, err)
	return team
}

func (w *world) approves(who authz.Actor, run ids.Run) {
	w.Helper()
	require.NoError(w, w.runs.Confirm(ctx, who, run, Decision{Comment: "fine"}))
}

func (w *world) requirement(run ids.Run) Requirement {
	w.Helper()
	v, err := w.runs.Review(ctx, w.owner, run)
	require.NoError(w, err)
	require.NotNil(w, v.Requirement)
	return *v.Requirement
}

// Two others approve, the requester does not count, nobody counts twice, and the records
// say who has approved what (AR-08, AR-09).
func TestAQuorumWithoutTheRequester(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.rule(ws, quorumOfTwo)
	eve, dan := w.person("eve"), w.person("dan")
	run := w.waiting(ws)
	assert.Equal(t, 2, w.requirement(run).Missing)

	err := w.runs.Confirm(ctx, w.owner, run, Decision{})
	wantCode(t, err, fault.Forbidden, "separate_approver_required")
	assert.ErrorContains(t, err, string(run))
	w.approves(eve, run)
	wantCode(t, w.runs.Confirm(ctx, eve, run, Decision{}), fault.Conflict, "already_decided")
	wantCode(t, w.runs.Discard(ctx, eve, run, Decision{}), fault.Conflict, "already_decided")
	d := w.wantStatus(run, AwaitingApproval)
	assert.Nil(t, d.ConfirmedAt)
	assert.Empty(t, d.ApplyAttempt)
	assert.Equal(t, []ids.User{eve.User}, d.Approvers)
	assert.Equal(t, "waiting for a decision about the plan: 1 of 2 approvals", d.WaitsFor())
	q := w.requirement(run)
	assert.Equal(t, [2]int{1, 1}, [2]int{q.Given, q.Missing})

	w.approves(dan, run)
	d = w.wantStatus(run, AwaitingApproval)
	require.NotNil(t, d.ConfirmedAt)
	w.take(run).apply(1)
	w.wantStatus(run, Succeeded)

	list, err := w.runs.Decisions(ctx, w.member, run)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for i, who := range []authz.Actor{eve, dan} {
		e := list[i]
		assert.Equal(t, []ids.User{who.User, w.owner.User}, []ids.User{e.ReviewerID, e.RequesterID})
		assert.Equal(t, approvals.Approved, e.Decision)
		assert.Equal(t, []any{run, d.PlanID, "fine"}, []any{e.RunID, e.PlanID, e.Comment})
		assert.Equal(t, sha("the plan of "+w.attempt(run, "plan")), e.PlanDigest)
		assert.Equal(t, sha("locked providers"), e.LockFileDigest)
		assert.Equal(t, q.Binding.Digest(), e.BindingDigest)
		assert.NotNil(t, e.SpentAt)
		assert.NotEmpty(t, e.ReviewerTeams, "an owner is in the team owners")
	}
}

// attempt gives the id of a run's attempt.
func (w *world) attempt(run ids.Run, phase string) (id string) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		id, err = postgres.Value[string](ctx, tx, "select id from attempts where run_id = @r and phase = @p", postgres.Args{"r": run, "p": phase})
		return err
	}))
	return id
}

func TestOneRejectionEndsARunThatOthersApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.rule(ws, quorumOfTwo)
	eve, dan := w.person("eve"), w.person("dan")
	run := w.waiting(ws)
	next := w.run(ws)
	w.approves(eve, run)
	require.NoError(t, w.runs.Discard(ctx, dan, run, Decision{Comment: "no"}))
	assert.Empty(t, w.wantStatus(run, Rejected).ApplyAttempt)
	w.wantAdmitted(next.ID)
	wantCode(t, w.runs.Confirm(ctx, w.person("fay"), run, Decision{}), fault.Conflict, "invalid_transition")
}

// The reviewers are those who are in the teams when they decide; whoever asked may take it back.
func TestOnlyReviewersDecide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	reviewers := w.team("reviewers", "manage-workspaces")
	w.rule(ws, func(s *approvals.Setting) { s.Reviewers = []ids.Team{reviewers.ID} })
	stranger, gus := w.person("stranger"), w.person("gus", reviewers)
	run := w.waiting(ws)
	for _, who := range []authz.Actor{w.owner, stranger} {
		wantCode(t, w.runs.Confirm(ctx, who, run, Decision{}), fault.Forbidden, "reviewer_required")
	}
	wantCode(t, w.runs.Discard(ctx, stranger, run, Decision{}), fault.Forbidden, "reviewer_required")
	require.NoError(t, w.runs.Discard(ctx, w.owner, run, Decision{}))

	run = w.waiting(ws)
	w.approves(gus, run)
	assert.NotNil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))

	run = w.waiting(ws)
	require.NoError(t, w.who.RemoveTeamMembers(ctx, system, reviewers.ID, accounts.TeamMembers{Usernames: []string{"gus"}}))
	wantCode(t, w.runs.Confirm(ctx, w.again(gus), run, Decision{}), fault.NotFound, "not_found")
}

// A reviewer has decided as a member of the teams of then: who leaves one later counts on, and who comes into it later does not count
// by that for what it has approved before.
func TestTeamsCountAsOfTheDecision(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	reviewers, others := w.team("reviewers", "manage-workspaces"), w.team("others", "manage-workspaces")
	gus, hal, ida := w.person("gus", reviewers), w.person("hal", others), w.person("ida", reviewers)
	only := func(s *approvals.Setting) { s.Required, s.Reviewers = ptr(2), []ids.Team{reviewers.ID} }
	moves := func(name string, from, to accounts.Team) {
		one := accounts.TeamMembers{Usernames: []string{name}}
		require.NoError(t, w.who.RemoveTeamMembers(ctx, system, from.ID, one))
		require.NoError(t, w.who.AddTeamMembers(ctx, system, to.ID, one))
	}
	w.rule(ws, only)
	run := w.waiting(ws)
	w.approves(gus, run)
	moves("gus", reviewers, others)
	assert.Equal(t, 1, w.requirement(run).Given)
	w.approves(ida, run)
	assert.NotNil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))

	w.rule(ws, func(s *approvals.Setting) { *s = approvals.Setting{Required: ptr(2)} })
	run = w.waiting(ws)
	w.approves(hal, run)
	w.rule(ws, only)
	moves("hal", others, reviewers)
	assert.Equal(t, 0, w.requirement(run).Given)
	w.approves(ida, run)
	assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt, "who was no reviewer is none of the two")
}

// Who leaves the reviewers while its decision waits for the run's row has decided as none of them.
func TestTeamsAreReadWhenTheRowIsLocked(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace()
	reviewers, others := w.team("reviewers", "manage-workspaces"), w.team("others", "manage-workspaces")
	w.rule(ws, func(s *approvals.Setting) { s.Reviewers = []ids.Team{reviewers.ID} })
	gus := w.person("gus", reviewers, others)
	run := w.waiting(ws)
	answer := make(chan error, 1)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		if _, err := postgres.Exec(ctx, tx, "select from runs where id = @r for update", postgres.Args{"r": run}); err != nil {
			return err
		}
		go func() { answer <- w.runs.Confirm(ctx, gus, run, Decision{}) }()
		require.Eventually(t, func() bool {
			return count(w, "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'", nil) > 0
		}, 30*time.Second, 10*time.Millisecond, "it does not wait for the row")
		return w.who.RemoveTeamMembers(ctx, system, reviewers.ID, accounts.TeamMembers{Usernames: []string{"gus"}})
	}))
	wantCode(t, <-answer, fault.Forbidden, "reviewer_required")
	assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
}

// A rule that is made laxer does not hold for a run whose plan has come to its decision; one that is made
// stricter does, also for what was approved before.
func TestARuleUnderWayGetsOnlyStricter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	eve, dan := w.person("eve"), w.person("dan")
	w.rule(ws, quorumOfTwo)
	run := w.waiting(ws)
	w.rule(ws, func(s *approvals.Setting) { *s = approvals.Setting{} })
	wantCode(t, w.runs.Confirm(ctx, w.owner, run, Decision{}), fault.Forbidden, "separate_approver_required")
	w.approves(eve, run)
	assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
	w.approves(dan, run)
	assert.NotNil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))

	w.rule(ws, func(s *approvals.Setting) { s.Required = ptr(2) })
	run = w.waiting(ws)
	w.approves(w.owner, run)
	w.rule(ws, func(s *approvals.Setting) { s.ExcludeRequester = ptr(true) })
	w.approves(eve, run)
	assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt, "the requester's does not count any more")
	w.approves(dan, run)
	assert.NotNil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
}

// Auto-apply is the requester's decision where the rule takes it (G-09, amendment 22).
func TestAutoApplyUnderARule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		rule                func(*approvals.Setting)
		recorded, confirmed bool
	}{
		"requester": {func(s *approvals.Setting) { s.Mode = ptr(approvals.Requester) }, true, true},
		"manual":    {func(s *approvals.Setting) { s.Mode = ptr(approvals.Manual) }, false, false},
		"excluded":  {func(s *approvals.Setting) { s.ExcludeRequester = ptr(true) }, false, false},
		"two":       {func(s *approvals.Setting) { s.Required = ptr(2) }, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			ws := w.workspace()
			w.rule(ws, c.rule)
			run := w.waiting(ws, autoApply)
			d := w.get(run)
			assert.Equal(t, c.confirmed, d.ConfirmedAt != nil)
			assert.Equal(t, c.recorded, w.decisions(run, "approved", "auto-apply") == 1)
			require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))

			source := w.kept(ws)
			p, _, err := w.runs.Promote(ctx, w.owner, source, NewPromotion{AutoApply: ptr(true)})
			require.NoError(t, err)
			assert.Equal(t, c.confirmed, p.ConfirmedAt != nil, "nor is a promotion a way around it")
			require.NoError(t, w.runs.Cancel(ctx, w.owner, p.ID, ""))
		})
	}
}

// Production is decided by hand, by whoever may act on it (AR-10).
func TestProductionIsDecidedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	class := workspaces.Production
	ws := w.workspaceWith(workspaces.Settings{EnvironmentClass: &class})
	writers := w.team("writers")
	writer := w.person("wes", writers)
	give := func(levels ...authz.Level) authz.Actor {
		w.exec("insert into team_workspaces (id, organization_id, team_id, workspace_id, levels) values ('tws-1', @o, @t, @w, @l) on conflict (id) do update set levels = excluded.levels",
			postgres.Args{"o": w.acme.ID, "t": writers.ID, "w": ws, "l": levels})
		return w.again(writer)
	}
	run := w.waiting(ws, autoApply)
	assert.Nil(t, w.get(run).ConfirmedAt)
	err := w.runs.Confirm(ctx, give("workspace:write"), run, Decision{})
	wantCode(t, err, fault.Forbidden, "forbidden")
	assert.ErrorContains(t, err, "production:act")
	w.approves(give("workspace:runs=apply", "workspace:production-act"), run)
	assert.NotNil(t, w.get(run).ConfirmedAt)
}

// Programs decide where nobody has said anything, and never where somebody has (AP-17, amendment 22).
func TestATeamsTokenDecidesOnlyWithoutARule(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ci := w.team("ci", "manage-workspaces")
	_, _, err := w.who.CreateTeamToken(ctx, system, ci.ID, accounts.NewToken{})
	require.NoError(t, err)
	var account ids.User
	require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
		account, err = postgres.Value[ids.User](ctx, tx, "select service_user_id from teams where id = @t", postgres.Args{"t": ci.ID})
		return err
	}))
	program := w.again(authz.Actor{User: account})
	require.Equal(t, authz.TeamActor, program.Kind)

	free, ruled := w.workspace(), w.workspace()
	w.rule(ruled, func(s *approvals.Setting) { s.Required = ptr(2) })
	run := w.waiting(ruled)
	wantCode(t, w.runs.Confirm(ctx, program, run, Decision{}), fault.Forbidden, "person_required")
	wantCode(t, w.runs.Discard(ctx, program, run, Decision{}), fault.Forbidden, "person_required")
	run = w.waiting(free)
	w.approves(program, run)
	assert.NotNil(t, w.get(run).ConfirmedAt)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))

	// What a team's token asked for is not approved by those who may have used it.
	made := w.person("mae", ci)
	w.rule(ruled, func(s *approvals.Setting) { s.Required, s.ExcludeRequester = nil, ptr(true) })
	asked := w.workspace()
	w.rule(asked, func(s *approvals.Setting) { s.ExcludeRequester = ptr(true) })
	n := NewRun{Workspace: asked, Configuration: w.configuration(asked), Source: "tfe-api"}
	d, _, err := w.runs.Create(ctx, program, n)
	require.NoError(t, err)
	w.take(d.ID).plan(true)
	wantCode(t, w.runs.Confirm(ctx, made, d.ID, Decision{}), fault.Forbidden, "separate_approver_required")
	w.approves(w.owner, d.ID)
	assert.NotNil(t, w.get(d.ID).ConfirmedAt)
}

// Outside production an allow of the policies approves what destroys nothing (G-09, PO-18).
func TestThePolicyApproves(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	production := workspaces.Production
	for name, c := range map[string]struct {
		settings  workspaces.Settings
		more      func(*approvals.Setting)
		asked     bool
		destroys  int
		confirmed bool
	}{
		"allowed":        {asked: true, confirmed: true},
		"nobody asked":   {},
		"destroys":       {asked: true, destroys: 1},
		"production":     {settings: workspaces.Settings{EnvironmentClass: &production}, asked: true},
		"two are needed": {more: func(s *approvals.Setting) { s.Required = ptr(2) }, asked: true},
	} {
		t.Run(name, func(t *testing.T) {
			ws := w.workspaceWith(c.settings)
			w.rule(ws, func(s *approvals.Setting) {
				s.Mode = ptr(approvals.Automatic)
				if c.more != nil {
					c.more(s)
				}
			})
			run := w.run(ws).ID
			e := w.take(run)
			if c.asked {
				w.allowedByPolicies(run)
			}
			e.log("planning\n")
			e.handOver("plan-json", `{}`)
			e.handOver("lock-file", "locked providers")
			e.handOver("plan", "the plan")
			done := planned(true)
			done.Plan.Destructions = c.destroys
			e.done(done)
			d := w.wantStatus(run, AwaitingApproval)
			assert.Equal(t, c.confirmed, d.ConfirmedAt != nil)
			list, err := w.runs.Decisions(ctx, w.owner, run)
			require.NoError(t, err)
			if !c.confirmed {
				assert.Empty(t, list)
				return
			}
			require.Len(t, list, 1)
			assert.Equal(t, approvals.ByPolicy, list[0].Source)
			assert.Empty(t, list[0].ReviewerID)
			assert.Empty(t, d.Approvers)
			w.take(run).apply(1)
			w.wantStatus(run, Succeeded)
		})
	}
}

// allowedByPolicies makes the check of the plan say that policies were asked and allowed it.
func (w *world) allowedByPolicies(run ids.Run) {
	w.Helper()
	require.NoError(w, w.tryExec("drop trigger if exists policies_were_asked on policy_checks", nil))
	require.NoError(w, w.tryExec("drop function if exists policies_were_asked", nil))
	require.NoError(w, w.tryExec(`create function policies_were_asked() returns trigger language plpgsql as $$ begin
		if new.run_id = '`+string(run)+`' and new.result is not null then new.result := '{"policy_sets":1}'; end if; return new; end $$`, nil))
	require.NoError(w, w.tryExec("create trigger policies_were_asked before insert or update on policy_checks for each row execute function policies_were_asked()", nil))
}

// What a reviewer has looked at is what it approves, or it approves nothing (AP-16).
func TestADecisionAboutAnotherBindingIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.waiting(w.workspace())
	digest := w.requirement(run).Binding.Digest()
	for _, decide := range []func(Decision) error{
		func(d Decision) error { return w.runs.Confirm(ctx, w.owner, run, d) },
		func(d Decision) error { return w.runs.Discard(ctx, w.owner, run, d) },
	} {
		err := decide(Decision{BindingDigest: sha("another")})
		wantCode(t, err, fault.Conflict, "binding_mismatch")
		assert.ErrorContains(t, err, digest)
	}
	assert.Nil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run, Decision{BindingDigest: digest}))
	assert.NotNil(t, w.get(run).ConfirmedAt)
}

// Whatever moves between the first approval and the apply, nothing is applied, and the run says what has moved (G-39).
func TestAStaleApprovalAppliesNothingAndNamesTheFact(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eve := w.person("eve")
	for name, c := range map[string]struct {
		move func(run ids.Run)
		says string
	}{
		"the lock file": {func(run ids.Run) {
			w.exec("update runs set lock_file_object_id = plan_object_id where id = @r", postgres.Args{"r": run})
		}, "the dependency lock file has changed"},
		"the configuration": {func(run ids.Run) {
			w.exec("update runs set configuration_object_id = plan_object_id where id = @r", postgres.Args{"r": run})
		}, "the configuration has changed"},
		"the policy result": {func(run ids.Run) {
			w.exec("update runs set policy_scope = 'another' where id = @r", postgres.Args{"r": run})
		}, "the policy result has changed"},
		"the state": {func(run ids.Run) {
			w.exec("insert into state_versions (id, organization_id, workspace_id, status, epoch, holder_kind, holder_id, declared_serial, declared_md5, serial, lineage, size, sha256, object_id, finalized_at, expires_at) "+
				"select 'sv-' || substr(r.id, 5), organization_id, workspace_id, 'finalized', 1, 'user', 'x', 1, 'm', 1, 'l', 1, 's', plan_object_id, clock_timestamp(), clock_timestamp() from runs r where id = @r", postgres.Args{"r": run})
			w.exec("insert into current_states (organization_id, workspace_id, state_version_id) select organization_id, workspace_id, 'sv-' || substr(id, 5) from runs where id = @r", postgres.Args{"r": run})
		}, "would be applied: the current state has changed"},
	} {
		for _, needed := range []int{2, 3} {
			t.Run(fmt.Sprintf("%s, before the second of %d approvals", name, needed), func(t *testing.T) {
				ws := w.workspace()
				w.rule(ws, func(s *approvals.Setting) { s.Required = ptr(needed) })
				run := w.waiting(ws)
				w.approves(w.owner, run)
				c.move(run)
				w.approves(eve, run)
				d := w.wantStatus(run, Canceled)
				assert.Equal(t, "APPROVAL_BINDING_STALE", d.DurableReason)
				assert.Contains(t, d.StatusMessage, c.says)
				assert.Empty(t, d.ApplyAttempt)
				w.wantReleased(run)
			})
		}
		t.Run(name+", after the last approval", func(t *testing.T) {
			run := w.waiting(w.workspace())
			w.approves(w.owner, run)
			e := w.take(run)
			c.move(run)
			wantCode(t, e.tryStart(), fault.Conflict, "APPROVAL_BINDING_STALE")
			e.done(Done{Outcome: OutcomeErrored, Message: "apply-start was refused"})
			d := w.wantStatus(run, Canceled)
			assert.Equal(t, "APPROVAL_BINDING_STALE", d.DurableReason)
			assert.Contains(t, d.StatusMessage, c.says)
			w.wantReleased(run)
		})
	}
}

// Two who approve at once are two, and start one apply.
func TestReviewersWhoApproveAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := []authz.Actor{w.owner, w.person("eve"), w.person("dan"), w.person("fay")}
	for range 5 {
		ws := w.workspace()
		w.rule(ws, func(s *approvals.Setting) { s.Required = ptr(3) })
		run := w.waiting(ws)
		var all sync.WaitGroup
		answers := make([]error, len(people))
		for i, who := range people {
			all.Go(func() { answers[i] = w.runs.Confirm(ctx, who, run, Decision{Comment: fmt.Sprint(i)}) })
		}
		all.Wait()
		accepted := 0
		for _, err := range answers {
			if err == nil {
				accepted++
			} else {
				wantCode(t, err, fault.Conflict, "invalid_transition")
			}
		}
		assert.Equal(t, 3, accepted, "the fourth comes too late")
		assert.NotNil(t, w.wantStatus(run, AwaitingApproval).ConfirmedAt)
		assert.Equal(t, 1, count(w, "select count(*) from attempts where run_id = @r and phase = 'apply'", postgres.Args{"r": run}))
		require.NoError(t, w.runs.Cancel(ctx, w.owner, run, ""))
	}
}

// The database lets nobody confirm with fewer approvals than the run's rule asks for.
func TestTheDatabaseCountsApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.rule(ws, func(s *approvals.Setting) { s.Required = ptr(2) })
	run := w.waiting(ws)
	w.approves(w.owner, run)
	err := w.tryExec("update runs set confirmed_at = clock_timestamp() where id = @r", postgres.Args{"r": run})
	require.ErrorContains(t, err, "has not enough approvals")
	err = w.tryExec("update approvals set decision = 'rejected' where run_id = @r", postgres.Args{"r": run})
	require.ErrorContains(t, err, "a decision is not changed or removed")
	err = w.tryExec("delete from approvals where run_id = @r", postgres.Args{"r": run})
	require.ErrorContains(t, err, "a decision is not changed or removed")
}

// An approved run that waits at a gate stays approved, and a lost wake-up is made up for (AP-08).
func TestAnApprovalWhoseWakeUpWasLostStillApplies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	w.rule(ws, func(s *approvals.Setting) { s.Required = ptr(2) })
	run := w.waiting(ws)
	w.setControls(gates.Controls{Deny: true, Reason: "maintenance"})
	w.approves(w.owner, run)
	w.approves(w.person("eve"), run)
	assert.Empty(t, w.wantStatus(run, AwaitingApproval).ApplyAttempt)
	w.overdue(run)
	w.sweep()
	w.wantStatus(run, AwaitingApproval)
	w.setControls(gates.Controls{})
	w.with(w.runs.settings).sweep() // another server, which knows nothing of it
	assert.Equal(t, dispatch.Pending, w.wantStatus(run, AwaitingApproval).ApplyAttempt)
	w.take(run).apply(1)
	w.wantStatus(run, Succeeded)
}
