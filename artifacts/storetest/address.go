package storetest

import (
	"math/rand/v2"
	"net"
	"strconv"
)

// FreeAddress gives an address on 127.0.0.1 where nothing listens, for a server that must be
// told where to listen. Its port lies below those that systems give to outgoing connections,
// so that nobody gets it by chance before the server does.
func FreeAddress() (address string, err error) {
	for range 100 {
		address = net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		var l net.Listener
		if l, err = net.Listen("tcp4", address); err == nil {
			return address, l.Close()
		}
	}
	return "", err
}
