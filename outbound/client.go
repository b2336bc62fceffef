package outbound

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/holdfast-run/holdfast/fault"
)

const (
	// Within is how long a call may take, from the look-up of the name to the answer's last byte.
	Within = 10 * time.Second
	// MaxAnswer is how many bytes of an answer's body are read.
	MaxAnswer = 1 << 20

	mostRedirects = 3
	longestURL    = 2000
)

// Settings are the operator's.
type Settings struct {
	// Allow are networks that may be called although they are not public.
	Allow []netip.Prefix
	// Proxy, when set, makes every call. It looks up the names itself, so it has to keep
	// closed networks closed to them; addresses that are written out are still checked here.
	Proxy *url.URL
}

// Client calls addresses that users gave. One is shared by the whole process.
type Client struct {
	allow  []netip.Prefix
	lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	within time.Duration
	http   *http.Client
}

// New makes the client.
func New(s Settings) *Client {
	return newClient(s, func(ctx context.Context, host string) ([]netip.Addr, error) {
		return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	}, Within)
}

func newClient(s Settings, lookup func(context.Context, string) ([]netip.Addr, error), within time.Duration) *Client {
	c := &Client{allow: s.Allow, lookup: lookup, within: within}
	transport := &http.Transport{
		DialContext: c.dial,
		// A connection that is kept would serve a later request without a look-up and a check.
		DisableKeepAlives:      true,
		DisableCompression:     true,
		MaxResponseHeaderBytes: 64 << 10,
	}
	if s.Proxy != nil {
		transport.Proxy = http.ProxyURL(s.Proxy)
		transport.DialContext = (&net.Dialer{}).DialContext // the proxy is the operator's own address
	}
	c.http = &http.Client{Transport: transport, CheckRedirect: c.redirect}
	return c
}

// Request is one call.
type Request struct {
	Method string
	URL    string
	Header map[string]string
	Body   []byte
}

// Answer is what came back, whatever its status.
type Answer struct {
	Status int
	Header map[string][]string
	Body   []byte // at most MaxAnswer bytes; the rest is not read
}

// OK tells whether the status is one of success.
func (a Answer) OK() bool { return a.Status >= 200 && a.Status < 300 }

// CheckURL refuses, with Invalid "invalid_address", what is no http or https address
// with a host, and with Invalid "address_refused" one whose host is written out as an
// address that is not called. A name is looked up when it is called, each time.
func (c *Client) CheckURL(text string) error {
	_, err := c.parse(text)
	return err
}

func (c *Client) parse(text string) (*url.URL, error) {
	invalid := func(why string) error { return fault.New(fault.Invalid, "invalid_address", "The address %s.", why) }
	if len(text) > longestURL || !utf8.ValidString(text) {
		return nil, invalid("is longer than 2,000 bytes or no text")
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, invalid("cannot be read as a URL") // err repeats it
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("must begin with http:// or https://")
	case u.Hostname() == "" || u.Opaque != "":
		return nil, invalid("names no host")
	case u.User != nil:
		return nil, invalid("has a user or password in it: give a token instead, which signs what is sent")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return nil, invalid("has a port that does not exist")
		}
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil {
		return u, c.check(literal, u.Hostname())
	}
	return u, nil
}

func (c *Client) check(address netip.Addr, host string) error {
	what := refusal(address, c.allow)
	if what == "" {
		return nil
	}
	return fault.New(fault.Invalid, "address_refused",
		"The host %q is at an address that this server does not call (%s). An operator can allow its network with HOLDFAST_OUTBOUND_ALLOW.", host, what)
}

// Do makes the call. The answer of any status is an answer; errors are Invalid:
// "invalid_address" and "address_refused" as of CheckURL, "redirect_refused",
// "host_not_found", "no_answer" for one that took too long, "call_failed". Their text names
// the host and nothing else of the address.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	target, err := c.parse(r.URL)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.Method, target.String(), bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, explain(ctx, target, err)
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", "holdfast")
	res, err := c.http.Do(req)
	if err != nil {
		return Answer{}, explain(ctx, target, err)
	}
	defer func() { _ = res.Body.Close() }() // the rest is not wanted
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxAnswer))
	if err != nil {
		return Answer{}, explain(ctx, target, err)
	}
	return Answer{Status: res.StatusCode, Header: res.Header, Body: body}, nil
}

// redirect lets a request go on only to where it was sent: the same host, at the same port or from
// plain HTTP to HTTPS. What would become another request, such as a POST that turns into
// a GET, is not followed; its answer is the redirect itself.
func (c *Client) redirect(next *http.Request, before []*http.Request) error {
	refused := func(why string) error {
		return fault.New(fault.Invalid, "redirect_refused", "The host %q answered with a redirect %s. Give the final address.", before[0].URL.Hostname(), why)
	}
	last := before[len(before)-1]
	if next.Method != last.Method {
		return http.ErrUseLastResponse
	}
	upgraded := last.URL.Scheme == "http" && next.URL.Scheme == "https" && last.URL.Port() == "" && next.URL.Port() == ""
	same := last.URL.Scheme == next.URL.Scheme && port(last.URL) == port(next.URL)
	switch {
	case !strings.EqualFold(next.URL.Hostname(), last.URL.Hostname()) || !upgraded && !same:
		return refused("to another host or port")
	case len(before) > mostRedirects:
		return refused("again and again")
	}
	_, err := c.parse(next.URL.String())
	return err
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	return map[string]string{"http": "80", "https": "443"}[u.Scheme]
}

// dial connects to the first of a host's addresses that answers. The check is made on the very
// address that the system connects to, after every look-up is over.
func (c *Client) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	addresses := []netip.Addr{}
	if literal, err := netip.ParseAddr(host); err == nil {
		addresses = append(addresses, literal)
	} else if addresses, err = c.lookup(ctx, host); err != nil {
		return nil, err
	}
	// Each address has its share of the time, so that one which is dead does not take it all.
	dialer := net.Dialer{Timeout: c.within / time.Duration(max(1, len(addresses))), ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil || !strings.HasPrefix(network, "tcp") {
			return fmt.Errorf("no address to connect to: %s", network)
		}
		return c.check(at.Addr(), host)
	}}
	var first error
	for _, address := range addresses {
		conn, err := dialer.DialContext(ctx, network, net.JoinHostPort(address.String(), port))
		if err == nil {
			return conn, nil
		}
		if first == nil {
			first = err
		}
	}
	if first == nil {
		first = &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return nil, first
}

// explain says why a call failed, without the address.
func explain(ctx context.Context, target *url.URL, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	host := target.Hostname()
	var lookup *net.DNSError
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fault.New(fault.Invalid, "no_answer", "The host %q did not answer in %d seconds.", host, int(Within.Seconds()))
	case errors.As(err, &lookup):
		return fault.New(fault.Invalid, "host_not_found", "The host %q was not found.", host).Because(err)
	}
	return fault.New(fault.Invalid, "call_failed", "The host %q could not be called: the connection failed, was broken off, or its certificate is not trusted.", host).Because(err)
}
