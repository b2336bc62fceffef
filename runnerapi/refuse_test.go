package runnerapi

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/fault"
)

func TestEveryKindHasAStatus(t *testing.T) {
	t.Parallel()
	for _, kind := range fault.Kinds() {
		assert.GreaterOrEqual(t, statuses[kind], 400, kind)
	}
	assert.Len(t, statuses, len(fault.Kinds()))
}

func TestARefusalTellsWhatIsClassifiedAndNothingElse(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		err    error
		status int
		body   string
		logged bool
	}{
		"unclassified":         {errors.New("hunter2"), http.StatusInternalServerError, `{"code":"internal","detail":"The server failed; its log says more."}`, true},
		"classified, internal": {fault.New(fault.Internal, "defect", "hunter2"), http.StatusInternalServerError, `{"code":"internal","detail":"The server failed; its log says more."}`, true},
		"with a cause":         {fault.New(fault.Conflict, "moved", "It has moved.").Because(errors.New("hunter2")), http.StatusConflict, `{"code":"moved","detail":"It has moved."}`, false},
	} {
		w, log := httptest.NewRecorder(), &logs{}
		s := &server{Deps: Deps{Log: slog.New(slog.NewTextHandler(log, nil))}}
		assert.Equal(t, tt.status, s.refuse(w, "/a/{id}", tt.err), name)
		assert.Equal(t, tt.status, w.Code, name)
		assert.JSONEq(t, tt.body, w.Body.String(), name)
		if tt.logged {
			assert.Contains(t, log.String(), "hunter2", "%s: the log says what happened", name)
		} else {
			assert.Empty(t, log.String(), name)
		}
	}
}

func TestADatabaseThatIsDownIsA503(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.assigned(w.run().ID).accept()
	w.db.Close()
	w.poll(0).refused(http.StatusServiceUnavailable, "database_unavailable")
	e.logAt(0, "text").refused(http.StatusServiceUnavailable, "database_unavailable")
	e.done(planned()).refused(http.StatusServiceUnavailable, "database_unavailable")
}
