package tfeapi

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
)

// started is when this server learned its addresses, to the second as headers have it.
var started = seconds(clock.Now())

// ipRanges are the addresses from which this server speaks, by what for.
type ipRanges struct {
	API           []string `json:"api"`
	Notifications []string `json:"notifications"`
	Sentinel      []string `json:"sentinel"`
	VCS           []string `json:"vcs"`
}

// readIPRanges answers with the addresses that the server's public name stands for. It
// speaks to others from the same ones, unless something between changes them.
func (s *server) readIPRanges(r *request) (answer, error) {
	if since, err := http.ParseTime(r.http.Header.Get("If-Modified-Since")); err == nil && !started.After(since) {
		return answer{status: http.StatusNotModified}, nil
	}
	public, err := url.Parse(s.Address)
	if err != nil {
		return answer{}, err
	}
	found, err := net.DefaultResolver.LookupNetIP(r.ctx, "ip", public.Hostname())
	if err != nil {
		return answer{}, fault.New(fault.NotFound, "no_addresses", "The name %q of this server cannot be looked up from here.", public.Hostname()).Because(err)
	}
	ranges := make([]string, 0, len(found))
	for _, one := range found {
		one = one.Unmap()
		ranges = append(ranges, netip.PrefixFrom(one, one.BitLen()).String())
	}
	r.header.Set("Last-Modified", started.Format(http.TimeFormat))
	return answer{status: http.StatusOK, json: ipRanges{API: ranges, Notifications: ranges, Sentinel: ranges, VCS: ranges}}, nil
}
