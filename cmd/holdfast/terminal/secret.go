package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
)

// Secrets reads one secret a line. It remembers what it has read ahead, so that several can
// come by one pipe.
type Secrets struct {
	in  *os.File
	out io.Writer
	buf *bufio.Reader
}

// NewSecrets reads from in. Where that is a terminal it asks on out.
func NewSecrets(in *os.File, out io.Writer) *Secrets {
	return &Secrets{in: in, out: out, buf: bufio.NewReader(in)}
}

// Read gives the next line without its end. Of a terminal it asks the question, and keeps
// it from showing what is typed. The end of the input is an empty secret.
func (s *Secrets) Read(question string) (string, error) {
	if s.Interactive() {
		if err := echo(s.in, false); err != nil {
			return "", fmt.Errorf("the terminal cannot be kept from showing what is typed; give it by a pipe: %w", err)
		}
		defer restoreEcho(s.in, s.out)()
		_, _ = fmt.Fprint(s.out, question)
	}
	line, err := s.buf.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("read from standard input: %w", err)
	}
	return strings.TrimRight(line, "\r\n"), nil
}

// Interactive tells whether somebody sits there.
func (s *Secrets) Interactive() bool { return isTerminal(s.in) }

// restoreEcho gives the function that lets the terminal show again what is typed. An
// interrupt in between does the same, and ends the program.
func restoreEcho(terminal *os.File, out io.Writer) func() {
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	show := func() {
		_ = echo(terminal, true)
		_, _ = fmt.Fprintln(out)
	}
	go func() {
		if _, ok := <-interrupted; ok {
			show()
			os.Exit(130)
		}
	}()
	return func() {
		signal.Stop(interrupted)
		close(interrupted)
		show()
	}
}

func isTerminal(f *os.File) bool {
	test := exec.Command("test", "-t", "0")
	test.Stdin = f
	return test.Run() == nil
}

// echo has stty do it, which knows every system's terminals.
func echo(terminal *os.File, on bool) error {
	mode := "-echo"
	if on {
		mode = "echo"
	}
	stty := exec.Command("stty", mode)
	stty.Stdin = terminal
	return stty.Run()
}
