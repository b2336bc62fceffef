package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// stageView is one step of a run.
type stageView struct {
	ID         string     `jsonapi:"primary,run-stages"`
	Kind       string     `jsonapi:"attr,kind"`
	Status     string     `jsonapi:"attr,status"`
	Position   int        `jsonapi:"attr,position"`
	CreatedAt  time.Time  `jsonapi:"attr,created-at,iso8601"`
	StartedAt  *time.Time `jsonapi:"attr,started-at,iso8601"`
	FinishedAt *time.Time `jsonapi:"attr,finished-at,iso8601"`
	related    relations
}

func (v *stageView) relations() relations { return v.related }

func newStageView(s runs.Stage) *stageView {
	view := &stageView{
		ID: string(s.ID), Kind: string(s.Kind), Status: string(s.Status), Position: s.Position, CreatedAt: s.CreatedAt, StartedAt: s.StartedAt, FinishedAt: s.FinishedAt,
		related: relations{"run": ref{"runs", string(s.RunID)}, "attempt": nil},
	}
	if s.AttemptID != "" {
		view.related["attempt"] = attemptRef(s.AttemptID)
	}
	return view
}

func stageRef(id ids.Stage) ref     { return ref{"run-stages", string(id)} }
func attemptRef(id ids.Attempt) ref { return ref{"run-attempts", string(id)} }

func stageRefs(list []runs.Stage) []ref {
	return refsTo(list, func(s runs.Stage) ref { return stageRef(s.ID) })
}

func attemptRefs(list []dispatch.Attempt) []ref {
	return refsTo(list, func(a dispatch.Attempt) ref { return attemptRef(a.ID) })
}

func receiptRefs(list []runs.Receipt) []ref {
	return refsTo(list, func(c runs.Receipt) ref { return ref{"run-receipts", string(c.ID)} })
}

func refsTo[T any](list []T, to func(T) ref) []ref {
	refs := make([]ref, 0, len(list))
	for _, item := range list {
		refs = append(refs, to(item))
	}
	return refs
}

// pageOfRun reads the run and the page of an address below a run.
func pageOfRun(r *request) (run ids.Run, p paging, err error) {
	if run, err = id[ids.Run](r); err != nil {
		return run, p, err
	}
	p, err = parsePaging(r.query)
	return run, p, err
}

func (s *server) listStages(r *request) (answer, error) {
	run, p, err := pageOfRun(r)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Runs.Stages(r.ctx, r.actor, run, runs.Page{Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items := make([]*stageView, 0, len(list))
	for _, stage := range list {
		items = append(items, newStageView(stage))
	}
	return page(items, p, total), nil
}
