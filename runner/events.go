package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
)

// events takes the log that clients draw by themselves: an event of tofu's a line, as
// JSON, between lines of plain text, which clients print as they are. It passes whole
// lines on, so that nothing is ever cut inside an event, and leaves out the events that
// a client cannot bear.
type events struct {
	to      *spool
	phase   string
	longest int64 // bytes that a line may have

	mu     sync.Mutex
	line   []byte // begun
	over   int64  // bytes of the line begun, once it is too long to be kept
	failed bool   // tofu has told of an error
}

// Write always takes all, as a spool does.
func (e *events) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for rest := p; len(rest) > 0; {
		piece, after, ended := bytes.Cut(rest, []byte{'\n'})
		rest = after
		e.grow(piece)
		if ended {
			e.pass()
		}
	}
	return len(p), nil
}

func (e *events) grow(piece []byte) {
	if e.over > 0 || int64(len(e.line)+len(piece)) >= e.longest {
		e.over += int64(len(e.line) + len(piece))
		e.line = e.line[:0]
		return
	}
	e.line = append(e.line, piece...)
}

// pass hands the line over and begins the next.
func (e *events) pass() {
	if e.over > 0 {
		fmt.Fprintf(e.to, "[... a line of %d bytes left out ...]\n", e.over)
	} else if e.bearable(e.line) {
		_, _ = e.to.Write(append(e.line, '\n'))
	}
	e.line, e.over = e.line[:0], 0
}

// finishLine ends a line of plain text; the beginning of an event is worth nothing.
func (e *events) finishLine() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.line) > 0 && e.line[0] == '{' {
		e.line = e.line[:0]
	}
	if len(e.line) > 0 || e.over > 0 {
		e.pass()
	}
}

func (e *events) hasFailed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failed
}

// bearable says whether clients live on after this line: they crash at a progress of a
// provisioner without all of its parts, and give up at outputs of an apply without a
// type. It also notes errors.
func (e *events) bearable(line []byte) bool {
	if len(line) == 0 || line[0] != '{' {
		return true
	}
	var event struct {
		Level string `json:"@level"`
		Type  string `json:"type"`
		Hook  struct {
			Provisioner *string `json:"provisioner"`
			Output      *string `json:"output"`
			Resource    struct {
				Addr *string `json:"addr"`
			} `json:"resource"`
		} `json:"hook"`
		Outputs map[string]struct {
			Type json.RawMessage `json:"type"`
		} `json:"outputs"`
	}
	if err := json.Unmarshal(line, &event); err != nil {
		var shape *json.UnmarshalTypeError
		return !errors.As(err, &shape) // what is no JSON is printed; JSON of another shape is no event of tofu's
	}
	switch event.Type {
	case "diagnostic":
		e.failed = e.failed || event.Level == "error"
	case "provision_progress":
		return event.Hook.Provisioner != nil && event.Hook.Output != nil && event.Hook.Resource.Addr != nil
	case "outputs":
		for _, output := range event.Outputs {
			if e.phase == "apply" && len(output.Type) == 0 {
				return false
			}
		}
	}
	return true
}

// pipe is how the events of one command come from tofu: a named pipe, so that they
// arrive while tofu runs and take no room on the disk.
type pipe struct {
	path    string
	reader  *os.File
	writer  *os.File // open while tofu may not have opened the pipe yet: a reader alone sees its end
	drained chan struct{}
}

// openPipe makes the pipe at path and copies what comes through it to w.
func openPipe(path string, w io.Writer) (*pipe, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, fmt.Errorf("make the pipe for tofu's events: %w", err)
	}
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	writer, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		_ = reader.Close()
		return nil, err
	}
	p := &pipe{path: path, reader: reader, writer: writer, drained: make(chan struct{})}
	go func() {
		defer close(p.drained)
		_, _ = io.Copy(w, reader) // w never fails
	}()
	return p, nil
}

// close waits for the last events. A tofu that could not be ended may go on to write:
// then nothing is waited for.
func (p *pipe) close(wait bool) {
	_ = p.writer.Close()
	if wait {
		<-p.drained
	}
	_ = p.reader.Close()
	<-p.drained
	_ = os.Remove(p.path)
}
