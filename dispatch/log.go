package dispatch

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// MaxChunk is the largest piece of log that is taken at once, in bytes.
const MaxChunk = 256 << 10

// eventsPerText is how much longer than a log of text one of events may get: an event
// takes about 400 bytes beside the text that it shows.
const eventsPerText = 4

// Stream is one of the logs of an attempt.
type Stream string

// The streams.
const (
	Human Stream = "human" // what tofu prints for people
	JSON  Stream = "json"  // its events, for clients that draw them; not every attempt has it
)

// Limit is how many bytes a log may have where one of text may have so many: one of
// events may have more, so that it is not cut long before what people read is.
func (s Stream) Limit(text int64) int64 {
	if s == JSON {
		return eventsPerText * text
	}
	return text
}

func chunkLabel(id ids.Attempt, stream Stream, start int64) string {
	if stream == JSON {
		return fmt.Sprintf("log-json/%s/%d", id, start)
	}
	return fmt.Sprintf("log/%s/%d", id, start)
}

// Size is how many bytes of a log the server has.
func (a Attempt) Size(stream Stream) int64 {
	if stream == JSON {
		return a.JSONLogSize
	}
	return a.LogSize
}

// folded is the object a log has become; empty as long as it has not.
func (a Attempt) folded(stream Stream) ids.Object {
	if stream == JSON {
		return a.JSONLogObjectID
	}
	return a.LogObjectID
}

// ofStream chooses between the statements for the two columns.
func ofStream(stream Stream, human, json string) string {
	if stream == JSON {
		return json
	}
	return human
}

// AppendLog stores the piece of one of the logs that begins at byte start and gives the offset
// of the next. A piece the server has already is answered alike; one that does not
// join on is a Conflict "log_offset" naming the offset to go on from. A piece over
// MaxChunk is TooLarge "chunk_too_large"; textLimit is how many bytes a log of text may
// have, and a log over the Limit of its stream is "log_too_large": the runner cuts its
// log before. The caller holds the attempt's row. What is stored goes with the transaction's
// next statement.
func (s *Service) AppendLog(ctx context.Context, tx postgres.Tx, a Attempt, stream Stream, start int64, data []byte, textLimit int64) (next int64, err error) {
	if stream == JSON && !a.JSONLog {
		return 0, fault.New(fault.Invalid, "no_json_log", "The runner accepted this attempt without a log of events, so none is taken.")
	}
	if len(data) > MaxChunk {
		return 0, fault.New(fault.TooLarge, "chunk_too_large", "At most %d bytes of log are taken at once; send smaller pieces.", MaxChunk)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	size := a.Size(stream)
	if start < size {
		had, err := postgres.Value[string](ctx, tx, Queries.Get("ChunkDigest"), postgres.Args{"attempt_id": a.ID, "stream": stream, "start_at": start, "size": len(data)})
		if err == nil && had == digest {
			return size, nil
		}
		if err != nil && !postgres.NoRow(err) {
			return 0, err
		}
	}
	if start != size || a.Status != Running {
		return size, fault.New(fault.Conflict, "log_offset", "The server has %d bytes of this log; go on from there.", size)
	}
	if len(data) == 0 {
		return start, nil
	}
	next = start + int64(len(data))
	if limit := stream.Limit(textLimit); next > limit {
		return 0, fault.New(fault.TooLarge, "log_too_large", "A log may have at most %d bytes; keep its head and its tail.", limit)
	}
	sealed, err := s.objects.SealValue(ctx, tx, a.OrganizationID, chunkLabel(a.ID, stream, start), clean(data))
	if err != nil {
		return 0, err
	}
	advance := postgres.Args{"id": a.ID, "start_at": start, "next": next}
	err = postgres.Later(ctx, tx, Queries.Get(ofStream(stream, "AdvanceLog", "AdvanceJSONLog")), advance, func(rows int64) error {
		if rows != 1 {
			return fmt.Errorf("advance the log of %s: it has moved", a.ID) // its row was not locked
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	err = postgres.Later(ctx, tx, Queries.Get("InsertChunk"), postgres.Args{
		"attempt_id": a.ID, "stream": stream, "start_at": start, "size": len(data), "sha256": digest, "sealed": sealed,
	}, nil)
	if err != nil {
		return 0, err
	}
	return next, NotifyLog(ctx, tx, a.RunID)
}

// NotifyLog wakes, at commit, those who wait for something new in a run's logs.
func NotifyLog(ctx context.Context, tx postgres.Tx, run ids.Run) error {
	return postgres.Notify(ctx, tx, LogChannel, string(run))
}

// clean replaces the two bytes that frame a log for its readers (case 106).
func clean(data []byte) []byte {
	data = bytes.ReplaceAll(data, []byte{0x02}, []byte{' '})
	return bytes.ReplaceAll(data, []byte{0x03}, []byte{' '})
}

// ReadLog gives at most limit bytes of one of the logs of a from offset, as far as a
// knows it; nothing past its end. It takes connections of its own, so it is not to be
// called inside a transaction.
func (s *Service) ReadLog(ctx context.Context, a Attempt, stream Stream, offset, limit int64) (data []byte, err error) {
	if offset >= a.Size(stream) || limit <= 0 {
		return nil, nil
	}
	end := min(offset+limit, a.Size(stream))
	if a.folded(stream) == "" {
		err = postgres.InSnapshot(ctx, s.db, "dispatch.read-log", func(tx postgres.Tx) error {
			if data, err = s.readChunks(ctx, tx, a, stream, offset, end); err != nil || int64(len(data)) == end-offset {
				return err
			}
			a, err = Get(ctx, tx, a.ID) // it was folded since the caller read it
			return err
		})
		if err != nil || int64(len(data)) == end-offset {
			return data, err
		}
	}
	object := a.folded(stream)
	if object == "" {
		return nil, fmt.Errorf("the log of %s lacks bytes between %d and %d", a.ID, offset, end)
	}
	return s.readFolded(ctx, a, object, offset, end, a.Size(stream))
}

func (s *Service) readChunks(ctx context.Context, tx postgres.Tx, a Attempt, stream Stream, offset, end int64) (data []byte, err error) {
	rows, err := postgres.All[struct {
		StartAt int64
		Size    int64
		Sealed  []byte
	}](ctx, tx, Queries.Get("Chunks"), postgres.Args{"attempt_id": a.ID, "stream": stream, "from_byte": offset, "to_byte": end})
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		plain, err := s.objects.OpenValue(ctx, tx, a.OrganizationID, chunkLabel(a.ID, stream, r.StartAt), r.Sealed)
		if err != nil {
			return nil, err
		}
		from, to := max(offset-r.StartAt, 0), min(end-r.StartAt, r.Size)
		data = append(data, plain[from:to]...)
	}
	return data, nil
}

// readFolded reads from offset to end of a log of size bytes.
func (s *Service) readFolded(ctx context.Context, a Attempt, object ids.Object, offset, end, size int64) ([]byte, error) {
	out := make([]byte, 0, end-offset)
	for offset < end {
		start := offset - offset%windowSize
		data, ok := s.windows.get(object, start)
		if !ok {
			var err error
			if data, err = s.openWindow(ctx, a.OrganizationID, object, start, min(windowSize, size-start)); err != nil {
				return nil, fmt.Errorf("read the log of %s: %w", a.ID, err)
			}
		}
		n := min(int64(len(data)), end-start)
		out = append(out, data[offset-start:n]...)
		offset = start + n
	}
	return out, nil
}

func (s *Service) openWindow(ctx context.Context, org ids.Organization, object ids.Object, start, size int64) ([]byte, error) {
	body, _, err := s.objects.Open(ctx, org, object)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	if _, err := io.CopyN(io.Discard, body, start); err != nil {
		return nil, err
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(body, data); err != nil {
		return nil, err
	}
	s.windows.put(window{object: object, start: start, data: data})
	return data, nil
}

// Fold turns the chunks of the logs of ended attempts into one sealed object each, for
// at most batch attempts, and gives how many of these it folded. It may be repeated at any time. A log
// that cannot be folded does not keep the others from it; the error tells of all.
func (s *Service) Fold(ctx context.Context, batch int) (folded int, err error) {
	var list []Attempt
	err = postgres.InSnapshot(ctx, s.db, "dispatch.unfolded", func(tx postgres.Tx) error {
		unfolded, err := postgres.Values[ids.Attempt](ctx, tx, Queries.Get("Unfolded"), postgres.Args{"limit": batch})
		if err != nil {
			return err
		}
		for _, id := range unfolded {
			a, err := Get(ctx, tx, id)
			if err != nil {
				return err
			}
			list = append(list, a)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, a := range list {
		if err := errors.Join(s.fold(ctx, a, Human), s.fold(ctx, a, JSON)); err != nil {
			failed = append(failed, fmt.Errorf("fold the logs of %s: %w", a.ID, err))
			continue
		}
		folded++
	}
	return folded, errors.Join(failed...)
}

func (s *Service) fold(ctx context.Context, a Attempt, stream Stream) error {
	if a.Size(stream) == 0 || a.folded(stream) != "" {
		return nil
	}
	object, err := s.objects.Put(ctx, artifacts.Spec{Organization: a.OrganizationID, Workspace: a.WorkspaceID, Kind: artifacts.KindLog, Run: a.RunID}, &chunkReader{ctx: ctx, s: s, a: a, stream: stream}, 0)
	if err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "dispatch.fold", func(tx postgres.Tx) error {
		n, err := postgres.Exec(ctx, tx, Queries.Get(ofStream(stream, "Fold", "FoldJSON")), postgres.Args{"id": a.ID, "object_id": object.ID})
		if err != nil {
			return err
		}
		if n == 0 { // another server folded it meanwhile
			return s.objects.Discard(ctx, tx, a.OrganizationID, object.ID)
		}
		_, err = postgres.Exec(ctx, tx, Queries.Get("DeleteChunks"), postgres.Args{"attempt_id": a.ID, "stream": stream})
		return err
	})
}

// chunkReader reads the stored chunks in order, a bounded piece at a time.
type chunkReader struct {
	ctx    context.Context
	s      *Service
	a      Attempt
	stream Stream
	at     int64
}

func (r *chunkReader) Read(p []byte) (int, error) {
	if r.at >= r.a.Size(r.stream) {
		return 0, io.EOF
	}
	data, err := r.s.ReadLog(r.ctx, r.a, r.stream, r.at, int64(len(p)))
	if err == nil && len(data) == 0 {
		err = io.ErrUnexpectedEOF
	}
	r.at += int64(len(data))
	return copy(p, data), err
}
