package postgres_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/internal/testdb"
)

// atCommit says what a proxy does when a client sends COMMIT.
type atCommit string

const (
	pass      atCommit = "pass"       // forward it and the answer
	dropFirst atCommit = "drop first" // lose the connection before PostgreSQL has it
	dropAfter atCommit = "drop after" // lose the connection when PostgreSQL has answered
	fatal     atCommit = "fatal"      // answer like a server that shuts down when it has committed
	freeze    atCommit = "freeze"     // lose the client, but PostgreSQL does not notice
)

// proxy stands between pgx and PostgreSQL and loses what it is told to lose.
type proxy struct {
	net.Listener
	t      *testing.T
	server string

	mu    sync.Mutex
	mode  atCommit
	lost  func() // called when PostgreSQL has answered a COMMIT whose connection is then lost
	down  bool
	conns []net.Conn
}

// newProxy gives the proxy, and the address of the test's database behind it.
func newProxy(t *testing.T) (*proxy, string) {
	t.Helper()
	return proxyBefore(t, testdb.URL(t))
}

func proxyBefore(t *testing.T, database string) (*proxy, string) {
	t.Helper()
	address, err := url.Parse(database)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: listener, t: t, server: address.Host, mode: pass, lost: func() {}}
	t.Cleanup(func() {
		_ = p.Close()
		p.dropAll()
	})
	go p.accept()
	address.Host = listener.Addr().String()
	return p, address.String()
}

func (p *proxy) set(mode atCommit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mode = mode
}

// setDown makes the database unreachable, or reachable again.
func (p *proxy) setDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.dropAll()
	}
}

// dropAll loses every connection there is now.
func (p *proxy) dropAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func (p *proxy) accept() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.server)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		if p.down {
			_, _ = client.Close(), server.Close()
		} else {
			p.conns = append(p.conns, client, server)
			go p.serve(client, server)
		}
		p.mu.Unlock()
	}
}

// serve forwards messages until one side ends or a COMMIT is to be lost.
func (p *proxy) serve(client, server net.Conn) {
	answers := &tap{to: client}
	go func() {
		_, _ = io.Copy(answers, server)
		_ = client.Close()
	}()
	for first := true; ; first = false {
		message, err := readMessage(client, first)
		if err != nil {
			_ = server.Close()
			return
		}
		mode := pass
		if !first && message[0] == 'Q' && bytes.Equal(message[5:], []byte("commit\x00")) {
			p.mu.Lock()
			mode = p.mode
			p.mu.Unlock()
		}
		switch mode {
		case dropFirst:
			_, _ = client.Close(), server.Close()
			return
		case freeze:
			_ = client.Close()
			return
		case dropAfter, fatal:
			answered := answers.divert()
			_, _ = server.Write(message)
			<-answered
			p.lost()
			if mode == fatal {
				_, _ = client.Write(errorResponse("FATAL", "57P01", "terminating connection due to administrator command"))
			}
			_, _ = client.Close(), server.Close()
			return
		}
		if _, err := server.Write(message); err != nil {
			_ = client.Close()
			return
		}
	}
}

// readMessage reads one message of a client; the first has no type byte.
func readMessage(from io.Reader, first bool) ([]byte, error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(from, head); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(head[len(head)-4:])-4)
	_, err := io.ReadFull(from, body)
	return append(head, body...), err
}

func errorResponse(severity, code, text string) []byte {
	body := []byte("S" + severity + "\x00V" + severity + "\x00C" + code + "\x00M" + text + "\x00\x00")
	return append(binary.BigEndian.AppendUint32([]byte{'E'}, uint32(len(body)+4)), body...)
}

// tap forwards answers until it is told to swallow them.
type tap struct {
	mu       sync.Mutex
	to       io.Writer
	swallows chan struct{} // closed when an answer was swallowed
	done     bool
}

// divert swallows all answers from here on; the channel is closed at the first.
func (t *tap) divert() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.swallows = make(chan struct{})
	return t.swallows
}

func (t *tap) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.swallows == nil {
		return t.to.Write(p)
	}
	if !t.done {
		t.done = true
		close(t.swallows)
	}
	return len(p), nil
}
