package runs

import (
	"context"
	"fmt"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runtasks"
)

// LogSlice is a part of a phase's log. Final tells that the log has ended and that
// the run's status says so too: both are read at one instant (§3.3).
type LogSlice struct {
	Run   Run
	Data  []byte
	Size  int64 // of the whole log so far, in bytes
	Final bool
}

// PlanLog gives at most limit bytes of a plan's log from offset. The caller has
// proved by a link that it may read it. Whoever asks for dispatch.JSON gets the human
// log where clients are not to draw the run, and of an attempt without events: which
// one it is does not change while it grows.
func (s *Service) PlanLog(ctx context.Context, id ids.Plan, stream dispatch.Stream, offset, limit int64) (LogSlice, error) {
	return s.log(ctx, "RunByPlan", string(id), authz.Plan, stream, offset, limit)
}

// ApplyLog gives at most limit bytes of an apply's log; an apply that has not begun
// has an empty one.
func (s *Service) ApplyLog(ctx context.Context, id ids.Apply, stream dispatch.Stream, offset, limit int64) (LogSlice, error) {
	return s.log(ctx, "RunByApply", string(id), authz.Apply, stream, offset, limit)
}

func (s *Service) log(ctx context.Context, query, id string, phase authz.Phase, stream dispatch.Stream, offset, limit int64) (slice LogSlice, err error) {
	var a dispatch.Attempt
	var note []byte
	err = postgres.InSnapshot(ctx, s.db, "runs.log", func(tx postgres.Tx) error {
		run, err := postgres.Value[ids.Run](ctx, tx, Queries.Get(query), postgres.Args{"id": id})
		if err != nil {
			return fmt.Errorf("find the run of %s: %w", id, err) // the link was good, so it exists
		}
		r, err := load(ctx, tx, run)
		if err != nil {
			return err
		}
		slice = LogSlice{Run: r, Final: r.phaseEnded(phase)}
		if a, _, err = dispatch.OfRun(ctx, tx, run, phase); err != nil {
			return err
		}
		if !r.StructuredOutput || !a.JSONLog {
			stream = dispatch.Human
		}
		slice.Size = a.Size(stream)
		if slice.Final && phase == authz.Plan && r.PlanNote != "" {
			note = []byte("\n" + r.PlanNote + "\n")
		}
		if slice.Final && r.StatusMessage != "" && r.endedIn(phase) {
			note = []byte("\n" + r.StatusMessage + "\n")
			if phase == authz.Apply && slice.Size == 0 {
				note = append([]byte("\n\n\n"), note...) // clients drop an apply log's first three lines
			}
		}
		return nil
	})
	if err != nil {
		return slice, err
	}
	// The bytes are read after the snapshot: they do not change, and what is folded
	// comes from the object store.
	slice.Data, err = s.dispatch.ReadLog(ctx, a, stream, offset, limit)
	slice.appendNote(note, offset, limit)
	return slice, err
}

// appendNote puts what the server has to say about the end behind the log, so that
// whoever reads the log in a terminal sees why the run ended.
func (l *LogSlice) appendNote(note []byte, offset, limit int64) {
	from := max(offset-l.Size, 0)
	room := limit - int64(len(l.Data))
	if from < int64(len(note)) && room > 0 && offset+int64(len(l.Data)) >= l.Size {
		part := note[from:]
		l.Data = append(l.Data, part[:min(room, int64(len(part)))]...)
	}
	l.Size += int64(len(note))
}

// phaseEnded tells whether nothing will be added to the phase's log.
func (r Run) phaseEnded(phase authz.Phase) bool {
	if r.DurableStatus.Final() {
		return true
	}
	// A client that has seen the plan's end looks once whether it can be applied (NC-14), so
	// the plan has not ended before its tasks have.
	return phase == authz.Plan && r.PlanFinishedAt != nil && r.TaskStage(runtasks.PostPlan) != runtasks.Running
}

// endedIn tells in which phase an ended run ended. A finished plan's log has been
// final since then, so what happened later is said in the apply's.
func (r Run) endedIn(phase authz.Phase) bool {
	inApply := r.PlanFinishedAt != nil
	return r.DurableStatus.Final() && inApply == (phase == authz.Apply)
}
