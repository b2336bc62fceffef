//go:build !nodev

package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/holdfast-run/holdfast/internal/devstack"
)

// devCommands are left out of a build with the tag nodev, such as the server image.
type devCommands struct {
	Dev   devCmd   `cmd:"" help:"Run everything one user needs, in one folder: PostgreSQL, an S3 endpoint, the server and a runner."`
	DevS3 devS3Cmd `cmd:"" name:"dev-s3" hidden:"" help:"The S3 endpoint of the dev command."`
}

type devCmd struct {
	Data           string   `type:"path" placeholder:"DIR" help:"Data folder. Default: ./.holdfast, or with COMMAND a temporary folder."`
	Listen         string   `placeholder:"ADDR" help:"Listen address. Default: localhost:8443, or with COMMAND a free port."`
	ProviderMirror string   `type:"path" placeholder:"DIR" help:"Folder of providers that tofu installs from."`
	NetworkMirror  string   `placeholder:"URL" help:"Network mirror that providers come from in place of their registries, such as https://mirror.example.com/providers/."`
	AllowRemote    bool     `help:"Permit a listen address that other machines can reach."`
	Command        []string `arg:"" optional:"" passthrough:"partial" help:"Command to run inside, given after --. Everything stops when it ends, and its exit code is returned."`
}

// Run starts the stack and stays until the command or a signal ends it.
func (c devCmd) Run(ctx context.Context) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	opts := devstack.Options{
		Dir: c.Data, Listen: c.Listen, AllowRemote: c.AllowRemote, ProviderMirror: c.ProviderMirror, NetworkMirror: c.NetworkMirror, Command: command,
		Executable: executable, Environ: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Bootstrap: devBootstrap, RunnerConnected: devRunnerConnected,
	}
	if cache, err := os.UserCacheDir(); err == nil {
		opts.PostgresDirs = []string{filepath.Join(cache, "holdfast", "postgres", "*", "bin")}
	}
	code, err := devstack.Run(ctx, opts)
	if code == 0 && err == nil {
		return nil
	}
	return exit{code: code, cause: err}
}
