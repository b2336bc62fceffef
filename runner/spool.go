package runner

import (
	"bytes"
	"fmt"
	"os"
	"sync"
)

const (
	markerRoom      = 64       // bytes kept free in the log for the marker between head and tail
	defaultLogLimit = 10 << 20 // bytes, where the manifest names no limit
)

// spool is the log of an attempt on its way to the server. The first eight tenths
// of the limit go to a file, from which they are shipped while tofu runs. What comes
// after goes through a window of the last two tenths, which is shipped at the end,
// behind a marker if bytes fell out of it. So neither disk nor memory grows with the log.
type spool struct {
	mu     sync.Mutex
	file   *os.File
	cuts   cuts
	head   int64  // bytes in the file
	limit  int64  // of the head; it shrinks to what was written when the file cannot be written
	window []byte // the end of the log, as a ring
	past   int64  // bytes that were put into the window
	ending []byte // what follows the head, once closed
	closed bool
	lossy  bool          // something of the log is not in what was shipped of it
	grown  chan struct{} // has one element when there may be something new
}

// cuts says where a log may be cut when it gets too long.
type cuts bool

const (
	anyBytes   cuts = false
	wholeLines cuts = true // each Write brings whole lines
)

func newSpool(path string, limit int64, where cuts) (*spool, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if limit <= 0 {
		limit = defaultLogLimit
	}
	head := limit / 10 * 8
	return &spool{file: file, cuts: where, limit: head, window: make([]byte, max(limit-head, 2*markerRoom)), grown: make(chan struct{}, 1)}, nil
}

// Write takes a piece of the log. It always takes all: an error would make the
// reader of tofu's output stop, and tofu with it.
func (s *spool) Write(p []byte) (int, error) {
	// STX and ETX delimit the log on its way to the client.
	text := bytes.Clone(p)
	for i, b := range text {
		if b == 0x02 || b == 0x03 {
			text[i] = ' '
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return len(p), nil
	}
	if s.cuts == wholeLines && s.head+int64(len(text)) > s.limit {
		s.limit = s.head // the head ends before the line that does not fit
	}
	if room := s.limit - s.head; room > 0 && s.past == 0 {
		n, err := s.file.WriteAt(text[:min(int64(len(text)), room)], s.head)
		s.head += int64(n)
		text = text[n:]
		if err != nil {
			s.limit = s.head
		}
	}
	for len(text) > 0 {
		at := int(s.past % int64(len(s.window)))
		n := copy(s.window[at:], text)
		s.past += int64(n)
		text = text[n:]
	}
	s.wake()
	return len(p), nil
}

// Printf adds a line of the runner's own.
func (s *spool) Printf(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// close ends the log: what is still in the window is laid behind the head.
func (s *spool) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	size := int64(len(s.window))
	at := s.past % size
	if s.past <= size {
		s.ending = s.window[:s.past]
	} else {
		tail := append(append(make([]byte, 0, size), s.window[at:]...), s.window[:at]...)
		s.lossy = true
		tail = tail[markerRoom:] // head, marker and tail together stay in the limit
		if s.cuts == wholeLines {
			tail = tail[bytes.IndexByte(tail, '\n')+1:]
		}
		s.ending = append(fmt.Appendf(nil, "\n[... %d bytes left out ...]\n", s.past-int64(len(tail))), tail...)
	}
	s.wake()
}

func (s *spool) wake() {
	select {
	case s.grown <- struct{}{}:
	default:
	}
}

// read gives bytes of the log from offset on, as far as they are ready to be
// shipped, and whether the log ends after them.
func (s *spool) read(offset int64, buf []byte) (n int, last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case offset < s.head:
		n = int(min(int64(len(buf)), s.head-offset))
		if _, err := s.file.ReadAt(buf[:n], offset); err != nil {
			// The bytes are lost, their place is not: offsets must go on.
			s.lossy = true
			copy(buf[:n], bytes.Repeat([]byte("?"), n))
		}
	case s.closed && offset < s.size():
		n = copy(buf, s.ending[offset-s.head:])
	}
	return n, s.closed && offset+int64(n) >= s.size()
}

// tailSize is how many bytes of the end are kept when the log gets too long.
func (s *spool) tailSize() int64 { return int64(len(s.window)) - markerRoom }

// size is the length of the log as shipped; it is final once the spool is closed.
func (s *spool) size() int64 { return s.head + int64(len(s.ending)) }

// truncated tells whether something of the log is left out in what is shipped of it; it is
// final once all has been shipped.
func (s *spool) truncated() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lossy
}

func (s *spool) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}
