package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	chunkSize  = 64 << 10
	chunkDelay = 200 * time.Millisecond // how old a piece of the log may get before it is sent
	mostFutile = 50                     // answers without progress, in a row, to the end of a log
)

// shipment brings one log of an attempt to the server.
type shipment struct {
	*attempt
	stream string // wire.StreamHuman or wire.StreamJSON
	log    *spool
}

// ship sends the log, beside the run, until all of it is at the server after the
// spool was closed, and gives how much of it the server has. It gives up when ctx
// ends, or when the log is closed and the server takes no more of it: nothing will
// change that.
func (a shipment) ship(ctx context.Context) (offset int64, err error) {
	buf := make([]byte, chunkSize)
	for futile := 0; ; {
		n, last := a.gather(ctx, offset, buf)
		if n == 0 && last {
			return offset, nil
		}
		if ctx.Err() != nil {
			return offset, ctx.Err()
		}
		before, closed := offset, a.log.isClosed()
		offset, err = a.sendChunk(ctx, offset, buf[:n])
		if err == nil && offset > before {
			futile = 0
			continue
		}
		if err == nil { // the server has less than it said before, or took nothing
			err = errors.New("the server took nothing")
		}
		if ctx.Err() != nil {
			return offset, err
		}
		if closed { // before the call: an answer from the time when tofu ran is not the last word
			if futile++; refused(err) || futile == mostFutile {
				return offset, err
			}
			pause(ctx, firstDelay)
			continue
		}
		slog.Warn("a piece of log was not taken, will be sent again", "attempt", a.id, "stream", a.stream, "error", err)
		pause(ctx, time.Second)
	}
}

// gather waits until there is a full chunk, or a part of one that is old enough, or
// the end. The piece is fixed here: a repeat of it sends the same bytes.
func (a shipment) gather(ctx context.Context, offset int64, buf []byte) (n int, last bool) {
	timer := time.NewTimer(chunkDelay)
	defer timer.Stop()
	for {
		n, last = a.log.read(offset, buf)
		if n == len(buf) || last {
			return n, last
		}
		select {
		case <-ctx.Done():
			return n, last
		case <-a.log.grown:
		case <-timer.C:
			if n > 0 {
				return n, last
			}
			timer.Reset(chunkDelay)
		}
	}
}

func (a shipment) sendChunk(ctx context.Context, offset int64, chunk []byte) (next int64, err error) {
	sum := sha256.Sum256(chunk)
	var at wire.LogPosition
	err = a.server.do(ctx, request{
		method: http.MethodPost, path: withID(wire.PathLogs, a.id), token: a.session.Token,
		header: map[string]string{
			wire.HeaderLogStream: a.stream,
			wire.HeaderOffset:    strconv.FormatInt(offset, 10),
			wire.HeaderSHA256:    hex.EncodeToString(sum[:]),
			"Content-Type":       "application/octet-stream",
		},
		body: func() (io.ReadCloser, int64, error) {
			return io.NopCloser(bytes.NewReader(chunk)), int64(len(chunk)), nil
		},
	}, func(resp *http.Response) error { return decodeJSON(resp, &at) })
	if err != nil {
		return offset, err
	}
	// Not beyond what was sent: the rest of the log would be skipped.
	return min(max(at.Next, 0), offset+int64(len(chunk))), nil
}
