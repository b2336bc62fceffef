package tfeapi

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

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
func window(offset, limit int64, slice func(offset, limit int64) (runs.LogSlice, error)) ([]byte, error) {
	var out []byte
	if offset == 0 && limit > 0 {
		out = append(out, logStart)
	}
	from, room := max(offset-1, 0), limit-int64(len(out))
	log, err := slice(from, room)
	if err != nil {
		return nil, err
	}
	out = append(out, log.Data...)
	next := from + int64(len(log.Data))
	if log.Final && next == log.Size && offset <= log.Size+1 && int64(len(out)) < limit {
		out = append(out, logEnd)
	}
	return out, nil
}

func (s *server) planLog(r *request) (answer, error) {
	if err := s.checkLink(planLogLink, r); err != nil {
		return answer{}, err
	}
	plan, err := id[ids.Plan](r)
	if err != nil {
		return answer{}, err
	}
	return logAnswer(r, func(offset, limit int64) (runs.LogSlice, error) {
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
	return logAnswer(r, func(offset, limit int64) (runs.LogSlice, error) {
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

// logAnswer serves the part of a log that the query asks for.
func logAnswer(r *request, slice func(offset, limit int64) (runs.LogSlice, error)) (answer, error) {
	offset, err := logNumber(r, "offset", 0)
	if err != nil {
		return answer{}, err
	}
	limit, err := logNumber(r, "limit", maxLogRead)
	if err != nil {
		return answer{}, err
	}
	data, err := window(offset, min(limit, maxLogRead), slice)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, stream: io.NopCloser(bytes.NewReader(data)), size: int64(len(data)), mediaType: "text/plain; charset=utf-8"}, nil
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
