//go:build unix

package devstack

import (
	"net"
	"strconv"

	"github.com/holdfast-run/holdfast/fault"
)

const defaultListen = "localhost:8443"

// address is where the server listens and what clients call it.
type address struct {
	bind   string // the host to listen on: an IP address or a name
	public string // the host in URLs and in the certificate
	port   int    // 0 until one is chosen
}

// parseListen reads host:port. Loopback goes by the name localhost; every other host needs
// allowRemote, because whoever reaches this server can run programs through it.
func parseListen(listen string, allowRemote bool) (address, error) {
	host, portText, err := net.SplitHostPort(listen)
	port, portErr := strconv.Atoi(portText)
	if err != nil || portErr != nil || port < 0 || port > 65535 {
		return address{}, fault.New(fault.Invalid, "listen_address",
			"The listen address %q cannot be read. Give HOST:PORT, such as %s.", listen, defaultListen)
	}
	ip := net.ParseIP(host)
	switch {
	case host == "localhost":
		return address{bind: "127.0.0.1", public: "localhost", port: port}, nil
	case ip != nil && ip.IsLoopback():
		return address{bind: host, public: "localhost", port: port}, nil
	case !allowRemote:
		return address{}, fault.New(fault.Invalid, "listen_address",
			"The listen address %q can be reached by other machines. Use localhost, or add --allow-remote if that is what you want.", listen)
	case host == "" || ip.IsUnspecified():
		return address{bind: host, public: "localhost", port: port}, nil
	default:
		return address{bind: host, public: host, port: port}, nil
	}
}

func (a address) hostPort() string { return net.JoinHostPort(a.public, strconv.Itoa(a.port)) }
func (a address) url() string      { return "https://" + a.hostPort() }
func (a address) listen() string   { return net.JoinHostPort(a.bind, strconv.Itoa(a.port)) }

// dial is where the supervisor itself reaches the server, whatever names resolve to.
func (a address) dial() string {
	if ip := net.ParseIP(a.bind); a.bind == "" || ip.IsUnspecified() {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.port))
	}
	return a.listen()
}
