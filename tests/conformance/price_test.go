package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestThePriceOfAPlan(t *testing.T) {
	var out strings.Builder
	require.NoError(t, pricePlan(strings.NewReader(`{
		"planned_values": {"root_module": {"resources": [{"mode": "managed", "type": "null_resource"}, {"mode": "managed", "type": "null_resource"}, {"mode": "managed", "type": "terraform_data"}, {"mode": "data", "type": "null_data_source"}]}},
		"prior_state": {"values": {"root_module": {"resources": [{"mode": "managed", "type": "null_resource"}]}}}}`), &out))
	assert.JSONEq(t, `{"version": "0.2", "currency": "USD", "totalMonthlyCost": "2.50", "pastTotalMonthlyCost": "1.25",
		"summary": {"totalDetectedResources": 3, "totalSupportedResources": 2}}`, out.String())
	assert.Error(t, pricePlan(strings.NewReader("no plan"), &out))
}
