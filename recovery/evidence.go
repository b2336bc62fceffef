package recovery

import (
	"context"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// mostPublications is how long a chain of publications may be (RC-17).
const mostPublications = 1024

// logTail is how many bytes of the end of an apply's log an operator is shown.
const logTail = 8 << 10

// Evidence is everything the server knows about a held run (RC-06, RC-07). Of a run that
// was recovered Held is false, and the operation that did it is there.
type Evidence struct {
	Run  runs.Run
	Held bool
	// AuthorityLost: the workspace is held because a session of the run was in use that the
	// database did not know. There is nothing to prove then, and the run itself may be unknown.
	AuthorityLost bool
	Epoch         int64             // of the workspace's fence
	Attempt       *dispatch.Attempt // that applied; nil when none was made

	Before       *state.Version  // current when the run was admitted; nil: no state
	Current      *state.Version  // current now; nil: no state
	Publications []state.Version // from Current back to Before, newest first
	Uploads      []state.PendingUpload
	Emergency    []Emergency
	Writer       Writer
	LogTail      string
	Operation    *Operation

	// Current state and emergency state can be made the end of it: nil means yes.
	VerifyRefused *fault.Error
	ImportRefused *fault.Error

	published int // versions that the run published, in the chain or not
}

// PointerMoved tells whether another state became current since the run was admitted.
func (e Evidence) PointerMoved() bool { return versionID(e.Current) != e.Run.PredecessorVersionID }

// Writer says whether anything can still write in the run's name.
type Writer struct {
	Proven bool
	How    string // done-report, late-report, never-started, not-proven
	// ReportedAt is when the report came that proves it.
	ReportedAt *time.Time
	// SessionEndsAt is when the attempt's authority ends by itself, and EmergencyEndsAt
	// when the last evidence may come. Nil without an accepted attempt.
	SessionEndsAt   *time.Time
	EmergencyEndsAt *time.Time
}

// Evidence gives what is known about a run that holds its workspace, or was recovered.
// It takes the rights to read the run and to recover it.
// Errors: NotFound; Forbidden; Conflict "not_held" for a run that needs no recovery.
func (s *Service) Evidence(ctx context.Context, actor authz.Actor, run ids.Run) (e Evidence, err error) {
	err = postgres.InSnapshot(ctx, s.db, "recovery.evidence", func(tx postgres.Tx) error {
		e, err = s.evidence(ctx, tx, actor, run)
		return err
	})
	if err != nil {
		return e, err
	}
	e.LogTail, err = s.tail(ctx, e.Attempt)
	return e, err
}

// evidence is Evidence in the caller's transaction, without the log.
func (s *Service) evidence(ctx context.Context, tx postgres.Tx, actor authz.Actor, run ids.Run) (e Evidence, err error) {
	if e, found, err := s.lostEvidence(ctx, tx, actor, run); err != nil || found {
		return e, err
	}
	held, err := runs.Load(ctx, tx, run)
	if err != nil {
		return e, err
	}
	if err := mayLook(actor, held.Object()); err != nil {
		return e, err
	}
	status, err := fence.Read(ctx, tx, held.WorkspaceID)
	if err != nil {
		return e, err
	}
	op, found, err := operationOf(ctx, tx, run)
	if err != nil {
		return e, err
	}
	if !found || op.Status != Committed {
		if err := checkHeld(held, status); err != nil {
			return e, err
		}
	}
	e, err = s.gather(ctx, tx, held, status)
	if found {
		e.Operation = &op
	}
	return e, err
}

// checkHeld answers nil for a run that holds its workspace for recovery.
func checkHeld(held runs.Run, status fence.Status) error {
	if status.RecoveryHeld && status.HeldBy(fence.Run, string(held.ID)) {
		return nil
	}
	if status.RecoveryHeld && status.HeldBy(fence.Recovery, string(held.ID)) {
		return fault.New(fault.Conflict, "authority_lost", "The workspace is held because a session of %s is in use that the database does not know. What it published cannot be proved; "+
			"an operator vouches for the current state as it is, with confirm-authority-lost.", held.ID)
	}
	return fault.New(fault.Conflict, "not_held", "%s is %s and does not hold its workspace for recovery; there is nothing to release.", held.ID, held.DurableStatus)
}

// gather reads the evidence as it stands in tx. Under the lineage lock it stays true.
func (s *Service) gather(ctx context.Context, tx postgres.Tx, held runs.Run, status fence.Status) (e Evidence, err error) {
	e = Evidence{Run: held, Epoch: status.Epoch, Held: checkHeld(held, status) == nil}
	current, err := state.CurrentID(ctx, tx, held.WorkspaceID)
	if err != nil {
		return e, err
	}
	if e.Before, err = s.row(ctx, tx, held.PredecessorVersionID); err != nil {
		return e, err
	}
	if e.Current, err = s.row(ctx, tx, current); err != nil {
		return e, err
	}
	if e.Held && current != "" {
		if e.Publications, err = state.Chain(ctx, tx, current, held.PredecessorVersionID, mostPublications+1); err != nil {
			return e, err
		}
	}
	if e.published, err = state.Publications(ctx, tx, held.ID); err != nil {
		return e, err
	}
	if e.Uploads, err = state.PendingUploads(ctx, tx, held.ID); err != nil {
		return e, err
	}
	if e.Emergency, err = emergencyOfRun(ctx, tx, held.ID); err != nil {
		return e, err
	}
	a, found, err := dispatch.OfRun(ctx, tx, held.ID, authz.Apply)
	if err != nil {
		return e, err
	}
	active := false
	if found {
		e.Attempt = &a
		if active, err = dispatch.AuthorityActive(ctx, tx, a.ID); err != nil {
			return e, err
		}
	}
	if e.Writer, err = writerOf(ctx, tx, e.Attempt); err != nil {
		return e, err
	}
	authority := checkAuthority(e, status, active)
	if e.VerifyRefused = authority; authority == nil {
		e.VerifyRefused = checkChain(e)
	}
	if e.ImportRefused = authority; authority == nil {
		_, e.ImportRefused = importable(e, "")
	}
	return e, nil
}

func (s *Service) row(ctx context.Context, tx postgres.Tx, id ids.StateVersion) (*state.Version, error) {
	if id == "" {
		return nil, nil
	}
	v, err := s.state.Row(ctx, tx, id)
	return &v, err
}

// writerOf finds the proof that nothing writes any more: a report of the runner that had
// the attempt's authority. That a runner is silent proves nothing, and neither does a
// runner that says it does not know.
func writerOf(ctx context.Context, tx postgres.Tx, a *dispatch.Attempt) (w Writer, err error) {
	if a == nil {
		return Writer{Proven: true, How: "never-started"}, nil
	}
	if a.TokenExpiresAt != nil {
		ends := a.TokenExpiresAt.Add(dispatch.EmergencyGrace)
		w.SessionEndsAt, w.EmergencyEndsAt = a.TokenExpiresAt, &ends
	}
	if a.AcceptedAt == nil {
		w.Proven, w.How = true, "never-started"
		return w, nil
	}
	if a.Status == dispatch.Finished && runs.Outcome(a.Outcome) != runs.OutcomeUnknown {
		w.Proven, w.How, w.ReportedAt = true, "done-report", a.FinishedAt
		return w, nil
	}
	late, err := runs.LateReports(ctx, tx, a.ID)
	if err != nil {
		return w, err
	}
	w.How = "not-proven"
	for _, report := range late {
		if report.Outcome != runs.OutcomeUnknown {
			w.Proven, w.How, w.ReportedAt = true, "late-report", &report.ReceivedAt
			break
		}
	}
	return w, nil
}

// tail gives the end of the log of an apply, in whole lines where there are some.
func (s *Service) tail(ctx context.Context, a *dispatch.Attempt) (string, error) {
	if a == nil || a.LogSize == 0 {
		return "", nil
	}
	from := max(0, a.LogSize-logTail)
	data, err := s.dispatch.ReadLog(ctx, *a, dispatch.Human, from, logTail)
	if err != nil {
		if fault.Is(err, fault.Unavailable) { // the rest of the evidence is no less true
			return "", nil
		}
		return "", err
	}
	text := string(data)
	if from > 0 {
		if _, rest, cut := strings.Cut(text, "\n"); cut {
			text = rest
		}
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	return text, nil
}
