package runtasks

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Outcome is one thing that a service has found, beside its answer.
type Outcome struct {
	ID          ids.TaskOutcome
	ResultID    ids.TaskResult
	OutcomeID   string // the service's own name for it, once in a result
	Description string
	Body        string // Markdown
	URL         string // where the service shows more
	Tags        Tags
	CreatedAt   time.Time
}

// Tags are labels by what they are about, such as "Severity".
type Tags map[string][]Tag

// Tag is one label. Level is none, info, warning or error; empty is none.
type Tag struct {
	Label string `json:"label"`
	Level string `json:"level,omitempty"`
}

const (
	mostOutcomes     = 200     // of one result
	longestOutcomeID = 200     // bytes
	longestBody      = 1 << 20 // bytes of one
	longestBodies    = 5 << 20 // bytes of all of one result
	longestTags      = 8 << 10 // bytes, as JSON
)

func (o Outcome) check(i int) error {
	at := fmt.Sprintf("/data/relationships/outcomes/data/%d/attributes/", i)
	invalid := func(attribute, text string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_attribute", text, args...).At(at + attribute)
	}
	if o.OutcomeID == "" {
		return invalid("outcome-id", "Outcome id can't be blank: it is the service's own name for what it has found")
	}
	for _, text := range []struct {
		attribute, value string
		limit            int
	}{{"outcome-id", o.OutcomeID, longestOutcomeID}, {"description", o.Description, longestMessage}, {"body", o.Body, longestBody}, {"url", o.URL, longestLink}} {
		if len(text.value) > text.limit || !accounts.Storable(text.value) {
			return invalid(text.attribute, "%s must be text of at most %d bytes", text.attribute, text.limit)
		}
	}
	for name, list := range o.Tags {
		for _, tag := range list {
			switch tag.Level {
			case "", "none", "info", "warning", "error":
			default:
				return invalid("tags", "The level of a tag must be none, info, warning or error")
			}
			if tag.Label == "" || !accounts.Storable(tag.Label) || !accounts.Storable(name) {
				return invalid("tags", "A tag needs a label")
			}
		}
	}
	encoded, err := json.Marshal(o.Tags)
	if err == nil && len(encoded) > longestTags {
		err = invalid("tags", "Tags must be at most %d bytes", longestTags)
	}
	return err
}

// keep writes the outcomes of a report: one that was reported before is replaced.
func keep(ctx context.Context, tx postgres.Tx, result ids.TaskResult, list []Outcome) error {
	for _, o := range list {
		if o.Tags == nil {
			o.Tags = Tags{}
		}
		tags, err := json.Marshal(o.Tags)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("OutcomeKeep"), postgres.Args{
			"id": ids.New[ids.TaskOutcome](), "result_id": result, "outcome_id": o.OutcomeID, "description": o.Description, "body": o.Body, "url": o.URL, "tags": string(tags),
		})
		if err != nil || n != 1 {
			return fmt.Errorf("keep an outcome of %s: %d rows: %w", result, n, err)
		}
	}
	if len(list) == 0 {
		return nil
	}
	sum, err := postgres.One[struct{ Outcomes, Bytes int }](ctx, tx, Queries.Get("OutcomeSum"), postgres.Args{"result_id": result})
	if err == nil && (sum.Outcomes > mostOutcomes || sum.Bytes > longestBodies) {
		err = fault.New(fault.Invalid, "too_many_outcomes", "A task result has at most %d outcomes, and %d bytes in their bodies: report what matters most.", mostOutcomes, longestBodies).At("/data/relationships/outcomes")
	}
	return err
}

// Outcomes gives a page of what a service has found, in the order in which it came, and how many there are.
func Outcomes(ctx context.Context, tx postgres.Tx, result ids.TaskResult, page accounts.Page) (list []Outcome, total int, err error) {
	sum, err := postgres.One[struct{ Outcomes, Bytes int }](ctx, tx, Queries.Get("OutcomeSum"), postgres.Args{"result_id": result})
	if err != nil {
		return nil, 0, err
	}
	list, err = postgres.All[Outcome](ctx, tx, Queries.Get("OutcomeList"), postgres.Args{"result_id": result, "limit": page.Limit(), "offset": page.Offset()})
	return list, sum.Outcomes, err
}
