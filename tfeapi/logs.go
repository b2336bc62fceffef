package tfeapi

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runs"
)

// The two bytes that frame a log. A client that saw the first one reads on until
// the last one; without them it would lose what comes late.
const (
	logStart = 0x02
	logEnd   = 0x03
)

// maxLogRead is the most that one read of a log gives; the client asks for at most 64 KiB.
const maxLogRead = 256 << 10

// window gives at most limit bytes from offset of a log as clients read it: the
// start byte, the log, and the end byte once nothing more can come. Beyond the end
// there is nothing, which is no error. slice reads the log without its frame.
func window(offset, limit int64, slice readLog) (out []byte, log runs.LogSlice, err error) {
	if offset == 0 && limit > 0 {
		out = append(out, logStart)
	}
	from, room := max(offset-1, 0), limit-int64(len(out))
	if log, err = slice(from, room); err != nil {
		return nil, log, err
	}
	out = append(out, log.Data...)
	next := from + int64(len(log.Data))
	if log.Final && next == log.Size && offset <= log.Size+1 && int64(len(out)) < limit {
		out = append(out, logEnd)
	}
	return out, log, nil
}

// readLog reads a part of a log without its frame.
type readLog func(offset, limit int64) (runs.LogSlice, error)

func (s *server) planLog(r *request) (answer, error) {
	if err := s.checkLink(planLogLink, r); err != nil {
		return answer{}, err
	}
	plan, err := id[ids.Plan](r)
	if err != nil {
		return answer{}, err
	}
	return s.logAnswer(r, func(offset, limit int64) (runs.LogSlice, error) {
		return s.Runs.PlanLog(r.ctx, plan, stream(r), offset, limit)
	})
}

func (s *server) applyLog(r *request) (answer, error) {
	if err := s.checkLink(applyLogLink, r); err != nil {
		return answer{}, err
	}
	apply, err := id[ids.Apply](r)
	if err != nil {
		return answer{}, err
	}
	return s.logAnswer(r, func(offset, limit int64) (runs.LogSlice, error) {
		return s.Runs.ApplyLog(r.ctx, apply, stream(r), offset, limit)
	})
}

// stream is the log that a reader understands: the cloud integration of tofu draws
// events, and everybody else prints what they get (amendment 6).
func stream(r *request) dispatch.Stream {
	if r.http.Header.Get(integrationHeader) == "cloud" {
		return dispatch.JSON
	}
	return dispatch.Human
}

// logHold is how long a read that finds nothing new waits for something: a client
// pauses for up to two seconds after an empty answer, and would learn that much later
// that its run has ended.
var logHold = 15 * time.Second

// logAnswer serves the part of a log that the query asks for.
func (s *server) logAnswer(r *request, slice readLog) (answer, error) {
	offset, err := logNumber(r, "offset", 0)
	if err != nil {
		return answer{}, err
	}
	limit, err := logNumber(r, "limit", maxLogRead)
	if err != nil {
		return answer{}, err
	}
	limit = min(limit, maxLogRead)
	data, log, err := window(offset, limit, slice)
	if err != nil {
		return answer{}, err
	}
	if len(data) == 0 && !log.Final && limit > 0 && s.Wake != nil {
		if data, err = s.awaitLog(r.ctx, log.Run.ID, offset, limit, slice); err != nil {
			return answer{}, err
		}
	}
	return answer{status: http.StatusOK, stream: io.NopCloser(bytes.NewReader(data)), size: int64(len(data)), mediaType: "text/plain; charset=utf-8"}, nil
}

// awaitLog reads again whenever the run says that there is something new, until
// there is, the log has ended, or the hold is over.
func (s *server) awaitLog(ctx context.Context, run ids.Run, offset, limit int64, slice readLog) ([]byte, error) {
	wake, cancel := s.Wake.Wait(dispatch.LogChannel, string(run))
	defer cancel()
	over := time.NewTimer(cmp.Or(s.hold, logHold))
	defer over.Stop()
	for {
		// Once more before the first wait: something may have come before it began.
		data, log, err := window(offset, limit, slice)
		if err != nil || len(data) > 0 || log.Final {
			return data, err
		}
		select {
		case <-wake:
		case <-over.C:
			return nil, nil
		case <-s.Stopping:
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func logNumber(r *request, name string, fallback int64) (int64, error) {
	text := r.query.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fault.New(fault.Malformed, "invalid_parameter", "The query parameter %s must be a whole number of bytes, 0 or more.", name)
	}
	return n, nil
}
