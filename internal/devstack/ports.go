//go:build unix

package devstack

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
)

// choosePorts gives each name a free port on 127.0.0.1, the one noted in file when it is
// still free, and notes the choice for the next start.
func choosePorts(file string, names ...string) (map[string]int, error) {
	noted := readPorts(file)
	chosen := map[string]int{}
	for _, name := range names {
		// All listeners stay open until every port is chosen, so that no two are equal.
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(noted[name])))
		if err != nil {
			l, err = net.Listen("tcp4", "127.0.0.1:0")
		}
		if err != nil {
			return nil, err
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
