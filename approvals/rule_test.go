package approvals_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

var ops, security = []ids.Team{"team-ops", "team-dba"}, []ids.Team{"team-sec"}

// Rules add up: of each part the stricter holds, whichever of the two says it.
func TestRulesAddUp(t *testing.T) {
	for name, c := range map[string]struct{ a, b, want approvals.Rule }{
		"nothing":             {approvals.Rule{}, approvals.Rule{}, approvals.Rule{}},
		"one says more":       {approvals.Rule{Required: 1}, approvals.Rule{Required: 3}, approvals.Rule{Required: 3}},
		"one says something":  {approvals.Rule{}, approvals.Rule{Mode: approvals.Automatic}, approvals.Rule{Mode: approvals.Automatic}},
		"manual wins":         {approvals.Rule{Mode: approvals.Manual}, approvals.Rule{Mode: approvals.Automatic}, approvals.Rule{Mode: approvals.Manual}},
		"requester wins":      {approvals.Rule{Mode: approvals.Automatic}, approvals.Rule{Mode: approvals.Requester}, approvals.Rule{Mode: approvals.Requester}},
		"excluded once":       {approvals.Rule{ExcludeRequester: true}, approvals.Rule{}, approvals.Rule{ExcludeRequester: true}},
		"production once":     {approvals.Rule{Production: true}, approvals.Rule{}, approvals.Rule{Production: true}},
		"reviewers of both":   {approvals.Rule{Reviewers: [][]ids.Team{ops}}, approvals.Rule{Reviewers: [][]ids.Team{security}}, approvals.Rule{Reviewers: [][]ids.Team{ops, security}}},
		"the same reviewers":  {approvals.Rule{Reviewers: [][]ids.Team{ops}}, approvals.Rule{Reviewers: [][]ids.Team{ops}}, approvals.Rule{Reviewers: [][]ids.Team{ops}}},
		"each says one thing": {approvals.Rule{Required: 2}, approvals.Rule{Mode: approvals.Manual, ExcludeRequester: true}, approvals.Rule{Mode: approvals.Manual, Required: 2, ExcludeRequester: true}},
	} {
		assert.Equal(t, c.want, c.a.And(c.b), name)
		back := c.b.And(c.a)
		assert.ElementsMatch(t, c.want.Reviewers, back.Reviewers, name)
		back.Reviewers = c.want.Reviewers
		assert.Equal(t, c.want, back, "%s, the other way round", name)
	}
}

func TestWhatNobodySaidIsSettled(t *testing.T) {
	for name, c := range map[string]struct {
		rule approvals.Rule
		mode approvals.Mode
	}{
		"nothing":              {approvals.Rule{}, approvals.Requester},
		"production":           {approvals.Rule{Production: true}, approvals.Manual},
		"said in production":   {approvals.Rule{Production: true, Mode: approvals.Requester}, approvals.Requester},
		"policy in production": {approvals.Rule{Production: true, Mode: approvals.Automatic}, approvals.Manual},
		"policy elsewhere":     {approvals.Rule{Mode: approvals.Automatic}, approvals.Automatic},
	} {
		settled := c.rule.Settled()
		assert.Equal(t, c.mode, settled.Mode, name)
		assert.Equal(t, 1, settled.Required, name)
		assert.Equal(t, c.mode != approvals.Manual, c.rule.TakesAutoApply(), name)
	}
}

// An allow of the policies is enough only where one approval is, of anybody.
func TestThePolicyTakesNoPersonsPlace(t *testing.T) {
	auto := approvals.Rule{Mode: approvals.Automatic}
	assert.True(t, auto.TakesPolicy())
	for name, more := range map[string]approvals.Rule{
		"two":        {Required: 2},
		"reviewers":  {Reviewers: [][]ids.Team{ops}},
		"production": {Production: true},
		"manual":     {Mode: approvals.Manual},
	} {
		rule := auto.And(more)
		assert.False(t, rule.TakesPolicy(), name)
		assert.False(t, rule.Counts(approvals.Vote{Requester: "user-ada", Source: approvals.ByPolicy}), name)
	}
	assert.Zero(t, auto.Missing([]approvals.Vote{{Requester: "user-ada", Source: approvals.ByPolicy}}))
}

func TestWhichVotesCount(t *testing.T) {
	vote := func(reviewer ids.User, source approvals.Source, teams ...ids.Team) approvals.Vote {
		return approvals.Vote{Reviewer: reviewer, Requester: "user-ada", Source: source, Teams: teams}
	}
	own, bob := vote("user-ada", approvals.Native), vote("user-bob", approvals.Native)
	auto := vote("user-ada", approvals.AutoApply)
	for name, c := range map[string]struct {
		rule    approvals.Rule
		votes   []approvals.Vote
		missing int
	}{
		"nothing asked, nobody":              {approvals.Rule{}, nil, 1},
		"nothing asked, the requester":       {approvals.Rule{}, []approvals.Vote{own}, 0},
		"nothing asked, auto-apply":          {approvals.Rule{}, []approvals.Vote{auto}, 0},
		"manual, auto-apply":                 {approvals.Rule{Mode: approvals.Manual}, []approvals.Vote{auto}, 1},
		"manual, the requester":              {approvals.Rule{Mode: approvals.Manual}, []approvals.Vote{own}, 0},
		"two, the requester and one more":    {approvals.Rule{Required: 2}, []approvals.Vote{own, bob}, 0},
		"two, one":                           {approvals.Rule{Required: 2}, []approvals.Vote{bob}, 1},
		"more than enough":                   {approvals.Rule{Required: 1}, []approvals.Vote{own, bob}, 0},
		"excluded":                           {approvals.Rule{ExcludeRequester: true}, []approvals.Vote{own}, 1},
		"excluded, auto-apply":               {approvals.Rule{ExcludeRequester: true}, []approvals.Vote{auto}, 1},
		"excluded, another":                  {approvals.Rule{ExcludeRequester: true}, []approvals.Vote{bob}, 0},
		"reviewers, none of them":            {approvals.Rule{Reviewers: [][]ids.Team{ops}}, []approvals.Vote{bob}, 1},
		"reviewers, the second team":         {approvals.Rule{Reviewers: [][]ids.Team{ops}}, []approvals.Vote{vote("user-bob", approvals.Native, "team-dba")}, 0},
		"reviewers of two, in one":           {approvals.Rule{Reviewers: [][]ids.Team{ops, security}}, []approvals.Vote{vote("user-bob", approvals.Native, "team-dba")}, 1},
		"reviewers of two, in both":          {approvals.Rule{Reviewers: [][]ids.Team{ops, security}}, []approvals.Vote{vote("user-bob", approvals.Native, "team-sec", "team-ops")}, 0},
		"asked by a team, decided by it":     {approvals.Rule{ExcludeRequester: true}, []approvals.Vote{{Reviewer: "user-bob", Requester: "user-ci", RequesterTeam: "team-ci", Teams: []ids.Team{"team-ci"}}}, 1},
		"asked by a team, decided elsewhere": {approvals.Rule{ExcludeRequester: true}, []approvals.Vote{{Reviewer: "user-bob", Requester: "user-ci", RequesterTeam: "team-ci", Teams: ops}}, 0},
	} {
		assert.Equal(t, c.missing, c.rule.Missing(c.votes), name)
	}
}

// What would not count is refused at once, and said why (AR-08, AR-10, AP-17).
func TestWhoMayApproveAndReject(t *testing.T) {
	object := authz.Object{Organization: "org-1", Project: "prj-1", Workspace: "ws-1", Noun: "run", Name: "run-1"}
	actor := func(kind authz.ActorKind, user ids.User, teams []ids.Team, levels ...authz.Level) authz.Actor {
		return authz.Actor{Kind: kind, User: user, Roles: map[ids.Organization]authz.Role{"org-1": authz.Member},
			Grants: map[ids.Organization]authz.Grants{"org-1": {Teams: teams, Workspaces: map[ids.Workspace][]authz.Level{"ws-1": levels}}}}
	}
	write, act := authz.Level("workspace:write"), authz.Level("workspace:production-act")
	ada, bob := actor(authz.UserActor, "user-ada", nil, write), actor(authz.UserActor, "user-bob", ops, write)
	ci := actor(authz.TeamActor, "user-ci", []ids.Team{"team-ci"}, write)
	producer := actor(authz.UserActor, "user-eve", nil, write, act)
	for name, c := range map[string]struct {
		rule            approvals.Rule
		actor           authz.Actor
		approve, reject string
	}{
		"nothing asked":              {approvals.Rule{}, ada, "", ""},
		"nothing asked, a token":     {approvals.Rule{}, ci, "", ""},
		"a rule, a token":            {approvals.Rule{Required: 2}, ci, "person_required", "person_required"},
		"manual, a token":            {approvals.Rule{Mode: approvals.Manual}, ci, "person_required", "person_required"},
		"the requester":              {approvals.Rule{ExcludeRequester: true}, ada, "separate_approver_required", ""},
		"another":                    {approvals.Rule{ExcludeRequester: true}, bob, "", ""},
		"a reviewer":                 {approvals.Rule{Reviewers: [][]ids.Team{ops}}, bob, "", ""},
		"no reviewer":                {approvals.Rule{Reviewers: [][]ids.Team{security}}, bob, "reviewer_required", "reviewer_required"},
		"no reviewer, the requester": {approvals.Rule{Reviewers: [][]ids.Team{security}}, ada, "reviewer_required", ""},
		"production":                 {approvals.Rule{Production: true}, bob, "forbidden", ""},
		"production, with the right": {approvals.Rule{Production: true}, producer, "", ""},
	} {
		vote := approvals.Vote{Reviewer: c.actor.User, Requester: "user-ada", Source: approvals.Native, Teams: c.actor.Grants["org-1"].Teams}
		for what, got := range map[string]struct {
			err  error
			want string
		}{
			"approve": {c.rule.MayApprove(c.actor, object, vote), c.approve},
			"reject":  {c.rule.MayReject(c.actor, object, vote), c.reject},
		} {
			if got.want == "" {
				assert.NoError(t, got.err, "%s: %s", name, what)
				continue
			}
			require.Error(t, got.err, "%s: %s", name, what)
			assert.True(t, fault.Is(got.err, fault.Forbidden) && fault.HasCode(got.err, got.want), "%s: %s: want %s: %v", name, what, got.want, got.err)
		}
	}
	err := approvals.Rule{Production: true}.MayApprove(bob, object, approvals.Vote{Reviewer: "user-bob", Requester: "user-ada"})
	assert.ErrorContains(t, err, "production:act")
}
