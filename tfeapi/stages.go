package tfeapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
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

// receiptView is what a phase came to. The counts are null unless all of it was done.
type receiptView struct {
	ID                   string            `jsonapi:"primary,run-receipts"`
	Kind                 string            `jsonapi:"attr,kind"`
	Result               string            `jsonapi:"attr,result"`
	Reason               string            `jsonapi:"attr,reason"`
	ExitCode             *int              `jsonapi:"attr,exit-code"`
	HasChanges           *bool             `jsonapi:"attr,has-changes"`
	ResourceAdditions    *int              `jsonapi:"attr,resource-additions"`
	ResourceChanges      *int              `jsonapi:"attr,resource-changes"`
	ResourceDestructions *int              `jsonapi:"attr,resource-destructions"`
	ResourceImports      *int              `jsonapi:"attr,resource-imports"`
	Digests              map[string]string `jsonapi:"attr,digests"`
	TofuVersion          string            `jsonapi:"attr,tofu-version"`
	TofuDigest           string            `jsonapi:"attr,tofu-digest"`
	Outputs              []receiptOutput   `jsonapi:"attr,outputs"`
	DurationMS           int64             `jsonapi:"attr,duration-ms"`
	StartedAt            time.Time         `jsonapi:"attr,started-at,iso8601"`
	FinishedAt           time.Time         `jsonapi:"attr,finished-at,iso8601"`
	related              relations
}

func (v *receiptView) relations() relations { return v.related }

// receiptOutput is one output of the state that an apply left. The value of a
// sensitive one is null (RE-02).
type receiptOutput struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Sensitive bool            `json:"sensitive"`
	Type      string          `json:"type"`
	Value     json.RawMessage `json:"value"`
}

func newReceiptView(c runs.Receipt, outputs []state.Output) *receiptView {
	view := &receiptView{
		ID: string(c.ID), Kind: string(c.Kind), Result: string(c.Result), Reason: c.Reason, ExitCode: c.ExitCode, HasChanges: c.HasChanges,
		ResourceAdditions: c.ResourceAdditions, ResourceChanges: c.ResourceChanges, ResourceDestructions: c.ResourceDestructions, ResourceImports: c.ResourceImports,
		Digests: c.Digests, TofuVersion: c.TofuVersion, TofuDigest: c.TofuDigest, Outputs: make([]receiptOutput, 0, len(outputs)),
		DurationMS: c.FinishedAt.Sub(c.StartedAt).Milliseconds(), StartedAt: c.StartedAt, FinishedAt: c.FinishedAt,
		related: relations{"run": ref{"runs", string(c.RunID)}, "stage": stageRef(c.StageID), "attempt": attemptRef(c.AttemptID), "state-version": nil},
	}
	if c.StateVersionID != "" {
		view.related["state-version"] = ref{"state-versions", string(c.StateVersionID)}
	}
	drawn, _ := newOutputViews(outputs, true)
	for _, o := range drawn {
		view.Outputs = append(view.Outputs, receiptOutput{ID: o.ID, Name: o.Name, Sensitive: o.Sensitive, Type: o.Type, Value: o.Value})
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

// listReceipts shows the outputs of an apply to those who may read outputs.
func (s *server) listReceipts(r *request) (answer, error) {
	run, p, err := pageOfRun(r)
	if err != nil {
		return answer{}, err
	}
	d, err := s.Runs.Get(r.ctx, r.actor, run)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Runs.Receipts(r.ctx, r.actor, run, runs.Page{Limit: p.limit(), Offset: p.offset()})
	if err != nil {
		return answer{}, err
	}
	items := make([]*receiptView, 0, len(list))
	for _, receipt := range list {
		var outputs []state.Output
		if receipt.StateVersionID != "" && authz.Can(r.actor, authz.StateReadOutputs, d.Object()) {
			if outputs, err = s.State.Outputs(r.ctx, r.actor, receipt.StateVersionID); err != nil {
				return answer{}, err
			}
		}
		items = append(items, newReceiptView(receipt, outputs))
	}
	return page(items, p, total), nil
}
