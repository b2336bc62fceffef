package outbound

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhichAddressesAreCalled(t *testing.T) {
	t.Parallel()
	// The edges of the closed networks: the last address before, inside, and the first one after.
	for text, what := range map[string]string{
		"9.255.255.255": "", "10.0.0.0": "private", "10.255.255.255": "private", "11.0.0.0": "",
		"100.63.255.255": "", "100.64.0.0": "carrier", "100.127.255.255": "carrier", "100.128.0.0": "",
		"126.255.255.255": "", "127.0.0.0": "loopback", "127.255.255.255": "loopback", "128.0.0.0": "",
		"169.253.255.255": "", "169.254.0.0": "link-local", "169.254.255.255": "link-local", "169.255.0.0": "",
		"172.15.255.255": "", "172.16.0.0": "private", "172.31.255.255": "private", "172.32.0.0": "",
		"192.167.255.255": "", "192.168.0.0": "private", "192.168.255.255": "private", "192.169.0.0": "",
		"198.17.255.255": "", "198.18.0.0": "benchmark", "198.19.255.255": "benchmark", "198.20.0.0": "",
		"223.255.255.255": "", "224.0.0.0": "multicast", "239.255.255.255": "multicast", "240.0.0.0": "reserved", "255.255.255.255": "reserved",
		"168.63.129.15": "", "168.63.129.16": "metadata", "168.63.129.17": "",
		"0.255.255.255": "this host", "1.0.0.0": "",
		"::": "loopback", "::1": "loopback", "::2": "this host", "1fff:ffff::": "reserved", "2000::": "", "3ffe:ffff::": "", "3fff::1": "documentation", "4000::": "reserved",
		"2001:1ff:ffff::": "tunnel", "2001:200::": "", "2001:db8::1": "documentation", "2a00:1450:4001:830::200e": "",
		"fbff::": "reserved", "fc00::": "private", "fdff::": "private", "fe80::1": "link-local", "fec0::1": "private", "ff02::1": "multicast",
		"::ffff:8.8.8.8": "", "64:ff9b::8.8.8.8": "", "2002:808:808::1": "", "64:ff9b:1::8.8.8.8": "reserved", "::8.8.8.8": "reserved", "::ffff:0:8.8.8.8": "reserved",
		"2a00::5efe:808:808": "", "2a00::5efe:a00:1": "private", "2a00::200:5efe:a00:1": "private",
	} {
		assert.Equal(t, what, refusal(netip.MustParseAddr(text), nil), text)
	}
}

func TestAnAllowedNetworkIsCalledInAllItsForms(t *testing.T) {
	t.Parallel()
	allowed := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32"), netip.MustParsePrefix("::1/128")}
	for text, open := range map[string]bool{
		"10.1.2.3": true, "10.2.0.1": false, "::ffff:10.1.2.3": true, "::ffff:10.2.0.1": false, "64:ff9b::10.1.2.3": true, "64:ff9b::10.2.0.1": false,
		"fd00:1::5": true, "fd00:2::5": false, "::1": true, "::2": false, "127.0.0.1": false, "fe80::1%eth0": false, "fd00:1::5%eth0": false,
	} {
		assert.Equal(t, open, refusal(netip.MustParseAddr(text), allowed) == "", text)
	}
}
