package tfeapi

import (
	"bytes"
	"io"
	"net/http"
	"strconv"

	"github.com/holdfast-run/holdfast/fault"
)

// The two bytes that frame a log. A client that saw the first one reads on until
// the last one; without them it would lose what comes late.
const (
	logStart = 0x02
	logEnd   = 0x03
)

// maxLogRead is the most that one read of a log gives; the client asks for at most 64 KiB.
const maxLogRead = 256 << 10

// framedLog is a log as clients read it: the start byte, the runner's bytes, what
// the server has to add, and the end byte once nothing more can come.
type framedLog struct {
	size  int64 // of the runner's bytes
	read  func(offset, limit int64) ([]byte, error)
	tail  string // added by the server after the runner's bytes
	final bool
}

// window gives at most limit bytes from offset; nothing beyond the end.
func (l framedLog) window(offset, limit int64) ([]byte, error) {
	var out []byte
	room := func() int64 { return limit - int64(len(out)) }
	if offset == 0 && room() > 0 {
		out = append(out, logStart)
	}
	from := max(offset-1, 0) // among the runner's bytes
	if from < l.size && room() > 0 {
		n := min(room(), l.size-from)
		data, err := l.read(from, n)
		if err != nil {
			return nil, err
		}
		out = append(out, data...)
		if int64(len(data)) < n {
			return out, nil // the rest comes with the next read
		}
	}
	if l.final {
		end := l.tail + string(rune(logEnd))
		if skip := max(offset-1-l.size, 0); skip < int64(len(end)) && room() > 0 {
			rest := end[skip:]
			out = append(out, rest[:min(room(), int64(len(rest)))]...)
		}
	}
	return out, nil
}

// logAnswer serves the part of a log that the query asks for.
func logAnswer(r *request, l framedLog) (answer, error) {
	offset, err := logNumber(r, "offset", 0)
	if err != nil {
		return answer{}, err
	}
	limit, err := logNumber(r, "limit", maxLogRead)
	if err != nil {
		return answer{}, err
	}
	data, err := l.window(offset, min(limit, maxLogRead))
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
