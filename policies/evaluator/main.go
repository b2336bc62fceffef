package evaluator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"
)

// Command is the argument that makes a program of this module a policy-runner.
const Command = "policy-runner"

// ExitRefused is how a policy-runner ends that was given no request, or no plan; its error
// output says why.
const ExitRefused = 3

// OutOfMemory tells whether a policy-runner that ended otherwise met its limit of memory, by what
// Go's runtime says at the end: it cannot get memory for the heap, for itself or for a thread.
func OutOfMemory(said string) bool {
	for _, sign := range []string{"out of memory", "cannot allocate memory", "failed to create new OS thread", "cannot allocate heap metadata"} {
		if strings.Contains(said, sign) {
			return true
		}
	}
	return false
}

// maxRequest bounds the first line, which holds a whole bundle.
const maxRequest = 32 << 20

// Main is the program: one request from in, one answer to out, and the exit code.
func Main(in io.Reader, out, errs io.Writer) int {
	if err := serve(in, out); err != nil {
		fmt.Fprintln(errs, err)
		return ExitRefused
	}
	return 0
}

func serve(in io.Reader, out io.Writer) error {
	reader := bufio.NewReaderSize(in, 1<<16)
	line, err := readLine(reader)
	if err != nil {
		return err
	}
	var r Request
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if r.Limits.Memory > 0 {
		debug.SetMemoryLimit(r.Limits.Memory / 4 * 3) // collect harder before the hard limit is met
	}
	if err := confine(r.Limits); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), r.Limits.Time)
	defer cancel()
	switch r.Mode {
	case Derive:
		return derive(reader, out, r.Run, r.Known)
	case Publish:
		return json.NewEncoder(out).Encode(publish(ctx, r.bundle(), r.Limits))
	case Evaluate:
		outcomes, err := evaluate(ctx, r.bundle(), r.Parameters, reader, r.Limits)
		if err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(outcomes)
	}
	return fmt.Errorf("there is no mode %q", r.Mode)
}

func (r Request) bundle() Bundle {
	if r.Bundle == nil {
		return Bundle{}
	}
	return *r.Bundle
}

func readLine(reader *bufio.Reader) ([]byte, error) {
	var line bytes.Buffer
	for {
		part, err := reader.ReadSlice('\n')
		line.Write(part)
		switch {
		case err == nil:
			return line.Bytes(), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, fmt.Errorf("read the request: %w", err)
		case line.Len() > maxRequest:
			return nil, errors.New("the request is too long")
		}
	}
}
