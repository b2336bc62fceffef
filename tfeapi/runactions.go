package tfeapi

import (
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// What a person may do to a run besides deciding about its plan. Requeue, promote and
// replan answer with the run that goes on; native clients do not read the answer of
// the others.

func (s *server) cancelRun(r *request) (answer, error) {
	return actOnRun(r, func(run ids.Run, comment string) error { return s.Runs.Cancel(r.ctx, r.actor, run, comment) })
}

func (s *server) forceCancelRun(r *request) (answer, error) {
	return actOnRun(r, func(run ids.Run, comment string) error { return s.Runs.ForceCancel(r.ctx, r.actor, run, comment) })
}

func (s *server) forceExecuteRun(r *request) (answer, error) {
	return actOnRun(r, func(run ids.Run, _ string) error { return s.Runs.ForceExecute(r.ctx, r.actor, run) })
}

func (s *server) requeueRun(r *request) (answer, error) {
	run, err := id[ids.Run](r)
	if err != nil {
		return answer{}, err
	}
	d, err := s.Runs.Requeue(r.ctx, r.actor, run)
	return s.runAnswer(r, d, false, err)
}

type promoteAttributes struct {
	Message   Opt[string] `json:"message"`
	AutoApply Opt[bool]   `json:"auto-apply"`
}

func (s *server) promoteRun(r *request) (answer, error) {
	run, a, err := actionInput[promoteAttributes](r)
	if err != nil {
		return answer{}, err
	}
	d, isNew, err := s.Runs.Promote(r.ctx, r.actor, run, runs.NewPromotion{Message: a.Message.Or(""), Source: runSource(r), AutoApply: a.AutoApply.Pointer()})
	return s.runAnswer(r, d, isNew, err)
}

type replanAttributes struct {
	Message     Opt[string]   `json:"message"`
	TargetAddrs Opt[[]string] `json:"target-addrs"`
}

func (s *server) replanRun(r *request) (answer, error) {
	run, a, err := actionInput[replanAttributes](r)
	if err != nil {
		return answer{}, err
	}
	d, err := s.Runs.Replan(r.ctx, r.actor, run, runs.NewReplan{Message: a.Message.Or(""), Source: runSource(r), TargetAddrs: a.TargetAddrs.Value})
	return s.runAnswer(r, d, true, err)
}

// actionInput reads the id and the attributes of an action, which may have no body.
func actionInput[A any](r *request) (run ids.Run, attributes A, err error) {
	if run, err = id[ids.Run](r); err != nil {
		return run, attributes, err
	}
	body, err := r.body()
	if err != nil {
		return run, attributes, err
	}
	in, err := decodeUntyped[A](body)
	return run, in.Attributes, err
}

// runAnswer answers with the run an action has led to, 201 when it is a new one.
func (s *server) runAnswer(r *request, d runs.Detail, isNew bool, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	view, err := s.runDocument(r, d)
	if err != nil {
		return answer{}, err
	}
	if isNew {
		return created(view), nil
	}
	return ok(view), nil
}
