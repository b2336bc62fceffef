package runner

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// mostReports bounds how often a report is corrected by what the server has of the logs.
const mostReports = 5

// report tells the server how the attempt ended. It is repeated for as long as the
// attempt has authority while the server cannot be reached or says that it cannot do it
// now; an answer that says no is final. A 409 means that the server has decided already:
// about this report, or without it. Only where it has more or less of a log than the
// report says is there something to correct.
func (a *attempt) report(done wire.Done) {
	for range mostReports {
		err := a.server.do(a.end, request{method: http.MethodPost, path: withID(wire.PathDone, a.id), token: a.session.Token, body: jsonBody(done)}, nil)
		var no *refusal
		switch {
		case err == nil:
			slog.Info("attempt done", "attempt", a.id, "outcome", done.Outcome, "exit_code", done.ExitCode)
			return
		case errors.As(err, &no) && no.code == wire.CodeLogIncomplete:
			slog.Warn("the server has another part of the logs than was reported", "attempt", a.id, "detail", no.detail)
			if err := a.correctSizes(&done); err != nil {
				slog.Error("could not report the end of the attempt", "attempt", a.id, "outcome", done.Outcome, "error", err)
				return
			}
		case errors.As(err, &no) && no.status == http.StatusConflict:
			slog.Warn("the server has decided already how the attempt ended; going on", "attempt", a.id, "outcome", done.Outcome, "detail", no.detail)
			return
		default:
			slog.Error("could not report the end of the attempt", "attempt", a.id, "outcome", done.Outcome, "error", err)
			return
		}
	}
	slog.Error("could not report the end of the attempt: the server never agreed on how long the logs are", "attempt", a.id, "outcome", done.Outcome)
}

// correctSizes asks the server how much of each log it has: an empty piece is answered
// with the position to go on from. The answer to the last piece may have been lost.
func (a *attempt) correctSizes(done *wire.Done) (err error) {
	if done.LogSize, err = a.position(wire.StreamHuman, done.LogSize); err != nil || a.log.events == nil {
		return err
	}
	done.JSONLogSize, err = a.position(wire.StreamJSON, done.JSONLogSize)
	return err
}

func (a *attempt) position(stream string, offset int64) (int64, error) {
	var at wire.LogPosition
	empty := sha256.Sum256(nil)
	err := a.server.do(a.end, request{
		method: http.MethodPost, path: withID(wire.PathLogs, a.id), token: a.session.Token,
		header: map[string]string{wire.HeaderLogStream: stream, wire.HeaderOffset: strconv.FormatInt(offset, 10), wire.HeaderSHA256: hex.EncodeToString(empty[:])},
	}, func(resp *http.Response) error { return decodeJSON(resp, &at) })
	return at.Next, err
}
