package policies

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestSetsAreListedAsTheyWereMade: whatever their names are, also over pages.
func TestSetsAreListedAsTheyWereMade(t *testing.T) {
	w := newWorld(t)
	made := []string{"network", "audit", "cost"}
	for _, name := range made {
		_, err := w.CreateSet(ctx, w.owner, "acme", NewSet{Name: name, Kind: OPA})
		require.NoError(t, err)
	}
	var listed []string
	for offset := range 3 {
		page, total, err := w.Sets(ctx, w.owner, "acme", Filter{Page: Page{Limit: 1, Offset: offset}})
		require.NoError(t, err)
		assert.Equal(t, 3, total)
		for _, set := range page {
			listed = append(listed, set.Name)
		}
	}
	assert.Equal(t, made, listed)
}
