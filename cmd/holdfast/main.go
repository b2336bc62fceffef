// Command holdfast is the server, its administration, and the development stack.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/alecthomas/kong"
)

// version and commit are set by the build.
var version, commit = "dev", ""

// build names the code of this program: its commit where the build said it.
func build() string {
	if commit == "" {
		return version
	}
	return commit
}

// cli is the command line. Each command is a struct with a Run method.
type cli struct {
	Dev     devCommands `embed:""`
	Server  serverCmd   `cmd:"" help:"Serve clients and runners. Its environment is described in docs/configuration.md."`
	Admin   adminCmd    `cmd:"" help:"Administration."`
	Version versionCmd  `cmd:"" help:"Print the version."`
}

// exit is an error that says which code to exit with; without a cause nothing is printed.
type exit struct {
	code  int
	cause error
}

func (e exit) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.cause.Error()
}

func (e exit) Unwrap() error { return e.cause }

func main() {
	os.Exit(run(os.Args[1:]))
}

func run(args []string) int {
	parser, err := kong.New(&cli{},
		kong.Name("holdfast"),
		kong.Description("A Terraform-Cloud-compatible server for OpenTofu."),
		kong.UsageOnError(),
		kong.BindTo(context.Background(), (*context.Context)(nil)),
	)
	if err != nil {
		panic(err) // the structs above are wrong
	}
	command, err := parser.Parse(args)
	parser.FatalIfErrorf(err)
	err = command.Run()
	var code exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		if code.cause != nil {
			fmt.Fprintln(os.Stderr, "holdfast:", code.cause)
		}
		return code.code
	default:
		fmt.Fprintln(os.Stderr, "holdfast:", err)
		return 1
	}
}

type versionCmd struct{}

// Run prints the version.
func (versionCmd) Run() error {
	_, err := fmt.Println("holdfast", version)
	return err
}
