package tfeapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

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
