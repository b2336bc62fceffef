package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
)

// ship sends the log, beside the run, until all of it is at the server after the
// spool was closed. It gives up when ctx ends, or when the log is closed and the
// server refuses it for good: nothing will change that.
func (a *attempt) ship(ctx context.Context) error {
	buf := make([]byte, chunkSize)
	for offset := int64(0); ; {
		n, last := a.gather(ctx, offset, buf)
		if n == 0 && last {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		next, err := a.sendChunk(ctx, offset, buf[:n])
		switch {
		case err == nil && next > offset:
			offset = next
			continue
		case err == nil:
			offset = next // the server has less than it said before
		case ctx.Err() != nil:
			return err
		case refused(err) && a.log.isClosed():
			return err
		default:
			slog.Warn("the log was refused, will be tried again", "attempt", a.id, "error", err)
		}
		a.pauseShipping(ctx)
	}
}

// gather waits until there is a full chunk, or a part of one that is old enough, or
// the end. The piece is fixed here: a repeat of it sends the same bytes.
func (a *attempt) gather(ctx context.Context, offset int64, buf []byte) (n int, last bool) {
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

// pauseShipping waits before the next try, shorter once everything waits for it.
func (a *attempt) pauseShipping(ctx context.Context) {
	if a.log.isClosed() {
		pause(ctx, firstDelay)
	} else {
		pause(ctx, time.Second)
	}
}

func (a *attempt) sendChunk(ctx context.Context, offset int64, chunk []byte) (next int64, err error) {
	sum := sha256.Sum256(chunk)
	var at wire.LogPosition
	err = a.server.do(ctx, request{
		method: http.MethodPost, path: withID(wire.PathLogs, a.id), token: a.session.Token,
		header: map[string]string{
			wire.HeaderOffset: strconv.FormatInt(offset, 10),
			wire.HeaderSHA256: hex.EncodeToString(sum[:]),
			"Content-Type":    "application/octet-stream",
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
