package outbound

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

// names is a resolver of the test's own: what each host's look-ups answer, one after the
// other; the last answer stays.
type names map[string][]string

func (n names) client(t *testing.T, allow ...string) *Client {
	t.Helper()
	var s Settings
	for _, network := range allow {
		s.Allow = append(s.Allow, netip.MustParsePrefix(network))
	}
	return newClient(s, n.lookup, time.Minute)
}

func (n names) lookup(_ context.Context, host string) ([]netip.Addr, error) {
	answers := n[strings.TrimSuffix(strings.ToLower(host), ".")]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		n[host] = answers[1:]
	}
	var found []netip.Addr
	for text := range strings.FieldsSeq(answers[0]) {
		found = append(found, netip.MustParseAddr(text))
	}
	return found, nil
}

// secret is a server that nobody must reach; it counts who does.
func secret(t *testing.T, address string) (port string, reached *atomic.Int32) {
	t.Helper()
	reached = &atomic.Int32{}
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("the secret")) }))
	server.Listener = listener
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			reached.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	_, port, err = net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	return port, reached
}

const (
	refused = "address_refused"
	invalid = "invalid_address"
	missing = "host_not_found"
)

// hostile are addresses that somebody might give to reach what is not theirs. PORT stands for the port of a
// server on the loopback address. at is what the host's name is looked up to, as a system's
// resolver does, which also reads the number forms of old; empty where no look-up may happen.
var hostile = []struct{ url, at, code string }{
	// loopback, in all spellings
	{"http://127.0.0.1:PORT/", "", refused},
	{"http://127.0.0.2:PORT/", "", refused},
	{"http://127.255.255.254/", "", refused},
	{"http://0.0.0.0:PORT/", "", refused},
	{"http://0:PORT/", "0.0.0.0", refused},
	{"http://127.1:PORT/", "127.0.0.1", refused},
	{"http://127.0.1:PORT/", "127.0.0.1", refused},
	{"http://2130706433:PORT/", "127.0.0.1", refused},
	{"http://0x7f000001:PORT/", "127.0.0.1", refused},
	{"http://0x7f.0x0.0x0.0x1:PORT/", "127.0.0.1", refused},
	{"http://017700000001:PORT/", "127.0.0.1", refused},
	{"http://0177.0.0.1:PORT/", "127.0.0.1", refused},
	{"http://0127.0.0.1:PORT/", "127.0.0.1", refused},
	{"http://127.000.000.001:PORT/", "127.0.0.1", refused},
	{"http://127.0.0.1.:PORT/", "127.0.0.1", refused},
	{"http://localhost:PORT/", "127.0.0.1 ::1", refused},
	{"http://LOCALHOST:PORT/", "::1 127.0.0.1", refused},
	{"http://localhost.:PORT/", "127.0.0.1", refused},
	{"http://localtest.example:PORT/", "127.0.0.1", refused},
	{"http://127.0.0.1.nip.example:PORT/", "127.0.0.1", refused},
	{"http://①②⑦.⓪.⓪.①:PORT/", "", refused},
	{"http://１２７.０.０.１:PORT/", "", refused},
	{"http://127。0。0。1:PORT/", "", refused},
	{"http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/", "127.0.0.1", refused},
	{"http://[::1]:PORT/", "", refused},
	{"http://[0:0:0:0:0:0:0:1]:PORT/", "", refused},
	{"http://[::]:PORT/", "", refused},
	{"http://[::1%25lo]:PORT/", "", refused},
	{"http://six.example:PORT/", "::1", refused},

	// IPv4 inside of IPv6
	{"http://[::ffff:127.0.0.1]:PORT/", "", refused},
	{"http://[::ffff:7f00:1]:PORT/", "", refused},
	{"http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/", "", refused},
	{"http://mapped.example:PORT/", "::ffff:127.0.0.1", refused},
	{"http://[::127.0.0.1]:PORT/", "", refused},
	{"http://[::ffff:0:127.0.0.1]:PORT/", "", refused},
	{"http://[64:ff9b::127.0.0.1]:PORT/", "", refused},
	{"http://[64:ff9b::a9fe:a9fe]/latest/meta-data/", "", refused},
	{"http://nat64.example/", "64:ff9b::10.0.0.1", refused},
	{"http://[64:ff9b:1::10.0.0.1]/", "", refused},
	{"http://[2002:7f00:1::]:PORT/", "", refused},
	{"http://[2002:a9fe:a9fe::1]/", "", refused},
	{"http://six-to-four.example/", "2002:c0a8:101::1", refused},
	{"http://[2001:0:4136:e378:8000:63bf:3fff:fdd2]/", "", refused}, // Teredo
	{"http://teredo.example/", "2001:0:a9fe:a9fe::1", refused},
	{"http://[2a00:1450::5efe:169.254.169.254]/", "", refused}, // ISATAP

	// metadata services
	{"http://169.254.169.254/latest/meta-data/iam/security-credentials/", "", refused},
	{"http://169.254.170.2/v2/credentials/", "", refused},
	{"http://[fd00:ec2::254]/latest/meta-data/", "", refused},
	{"http://100.100.100.200/latest/meta-data/", "", refused},
	{"http://168.63.129.16/machine?comp=goalstate", "", refused},
	{"http://192.0.0.192/opc/v1/instance/", "", refused},
	{"http://metadata.google.internal/computeMetadata/v1/", "169.254.169.254", refused},
	{"http://2852039166/", "169.254.169.254", refused},
	{"http://0xa9fea9fe/", "169.254.169.254", refused},
	{"http://0251.0376.0251.0376/", "169.254.169.254", refused},

	// private, carrier, link-local, multicast, reserved
	{"http://10.0.0.1/", "", refused},
	{"http://172.16.0.1/", "", refused},
	{"http://172.31.255.255/", "", refused},
	{"http://192.168.1.1/", "", refused},
	{"https://192.168.1.1:8443/", "", refused},
	{"http://intranet.example/", "10.1.2.3", refused},
	{"http://two.example/", "192.168.0.1 fd00::1", refused},
	{"http://100.64.0.1/", "", refused},
	{"http://169.254.1.1/", "", refused},
	{"http://[fe80::1]/", "", refused},
	{"http://[fe80::1%25eth0]/", "", refused},
	{"http://[fc00::1]/", "", refused},
	{"http://[fd12:3456:789a::1]/", "", refused},
	{"http://[fec0::1]/", "", refused},
	{"http://[ff02::1]/", "", refused},
	{"http://224.0.0.1/", "", refused},
	{"http://239.255.255.250:1900/", "", refused},
	{"http://240.0.0.1/", "", refused},
	{"http://255.255.255.255/", "", refused},
	{"http://198.18.0.1/", "", refused},
	{"http://192.0.2.1/", "", refused},
	{"http://[2001:db8::1]/", "", refused},

	// what is no http address of a host
	{"file:///etc/passwd", "", invalid},
	{"gopher://127.0.0.1:6379/_FLUSHALL", "", invalid},
	{"ftp://example.com/", "", invalid},
	{"dict://127.0.0.1:11211/stat", "", invalid},
	{"unix:///run/docker.sock", "", invalid},
	{"data:text/plain,x", "", invalid},
	{"javascript:alert(1)", "", invalid},
	{"//127.0.0.1/", "", invalid},
	{"127.0.0.1", "", invalid},
	{"http:127.0.0.1", "", invalid},
	{"http:///127.0.0.1/", "", invalid},
	{"http://:PORT/", "", invalid},
	{"http://", "", invalid},
	{"", "", invalid},
	{"http://public.example@127.0.0.1:PORT/", "", invalid},
	{"http://127.0.0.1:PORT@public.example/", "", invalid},
	{"http://user:hunter2@public.example/", "", invalid},
	{"http://public.example\\@127.0.0.1:PORT/", "", invalid},
	{"http://127.0.0.1\t:PORT/", "", invalid},
	{"http://127.0.0.1:PORT\r\nHost: x/", "", invalid},
	{"http://127.0.0.1%00.public.example/", "", invalid},
	{"http://public.example:0/", "", invalid},
	{"http://public.example:65536/", "", invalid},
	{"http://[::1/", "", invalid},
	{"http://nowhere.example/", "", missing},
}

func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	require.GreaterOrEqual(t, len(hostile), 60)
	port, reached := secret(t, "127.0.0.1:0")
	for _, h := range hostile {
		address := strings.ReplaceAll(h.url, "PORT", port)
		book := names{}
		if u, err := url.Parse(address); err == nil && h.at != "" {
			book[strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")] = []string{h.at}
			book["localhost"] = []string{h.at} // what the letters in circles become
		}
		_, err := book.client(t).Do(t.Context(), Request{Method: http.MethodPost, URL: address, Body: []byte("{}")})
		assert.Truef(t, fault.HasCode(err, h.code), "%q: %v", address, err)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	assert.Zero(t, reached.Load(), "nobody has connected")
}

// TestANameThatChangesItsAddress: the first address is open and the next is not, at the next call and
// at the next hop of one call.
func TestANameThatChangesItsAddress(t *testing.T) {
	t.Parallel()
	port, reached := secret(t, "127.0.0.2:0")
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hop" {
			w.Header().Set("Location", "/next")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	}))
	var err error
	server.Listener, err = net.Listen("tcp", "127.0.0.1:"+port) // the same port, on the address that plays a public one
	require.NoError(t, err)
	server.Start()
	t.Cleanup(server.Close)

	c := names{"rebind.example": {"127.0.0.1", "127.0.0.2"}}.client(t, "127.0.0.1/32")
	answer, err := c.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://rebind.example:" + port + "/"})
	require.NoError(t, err)
	assert.True(t, answer.OK())
	_, err = c.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://rebind.example:" + port + "/"})
	assert.Truef(t, fault.HasCode(err, refused), "the second call: %v", err)

	c = names{"rebind.example": {"127.0.0.1", "127.0.0.2"}}.client(t, "127.0.0.1/32")
	_, err = c.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://rebind.example:" + port + "/hop"})
	assert.Truef(t, fault.HasCode(err, refused), "the second hop: %v", err)
	assert.Zero(t, reached.Load(), "nobody has connected")

	c = names{"both.example": {"127.0.0.2 127.0.0.1"}}.client(t, "127.0.0.1/32")
	answer, err = c.Do(t.Context(), Request{Method: http.MethodPost, URL: "http://both.example:" + port + "/"})
	require.NoError(t, err, "of two addresses the one that is open serves")
	assert.True(t, answer.OK())
	assert.Zero(t, reached.Load(), "nobody has connected")
}
