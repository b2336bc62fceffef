package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

// Commands are those of `holdfast admin recover`.
type Commands struct {
	Connection
	made     *tool       `kong:"-"` // by a test, in place of open's
	Commit   commitCmd   `cmd:"" default:"withargs" help:"Free the workspace that a run holds. Without --apply it only shows what would change. This is what \"recover RUN\" does."`
	List     listCmd     `cmd:"" help:"List the workspaces that wait for a recovery."`
	Show     showCmd     `cmd:"" help:"Show what is known about a run that holds its workspace."`
	Propose  proposeCmd  `cmd:"" help:"Prepare a recovery and verify it, without committing it. It is yours for 15 minutes."`
	TakeOver takeOverCmd `cmd:"" name:"take-over" help:"Complete, or give up, what somebody else has prepared and left."`
}

type runArgument struct {
	ID string `arg:"" name:"run" help:"The run that holds the workspace, such as run-…"`
}

type apply struct {
	Apply bool `help:"Do it. Without this nothing is changed."`
}

// checkRun keeps an argument from becoming another address.
func checkRun(run string) error {
	rest, ok := strings.CutPrefix(run, "run-")
	if !ok || rest == "" || strings.ContainsFunc(rest, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) {
		return fmt.Errorf("%q is no run: it must be like run-CZcmD7eagjhyX0vN", terminal.Line(run))
	}
	return nil
}

// Validate refuses what names no run.
func (a runArgument) Validate() error { return checkRun(a.ID) }

type showCmd struct{ runArgument }

func (c showCmd) Run(ctx context.Context, all *Commands) error {
	t, err := all.tool()
	if err != nil {
		return err
	}
	e, err := t.evidence(ctx, c.ID)
	if err != nil {
		return err
	}
	if t.json {
		return terminal.WriteJSON(t.out, e.raw)
	}
	t.show(e, true)
	t.next(e)
	return nil
}

// next tells what to do now.
func (t *tool) next(e evidence) {
	op := e.prepared()
	switch {
	case !e.Required:
		t.printf("next          a new plan")
	case op != nil:
		t.printf("next          holdfast admin recover commit %s --apply for who prepared it; holdfast admin recover take-over %s for others", e.run, e.run)
	case e.Proven:
		t.printf("next          holdfast admin recover %s --apply", e.run)
	default:
		t.printf("next          compare the state with the real infrastructure, then: holdfast admin recover %s --reason REASON", e.run)
	}
}

type commitCmd struct {
	ID           string   `arg:"" optional:"" name:"run" help:"The run that holds the workspace, such as run-…"`
	AllProven    bool     `help:"Instead of one run: every held workspace of which nothing is in doubt."`
	Organization []string `placeholder:"NAME" help:"With --all-proven: only these organizations."`
	decision
	apply
}

// Validate demands one run, or all that are proven.
func (c commitCmd) Validate() error {
	switch {
	case c.AllProven && c.ID != "":
		return errors.New("name a run, or say --all-proven; not both")
	case c.AllProven:
		return c.onlyReason()
	case c.ID == "":
		return errors.New("name the run that holds the workspace, or say --all-proven; \"list\" shows them")
	case len(c.Organization) > 0:
		return errors.New("--organization goes with --all-proven")
	}
	return checkRun(c.ID)
}

// onlyReason keeps a confirmation that is about one run from being given for many.
func (d decision) onlyReason() error {
	if d.Resolution != "auto" || d.EmergencyDigest != "" || d.ConfirmWriterNotProven || d.ConfirmAuthorityLost || len(d.GiveUpUpload) > 0 || d.AcknowledgeStateLoss || d.Abandon {
		return errors.New("--all-proven is for runs of which nothing is in doubt: of the decisions only --reason goes with it")
	}
	return nil
}

func (c commitCmd) Run(ctx context.Context, all *Commands) error {
	t, err := all.tool()
	if err != nil {
		return err
	}
	if c.AllProven {
		return t.allProven(ctx, c.Organization, c.decision, c.Apply)
	}
	return t.decide(ctx, c.ID, c.decision, c.Apply, false)
}

type proposeCmd struct {
	runArgument
	decision
	apply
}

func (c proposeCmd) Run(ctx context.Context, all *Commands) error {
	t, err := all.tool()
	if err != nil {
		return err
	}
	return t.decide(ctx, c.ID, c.decision, c.Apply, true)
}

type takeOverCmd struct {
	runArgument
	decision
	apply
}

func (c takeOverCmd) Run(ctx context.Context, all *Commands) error {
	t, err := all.tool()
	if err != nil {
		return err
	}
	e, err := t.evidence(ctx, c.ID)
	if err != nil {
		return err
	}
	op := e.prepared()
	if op == nil {
		return fmt.Errorf("nothing_prepared: nobody has prepared a recovery of %s", e.run)
	}
	in := c.again(*op)
	if c.Abandon {
		if in, err = c.anew(e); err != nil {
			return err
		}
		in.Abandon = op.ID
	}
	in.TakeOver = true
	return t.carryOut(ctx, e, c.decision, in, c.Apply)
}

// decide recovers one run, or prepares it: anew, or by what this user has prepared before.
func (t *tool) decide(ctx context.Context, run string, d decision, apply, prepareOnly bool) error {
	e, err := t.evidence(ctx, run)
	if err != nil {
		return err
	}
	if !e.Required { // a repeat after a lost answer
		if t.json {
			return terminal.WriteJSON(t.out, e.raw)
		}
		t.show(e, false)
		t.next(e)
		return nil
	}
	op := e.prepared()
	if op != nil && !d.Abandon {
		me, _, err := t.whoAmI(ctx)
		if err != nil {
			return err
		}
		if op.PrincipalID != me {
			return fmt.Errorf("recovery_lease_held: %s has prepared the recovery %s, and it is theirs until %s (%d seconds). Afterwards: holdfast admin recover take-over %s",
				terminal.Line(op.PrincipalID), terminal.Line(op.ID), moment(op.LeaseExpiresAt), op.LeaseRemainingSeconds, run)
		}
		in := d.again(*op)
		in.PrepareOnly = prepareOnly
		return t.carryOut(ctx, e, d, in, apply)
	}
	in, err := d.anew(e)
	if err != nil {
		return err
	}
	if op != nil {
		in.Abandon = op.ID
	}
	in.PrepareOnly = prepareOnly
	return t.carryOut(ctx, e, d, in, apply)
}

// carryOut shows what the request would do, or does it.
func (t *tool) carryOut(ctx context.Context, e evidence, d decision, in request, apply bool) error {
	if !apply {
		return t.rehearse(e, d, in)
	}
	// What only the operator can say is asked for before a code is. All else is for the server
	// to refuse: it finishes uploads first, where it can.
	for _, m := range d.missing(e, in) {
		if m.code == "reason_required" || m.code == "confirmation_required" {
			return m
		}
	}
	done, err := t.recover(ctx, e.run, in)
	if err != nil {
		return err
	}
	if t.json {
		return terminal.WriteJSON(t.out, done.raw)
	}
	t.tell(e, in, done)
	return nil
}

// rehearse shows exactly what would change, and what is missing.
func (t *tool) rehearse(e evidence, d decision, in request) error {
	missing := []string{}
	for _, m := range d.missing(e, in) {
		missing = append(missing, m.Error())
	}
	if t.json {
		if err := terminal.WriteJSON(t.out, map[string]any{"applied": false, "request": in, "missing": missing, "evidence": e.raw}); err != nil {
			return err
		}
	} else {
		t.show(e, false)
		t.printf("")
		t.would(e, in)
		t.printf("")
	}
	if len(missing) > 0 {
		return errors.New("as it stands, this would be refused:\n" + strings.Join(missing, "\n"))
	}
	if !t.json {
		t.printf("Nothing was changed. The same command with --apply does it.")
	}
	return nil
}

func (t *tool) would(e evidence, in request) {
	for _, o := range in.Overrides {
		t.printf("would discard  the upload %s, which began at %s: what was in it is lost", terminal.Line(o.Upload), terminal.Line(o.ClaimedAt))
	}
	if in.Abandon != "" {
		t.printf("would give up  the recovery %s", terminal.Line(in.Abandon))
	}
	if in.TakeOver && in.Abandon == "" {
		t.printf("would take     the recovery from %s, who cannot complete it any more", terminal.Line(e.Operation.PrincipalID))
	}
	switch {
	case in.Resolution == importEmergency && in.EmergencyDigest != nil:
		t.printf("would make     the emergency state %s current, as the serial that follows", terminal.Line(*in.EmergencyDigest))
	case in.CurrentID == nil:
		t.printf("would keep     no state: there is none")
	default:
		t.printf("would keep     %s as the current state", terminal.Line(*in.CurrentID))
	}
	if in.PrepareOnly {
		t.printf("would prepare  that, read it to its end, and lease it to you; nothing is freed yet")
		return
	}
	t.printf("would end      every authority that %s still has", e.run)
	t.printf("would advance  the epoch of %s from %d to %d: what this apply began can never be published", e.name(), e.FenceEpoch, e.FenceEpoch+1)
	t.printf("would release  %s, to the run that has waited longest", e.name())
	reason := in.Reason
	if strings.TrimSpace(reason) == "" {
		reason = "(no reason is given yet)"
	}
	t.printf("would record   run.recovered and state.recovered, because: %s", terminal.Line(reason))
}

func (t *tool) tell(e evidence, in request, done recovered) {
	if done.Status == "prepared" {
		t.printf("prepared      %s: %s; it is yours until %s", terminal.Line(done.id), terminal.Line(done.Resolution), moment(done.LeaseExpiresAt))
		t.printf("next          holdfast admin recover commit %s --apply", e.run)
		return
	}
	t.printf("recovered     %s by %s", e.run, terminal.Line(done.id))
	if done.TargetID == nil {
		t.printf("state now     none")
	} else {
		t.printf("state now     %s, sha256 %s", terminal.Line(*done.TargetID), terminal.Line(done.TargetChecksum))
	}
	epoch := ""
	if done.FenceEpoch != nil {
		epoch = fmt.Sprintf(" at epoch %d", *done.FenceEpoch)
	}
	t.printf("workspace     %s is free%s", e.name(), epoch)
	t.printf("reason        %s", terminal.Line(in.Reason))
	t.printf("Nothing was applied again. The next step is a new plan.")
}

// organizations gives the names of all that the user sees.
func (t *tool) organizations(ctx context.Context) (names []string, err error) {
	list, err := t.all(ctx, "organizations")
	for _, o := range list {
		names = append(names, o.ID)
	}
	return names, err
}
