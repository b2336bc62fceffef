package outbound

import (
	"net/netip"
	"slices"
)

// closed are the networks of which an address is not public, with what they are. Of
// IPv6 only 2000::/3 is given out at all, so what is outside of it needs no line.
var closed = []struct {
	network netip.Prefix
	what    string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "this host"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "carrier"}, // and Alibaba's metadata, 100.100.100.200
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("168.63.129.16/32"), "metadata"}, // Azure's: public by its number alone
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"}, // and the metadata of most clouds
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"}, // and Oracle's metadata, 192.0.0.192
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("192.88.99.0/24"), "tunnel"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmark"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{loopback6, "loopback"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "tunnel"}, // Teredo, ORCHID, benchmarks and what else the IETF has set apart
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
}

var (
	loopback6  = netip.MustParsePrefix("::/127") // :: is this host as well
	given      = netip.MustParsePrefix("2000::/3")
	nat64      = netip.MustParsePrefix("64:ff9b::/96")
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // SIIT
	compatible = netip.MustParsePrefix("::/96")
	sixToFour  = netip.MustParsePrefix("2002::/16")
)

// embedded gives the IPv4 address that a packet to address ends at, by the forms that
// carry one; ok is false when there is none. Unmap has dealt with ::ffff:a.b.c.d.
func embedded(address netip.Addr) (inner netip.Addr, ok bool) {
	if !address.Is6() {
		return inner, false
	}
	b := address.As16()
	at := func(i int) (netip.Addr, bool) { return netip.AddrFrom4([4]byte(b[i : i+4])), true }
	switch {
	case sixToFour.Contains(address):
		return at(2)
	case nat64.Contains(address), translated.Contains(address), compatible.Contains(address) && !loopback6.Contains(address):
		return at(12)
	case b[8]&^0x02 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return at(12)
	}
	return inner, false
}

// refusal says what keeps address from being called; empty when nothing does. Where an
// IPv4 address is embedded, both must be open.
func refusal(address netip.Addr, allowed []netip.Prefix) string {
	if address.Zone() != "" {
		return "link-local"
	}
	address = address.Unmap()
	inner, carries := embedded(address)
	if carries {
		if what := refusal(inner, allowed); what != "" {
			return what
		}
	}
	if slices.ContainsFunc(allowed, func(p netip.Prefix) bool { return p.Contains(address) }) {
		return ""
	}
	for _, c := range closed {
		if c.network.Contains(address) {
			return c.what
		}
	}
	if address.Is6() && !given.Contains(address) && !nat64.Contains(address) {
		return "reserved"
	}
	return ""
}
