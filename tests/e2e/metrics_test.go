package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What an operator scrapes: on an address of its own, and without anything that names somebody.
func TestMetricsOfARunningServer(t *testing.T) {
	response, err := http.Get(shared.environ["HOLDFAST_METRICS_ADDRESS"])
	require.NoError(t, err)
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	text := string(body)
	require.Equal(t, 200, response.StatusCode, text)
	for _, line := range []string{"holdfast_database_up 1", `holdfast_requests_total{api="tfe",code="200",method="GET",route="/readyz"}`} {
		assert.True(t, strings.Contains(text, "\n"+line), line)
	}
	for _, secret := range []string{"demo", shared.environ["TFE_TOKEN"]} {
		assert.False(t, strings.Contains(text, secret), "%s is shown", secret)
	}

	outside, err := shared.http.Get(strings.TrimSuffix(shared.address(), "/") + "/metrics")
	require.NoError(t, err)
	defer outside.Body.Close()
	assert.Equal(t, 404, outside.StatusCode, "they are not for everybody who reaches the API")
}
