package runner

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

var (
	// emergencyPatience is how long a runner tries to hand over a state that tofu could
	// not publish, before it reports that there is one.
	emergencyPatience = time.Minute
	// emergencyInterval is between two looks at what could not be handed over.
	emergencyInterval = time.Minute
)

const emergencySuffix = ".emergency.json" // of the note beside a state that is kept

// emergency is the capability to hand over one attempt's state that tofu could not
// publish. It lies in the sandbox while tofu runs and beside the state afterwards, so
// that it is there for a runner that starts again.
type emergency struct {
	Attempt    string    `json:"attempt"`
	Capability string    `json:"capability"`
	ExpiresAt  time.Time `json:"expires_at"`
}

func (s sandbox) emergency() string { return filepath.Join(s.path, "emergency.json") }

// noteEmergency writes the capability down, where the session has one.
func (a *attempt) noteEmergency() error {
	e := emergency{Attempt: a.id, Capability: a.session.EmergencyCapability, ExpiresAt: a.session.EmergencyExpiresAt}
	if e.Capability == "" {
		return nil
	}
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return writeNew(a.sandbox.emergency(), text)
}

// moveEmergency lays a sandbox's capability beside a state that is kept. Without one
// there is nothing to do: the server is older, or it was a plan.
func moveEmergency(sandbox sandbox, place string) {
	err := os.Rename(sandbox.emergency(), noteBeside(place))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		slog.Error("a state that could not be published cannot be handed over to the server", "file", place, "error", err)
	}
}

func noteBeside(place string) string { return strings.TrimSuffix(place, ".tfstate") + emergencySuffix }

// besideOverride tells whether a state lies where tofu ran. One elsewhere came with the
// configuration, and tells nothing of the apply.
func besideOverride(path string) bool {
	beside, _ := os.ReadDir(filepath.Dir(path))
	return slices.ContainsFunc(beside, func(file os.DirEntry) bool { return strings.HasSuffix(file.Name(), overrideName) })
}

// handOverEmergency gives a state that is kept to the server, and says whether the
// server has it. An answer that says no is final. The file itself stays in any case.
func (s *server) handOverEmergency(ctx context.Context, place string) bool {
	note := noteBeside(place)
	text, err := os.ReadFile(note)
	if err != nil {
		return false
	}
	var e emergency
	if err := json.Unmarshal(text, &e); err != nil {
		slog.Error("the note beside a kept state cannot be read", "file", note, "error", err)
		return false
	}
	digest, err := digestOf(place)
	if err != nil {
		slog.Error("a kept state cannot be read", "file", place, "error", err)
		return false
	}
	err = s.do(ctx, request{
		method: http.MethodPut, path: withID(wire.PathEmergencyState, e.Attempt), token: e.Capability, limit: moveLimit,
		header: map[string]string{wire.HeaderSHA256: digest, "Content-Type": "application/octet-stream"},
		body: func() (io.ReadCloser, int64, error) {
			file, err := os.Open(place)
			if err != nil {
				return nil, 0, err
			}
			info, err := file.Stat()
			if err != nil {
				_ = file.Close()
				return nil, 0, err
			}
			return file, info.Size(), nil
		},
	}, nil)
	switch {
	case err == nil:
		slog.Info("a state that could not be published was handed over to the server", "attempt", e.Attempt, "file", place)
	case refused(err):
		slog.Error("the server refused a state that could not be published; the file stays", "attempt", e.Attempt, "file", place, "error", err)
	case clock.Now().After(e.ExpiresAt.Add(24 * time.Hour)): // whatever clock is wrong here
		slog.Error("a state that could not be published was not handed over in time; the file stays", "attempt", e.Attempt, "file", place, "error", err)
	default:
		slog.Warn("a state that could not be published is handed over later", "attempt", e.Attempt, "file", place, "error", err)
		return false
	}
	if unremoved := os.Remove(note); unremoved != nil && !errors.Is(unremoved, fs.ErrNotExist) {
		slog.Error("could not remove the note beside a kept state", "file", note, "error", unremoved)
	}
	return err == nil
}

// handOverKept hands over, now and then until ctx ends, what could not be handed over
// before: by an attempt of this runner, or by a runner that was killed.
func (r *runner) handOverKept(ctx context.Context) {
	for ctx.Err() == nil {
		notes, _ := filepath.Glob(filepath.Join(r.dir.errored(), "*"+emergencySuffix))
		for _, note := range notes {
			once, cancel := context.WithTimeout(ctx, emergencyPatience)
			r.server.handOverEmergency(once, strings.TrimSuffix(note, emergencySuffix)+".tfstate")
			cancel()
		}
		pause(ctx, emergencyInterval)
	}
}
