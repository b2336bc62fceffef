package tfeapi

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/clock"
)

func TestADocumentOverTheLimitIsRefused(t *testing.T) {
	w := newWorld(t)
	body := `{"data":{"type":"workspaces","attributes":{"name":"a","description":"` + strings.Repeat("x", maxDocument) + `"}}}`
	response, text := w.send("POST", "/api/v2/organizations/acme/workspaces", w.ann, body)
	assert.Equal(t, 413, response.StatusCode)
	assert.Contains(t, text, "document_too_large")
}

// TestALargeStateMayComeInline sends a state that no ordinary document could hold.
func TestALargeStateMayComeInline(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	_, err := w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	lineage := "l-1"
	data := fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":"l-1","outputs":{},"resources":[],"padding":%q}`, strings.Repeat("x", maxDocument))
	for range 2 { // the place for a large document is given back
		sv, err := w.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(data), Serial: number(1), State: text64(data)})
		require.NoError(t, err)
		assert.Equal(t, int64(len(data)), sv.Size)
	}
}

// TestOnlyWritersTakeThePlaceForALargeState: the others are answered before they have
// sent anything, and one who may write finds the place free while they linger.
func TestOnlyWritersTakeThePlaceForALargeState(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("app")
	_, outsider := w.user(t.Context(), "eve")
	for token, status := range map[string]int{outsider: 404, w.bob: 403} {
		body, sender := io.Pipe()
		defer sender.Close()
		r, err := http.NewRequestWithContext(t.Context(), "POST", w.url+"/api/v2/workspaces/"+ws.ID+"/state-versions", body)
		require.NoError(t, err)
		r.ContentLength = maxDocument + 1
		r.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		defer response.Body.Close()
		assert.Equal(t, status, response.StatusCode)
	}
	response, text := w.send("POST", "/api/v2/workspaces/"+ws.ID+"/state-versions", w.ann, strings.Repeat(" ", maxDocument)+"{}")
	assert.Equal(t, 400, response.StatusCode, text)
}

// deadlines notes what a handler sets.
type deadlines struct {
	*httptest.ResponseRecorder
	set []time.Time
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.set = append(d.set, at)
	return nil
}

func TestALargeDocumentMustComeInTime(t *testing.T) {
	s := &server{large: make(chan struct{}, 1)}
	read := func(body io.Reader) (*deadlines, func(), error) {
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		post := httptest.NewRequest("POST", "/", body)
		post.ContentLength = -1
		r, err := newRequest(w, post)
		require.NoError(t, err)
		_, done, err := s.stateDocument(r)
		return w, done, err
	}
	w, _, err := read(iotest.ErrReader(io.ErrUnexpectedEOF))
	require.Error(t, err)
	require.Len(t, w.set, 1)
	assert.WithinDuration(t, clock.Now().Add(5*time.Minute), w.set[0], time.Minute)
	assert.Empty(t, s.large, "who breaks off gives the place back")

	w, done, err := read(strings.NewReader("{}"))
	require.NoError(t, err)
	require.Len(t, w.set, 2)
	assert.True(t, w.set[1].IsZero(), "the deadline is for the reading only")
	assert.Len(t, s.large, 1)
	done()
	assert.Empty(t, s.large)
}
