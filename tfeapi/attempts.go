package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/runs"
)

// attemptView is what a runner executes, or executed, without what it was given.
type attemptView struct {
	ID              string     `jsonapi:"primary,run-attempts"`
	Phase           string     `jsonapi:"attr,phase"`
	Status          string     `jsonapi:"attr,status"`
	Outcome         string     `jsonapi:"attr,outcome"`
	ExitCode        *int       `jsonapi:"attr,exit-code"`
	FenceEpoch      *int64     `jsonapi:"attr,fence-epoch"`
	TofuVersion     string     `jsonapi:"attr,tofu-version"`
	ManifestDigest  string     `jsonapi:"attr,manifest-digest"`
	CreatedAt       time.Time  `jsonapi:"attr,created-at,iso8601"`
	AcceptedAt      *time.Time `jsonapi:"attr,accepted-at,iso8601"`
	ApplyStartedAt  *time.Time `jsonapi:"attr,apply-started-at,iso8601"`
	StopRequestedAt *time.Time `jsonapi:"attr,stop-requested-at,iso8601"`
	FinishedAt      *time.Time `jsonapi:"attr,finished-at,iso8601"`
	related         relations
}

func (v *attemptView) relations() relations { return v.related }

func newAttemptView(a dispatch.Attempt) *attemptView {
	view := &attemptView{
		ID: string(a.ID), Phase: string(a.Phase), Status: string(a.Status), Outcome: a.Outcome, ExitCode: a.ExitCode, FenceEpoch: a.FenceEpoch,
		TofuVersion: a.TofuVersion, ManifestDigest: a.ManifestDigest, CreatedAt: a.CreatedAt, AcceptedAt: a.AcceptedAt, ApplyStartedAt: a.ApplyStartedAt,
		StopRequestedAt: a.StopRequestedAt, FinishedAt: a.FinishedAt,
		related: relations{"run": ref{"runs", string(a.RunID)}, "agent": nil, "agent-pool": nil},
	}
	if a.RunnerID != "" {
		view.related["agent"] = ref{"agents", string(a.RunnerID)}
	}
	if a.GroupID != "" {
		view.related["agent-pool"] = ref{"agent-pools", string(a.GroupID)}
	}
	return view
}

func (s *server) listAttempts(r *request) (answer, error) {
	run, p, err := pageOfRun(r)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Runs.AttemptsOf(r.ctx, r.actor, run, runs.Page{Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items := make([]*attemptView, 0, len(list))
	for _, attempt := range list {
		items = append(items, newAttemptView(attempt))
	}
	return page(items, p, total), nil
}
