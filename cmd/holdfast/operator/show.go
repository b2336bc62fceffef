package operator

import (
	"fmt"
	"io"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

// shownPublications is how many of a long chain are listed, from the newest on.
const shownPublications = 10

// show prints what is known about a run. log tells whether the end of its log is wanted.
func (t *tool) show(e evidence, log bool) {
	t.printf("run           %s, %s (%s)", e.run, orUnknown(e.DurableStatus), terminal.Line(e.DurableReason))
	if e.StatusMessage != "" {
		t.printf("because       %s", terminal.Line(e.StatusMessage))
	}
	t.printf("workspace     %s, %s", e.name(), e.since())
	t.printf("state before  %s", describe(e.PreApplyState))
	t.printf("state now     %s", describe(e.CurrentState))
	t.showPublications(e.Publications)
	for _, u := range e.ClaimedUploads {
		t.printf("upload        %s, serial %d, began at %s and did not end", terminal.Line(u.ID), u.Serial, terminal.Line(text(u.ClaimedAt)))
	}
	for _, u := range e.UnclaimedUploads {
		t.printf("upload        %s, serial %d, announced, may begin until %s", terminal.Line(u.ID), u.Serial, moment(u.ExpiresAt))
	}
	for _, s := range e.EmergencyStates {
		t.printf("emergency     %s, %s, %d bytes, sha256 %s", describeEmergency(s), counted(s.ResourceCount, "resource"), s.Size, terminal.Line(s.Digest))
	}
	if len(e.ClaimedUploads)+len(e.UnclaimedUploads)+len(e.EmergencyStates) == 0 && !e.AuthorityLost {
		t.printf("left behind   no unfinished upload, no emergency state")
	}
	t.printf("writer        %s", e.Writer.describe())
	if log {
		_, _ = io.WriteString(t.out, terminal.Block(e.LogTail, "log           | "))
	}
	for _, r := range e.Resolutions {
		switch {
		case !e.Required:
		case r.Possible:
			t.printf("possible      %s", terminal.Line(r.Resolution))
		default:
			t.printf("not possible  %s: %s: %s", terminal.Line(r.Resolution), terminal.Line(r.Code), terminal.Line(r.Detail))
		}
	}
	if op := e.Operation; op != nil {
		t.printf("recovery      %s", op.describe())
	}
	switch {
	case e.Proven:
		t.printf("proven        yes, nothing is in doubt")
	case e.Doubt != nil:
		t.printf("proven        no, %s: %s", terminal.Line(e.Doubt.Code), terminal.Line(e.Doubt.Detail))
	}
}

func (t *tool) showPublications(list []version) {
	if len(list) == 0 {
		return
	}
	t.printf("published     %s by this run, the newest first", counted(len(list), "state"))
	for i, v := range list {
		if i == shownPublications {
			t.printf("              … and %d more", len(list)-i)
			break
		}
		t.printf("              %s at %s", describe(&v), moment(v.FinalizedAt))
	}
}

func (e evidence) name() string {
	return terminal.Line(e.OrganizationName) + "/" + terminal.Line(e.WorkspaceName)
}

func (e evidence) since() string {
	switch {
	case e.Required && e.AuthorityLost:
		return fmt.Sprintf("held since %s under epoch %d: the database has lost what it knew of this run", moment(e.HeldSince), e.FenceEpoch)
	case e.Required:
		return fmt.Sprintf("held since %s under epoch %d", moment(e.HeldSince), e.FenceEpoch)
	case e.RecoveredAt != nil:
		return "recovered at " + moment(*e.RecoveredAt)
	}
	return "not held by it"
}

func (w writer) describe() string {
	switch {
	case w.Proven && w.How == "never-started":
		return "never started"
	case w.Proven:
		return fmt.Sprintf("has stopped: its runner reported so at %s (%s)", moment(w.ReportedAt), terminal.Line(w.How))
	case w.SessionEndsAt != "":
		return fmt.Sprintf("NOT PROVEN to have stopped; its authority ends by itself at %s, its cloud credentials maybe later", moment(w.SessionEndsAt))
	}
	return "NOT PROVEN to have stopped"
}

func (o operation) describe() string {
	who := fmt.Sprintf("%s, %s by %s: %s, %q", terminal.Line(o.ID), terminal.Line(o.Status), terminal.Line(o.PrincipalID), terminal.Line(o.Resolution), terminal.Line(o.Reason))
	if o.Status == "prepared" {
		return fmt.Sprintf("%s; theirs until %s (%d seconds)", who, moment(o.LeaseExpiresAt), o.LeaseRemainingSeconds)
	}
	return who
}

func describe(v *version) string {
	if v == nil {
		return "none"
	}
	counts := counted(v.ResourceCount, "resource")
	if v.Encrypted {
		counts = "encrypted by the client"
	}
	return fmt.Sprintf("%s, serial %d, %s, sha256 %s", terminal.Line(v.ID), v.Serial, counts, terminal.Line(v.Checksum))
}

func describeEmergency(s emergency) string {
	switch {
	case s.Obstacle != "":
		return fmt.Sprintf("%s (%s)", terminal.Line(s.ID), terminal.Line(s.Obstacle))
	case s.Serial != nil:
		return fmt.Sprintf("%s, serial %d", terminal.Line(s.ID), *s.Serial)
	}
	return terminal.Line(s.ID)
}

func orUnknown(status string) string {
	if status == "" {
		return "unknown to the database"
	}
	return terminal.Line(status)
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
