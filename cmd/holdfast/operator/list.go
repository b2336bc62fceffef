package operator

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

type listCmd struct {
	Organization []string `placeholder:"NAME" help:"Only these organizations. Default: all that you see."`
}

func (c listCmd) Run(ctx context.Context, all *Commands) error {
	t, err := all.tool()
	if err != nil {
		return err
	}
	return t.list(ctx, c.Organization)
}

func (t *tool) list(ctx context.Context, organizations []string) error {
	found, raw, err := t.held(ctx, organizations)
	if err != nil {
		return err
	}
	if t.json {
		return terminal.WriteJSON(t.out, raw)
	}
	if len(found) == 0 {
		t.printf("No workspace waits for a recovery.")
	}
	for _, h := range found {
		t.printf("%s  %s  held since %s, %s, %s", terminal.Line(h.RunID), h.name(), moment(h.HeldSince), h.status(), waiting(h.WaitingRuns))
		t.printf("    %s", h.verdict())
	}
	return nil
}

// held gives the workspaces that wait for a recovery, as documents and as they came.
func (t *tool) held(ctx context.Context, organizations []string) (found []held, raw []resource, err error) {
	if len(organizations) == 0 {
		if organizations, err = t.organizations(ctx); err != nil {
			return nil, nil, err
		}
	}
	raw = []resource{}
	for _, name := range organizations {
		list, err := t.all(ctx, "organizations/"+url.PathEscape(name)+"/held-workspaces")
		if err != nil {
			return nil, nil, err
		}
		for _, one := range list {
			var h held
			if err := json.Unmarshal(one.Attributes, &h); err != nil {
				return nil, nil, err
			}
			found, raw = append(found, h), append(raw, one)
		}
	}
	return found, raw, nil
}

func (h held) name() string {
	return terminal.Line(h.OrganizationName) + "/" + terminal.Line(h.Name)
}

func (h held) status() string {
	if h.DurableStatus == nil {
		return "run unknown to the database"
	}
	return fmt.Sprintf("%s (%s)", terminal.Line(*h.DurableStatus), terminal.Line(h.DurableReason))
}

// verdict says whether anything is in doubt.
func (h held) verdict() string {
	switch {
	case !h.Permissions.CanRecover:
		return "not yours to recover"
	case h.Proven != nil && *h.Proven:
		return "proven, nothing is in doubt"
	case h.Doubt != nil:
		return fmt.Sprintf("%s: %s", terminal.Line(h.Doubt.Code), terminal.Line(h.Doubt.Detail))
	}
	return "not proven"
}

func waiting(n int) string {
	if n == 1 {
		return "1 run waits"
	}
	return fmt.Sprintf("%d runs wait", n)
}

// outcome is what --all-proven did to one workspace, or would.
type outcome struct {
	Run       string `json:"run-id"`
	Workspace string `json:"workspace"`
	Outcome   string `json:"outcome"` // recovered, proven, skipped or failed
	Detail    string `json:"detail"`
}

// allProven walks the list: what is proven is recovered, what is not is skipped, and both
// are said. It ends with an error when anything that it tried failed.
func (t *tool) allProven(ctx context.Context, organizations []string, d decision, apply bool) error {
	found, _, err := t.held(ctx, organizations)
	if err != nil {
		return err
	}
	outcomes, failed := []outcome{}, 0
	for _, h := range found {
		o := t.oneProven(ctx, h, d, apply)
		if o.Outcome == "failed" {
			failed++
		}
		outcomes = append(outcomes, o)
		if !t.json {
			t.printf("%-9s  %s  %s  %s", o.Outcome, terminal.Line(o.Run), terminal.Line(o.Workspace), terminal.Line(o.Detail))
		}
	}
	switch {
	case t.json:
		if err := terminal.WriteJSON(t.out, outcomes); err != nil {
			return err
		}
	case len(found) == 0:
		t.printf("No workspace waits for a recovery.")
	case !apply:
		t.printf("Nothing was changed. The same command with --apply recovers what is proven.")
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d held workspaces could not be recovered", failed, len(found))
	}
	return nil
}

func (t *tool) oneProven(ctx context.Context, h held, d decision, apply bool) outcome {
	o := outcome{Run: h.RunID, Workspace: h.OrganizationName + "/" + h.Name, Outcome: "skipped", Detail: h.verdict()}
	if !h.Permissions.CanRecover || h.Proven == nil || !*h.Proven {
		return o
	}
	fail := func(err error) outcome {
		o.Outcome, o.Detail = "failed", strings.TrimSpace(err.Error())
		return o
	}
	if err := checkRun(h.RunID); err != nil {
		return fail(err)
	}
	e, err := t.evidence(ctx, h.RunID)
	if err != nil {
		return fail(err)
	}
	if !e.Proven { // changed since it was listed
		if e.Doubt != nil {
			o.Detail = e.Doubt.Code + ": " + e.Doubt.Detail
		}
		return o
	}
	in, err := d.anew(e)
	if err != nil {
		return fail(err)
	}
	if !apply {
		o.Outcome, o.Detail = "proven", "would be recovered, because: "+in.Reason
		return o
	}
	done, err := t.recover(ctx, h.RunID, in)
	if err != nil {
		return fail(err)
	}
	o.Outcome, o.Detail = "recovered", fmt.Sprintf("by %s, the state is %s", done.id, orNone(done.TargetID))
	return o
}

func orNone(id *string) string {
	if id == nil {
		return "none"
	}
	return *id
}
