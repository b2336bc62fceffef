package config

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestNetworks(t *testing.T) {
	for text, want := range map[string][]netip.Prefix{
		"":                         nil,
		" , ":                      nil,
		"10.0.0.7":                 {netip.MustParsePrefix("10.0.0.7/32")},
		"10.0.0.0/8, 2001:db8::1,": {netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")},
	} {
		t.Setenv("HOLDFAST_TEST_NETWORKS", text)
		var r reader
		assert.Equal(t, want, r.networks("HOLDFAST_TEST_NETWORKS"), "%q", text)
		assert.NoError(t, r.problem(), "%q", text)
	}
	for _, text := range []string{"proxy.example", "10.0.0.0/33", "10.0.0.7;10.0.0.8", "10.0.0.7 10.0.0.8"} {
		t.Setenv("HOLDFAST_TEST_NETWORKS", text)
		var r reader
		assert.Empty(t, r.networks("HOLDFAST_TEST_NETWORKS"), "%q", text)
		assert.ErrorContains(t, r.problem(), "HOLDFAST_TEST_NETWORKS must list addresses", "%q", text)
	}
}
