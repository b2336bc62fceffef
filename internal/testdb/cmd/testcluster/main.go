// Command testcluster runs a command with one PostgreSQL server for all test processes
// under it, and exits with the command's code:
//
//	testcluster -- go test ./...
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/holdfast-run/holdfast/internal/testdb"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testcluster:", err)
	}
	os.Exit(code)
}

func run(args []string) (int, error) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2, errors.New("usage: testcluster -- COMMAND ARGS…")
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	const variable = "HOLDFAST_TEST_DATABASE_URL"
	if os.Getenv(variable) == "" {
		address, stop, err := testdb.StartServer(context.Background())
		if err != nil {
			return 1, err
		}
		defer stop()
		if err := os.Setenv(variable, address); err != nil {
			return 1, err
		}
	}

	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 127, err
	}
	go func() {
		for sig := range signals {
			if sig != os.Interrupt { // which the terminal has sent to the command as well
				_ = cmd.Process.Signal(sig)
			}
		}
	}()
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}
