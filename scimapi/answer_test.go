package scimapi

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/fault"
)

// TestOnlyADatabaseThatIsDownAnswers503: a client asks again after a 5xx, which helps no refusal.
func TestOnlyADatabaseThatIsDownAnswers503(t *testing.T) {
	for _, kind := range fault.Kinds() {
		c := &call{}
		status := c.answerTo(fault.New(kind, "a_code", "What is wrong.")).Status
		switch {
		case kind == fault.Internal:
			assert.Equal(t, http.StatusInternalServerError, status)
		case slices.Contains([]fault.Kind{fault.Unavailable, fault.Unknown}, kind):
			assert.Equal(t, http.StatusServiceUnavailable, status, "%v", kind)
		default:
			assert.True(t, status >= 400 && status < 500, "%v answers %d", kind, status)
			assert.NoError(t, c.err, "a refusal is no error of ours")
			continue
		}
		assert.Error(t, c.err, "it is logged")
	}
}
