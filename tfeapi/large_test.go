package tfeapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
