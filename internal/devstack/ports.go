//go:build unix

package devstack

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// The ports to choose from lie below those that systems give to outgoing connections:
// nobody gets one by chance between the choice and its use.
const (
	firstPort = 20000
	lastPort  = 29999
)

func listenAt(port int) (net.Listener, error) {
	if port == 0 {
		return nil, errors.New("no port is noted")
	}
	return net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

// choosePorts gives each name a free port on 127.0.0.1, the one noted in file when it is
// still free, and notes the choice for the next start.
func choosePorts(file string, names ...string) (map[string]int, error) {
	noted := readPorts(file)
	chosen := map[string]int{}
	for _, name := range names {
		// All listeners stay open until every port is chosen, so that no two are equal.
		l, err := listenAt(noted[name])
		for tries := 0; err != nil && tries < 100; tries++ {
			l, err = listenAt(firstPort + rand.IntN(lastPort-firstPort+1))
		}
		if err != nil {
			return nil, fault.New(fault.Unavailable, "no_free_port", "No free port was found from %d to %d on 127.0.0.1. Stop some of what listens there.", firstPort, lastPort).Because(err)
		}
		defer l.Close()
		chosen[name] = l.Addr().(*net.TCPAddr).Port
	}
	maps.Copy(noted, chosen)
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(noted)) {
		fmt.Fprintf(&lines, "%s=%d\n", name, noted[name])
	}
	return chosen, writePrivate(file, lines.String())
}

// readPorts reads name=port lines; what it cannot read counts as not noted.
func readPorts(file string) map[string]int {
	noted := map[string]int{}
	content, _ := os.ReadFile(file)
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if port, err := strconv.Atoi(value); err == nil && port > 0 && port <= 65535 {
			noted[name] = port
		}
	}
	return noted
}
