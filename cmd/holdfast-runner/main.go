package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/holdfast-run/holdfast/runner"
)

// version is set by the build.
var version = "dev"

// cli is the command line; each flag is also an environment variable.
type cli struct {
	Address        string   `env:"HOLDFAST_ADDRESS" required:"" help:"Address of the server, such as https://holdfast.example.com."`
	TokenFile      string   `env:"HOLDFAST_RUNNER_TOKEN_FILE" required:"" type:"existingfile" help:"File with the runner group's token."`
	Dir            string   `env:"HOLDFAST_RUNNER_DIR" required:"" type:"path" help:"Folder of this runner alone; attempts are executed below it."`
	Tofu           string   `env:"HOLDFAST_TOFU" required:"" type:"existingfile" help:"The tofu binary."`
	ProviderMirror string   `env:"HOLDFAST_PROVIDER_MIRROR" type:"existingdir" help:"Folder with providers (filesystem mirror) to look into before the registries."`
	NetworkMirror  string   `env:"HOLDFAST_NETWORK_MIRROR" placeholder:"URL" help:"Network mirror that providers come from in place of the registries, such as https://mirror.example.com/providers/."`
	Name           string   `env:"HOLDFAST_RUNNER_NAME" help:"Name of the runner; the host's name if not given."`
	Labels         []string `env:"HOLDFAST_RUNNER_LABELS" placeholder:"LABEL,…" help:"Labels of this runner beside those of its group, such as region=eu,gpu. Runs with a runner selector need them."`
	CAFile         string   `env:"SSL_CERT_FILE" name:"ca-file" type:"existingfile" help:"Certificates to trust instead of the system's, for the runner and for tofu."`
	Isolation      string   `env:"HOLDFAST_RUNNER_ISOLATION" enum:"auto,bubblewrap,external,none" default:"auto" help:"How attempts are kept from this machine and from one another: bubblewrap; external (whoever starts the runner isolates it, as a container for each organization does); none (such a runner serves one organization only); or auto (bubblewrap where it works, else none)."`
	Visible        []string `env:"HOLDFAST_RUNNER_VISIBLE" sep:":" help:"Further files and folders that isolated attempts may read, separated by colons."`
	Memory         int64    `env:"HOLDFAST_RUNNER_MEMORY" default:"8192" help:"MiB of memory that an isolated attempt may use; 0 is no limit."`
	Disk           int64    `env:"HOLDFAST_RUNNER_DISK" default:"16384" help:"MiB that an isolated attempt may write; 0 is no limit."`
	Processes      int      `env:"HOLDFAST_RUNNER_PROCESSES" default:"1024" help:"Processes that an isolated attempt may have; 0 is no limit."`
	ProviderCache  bool     `env:"HOLDFAST_RUNNER_PROVIDER_CACHE" default:"true" negatable:"" help:"Keep the packages of providers for later attempts of the same organization. Only where attempts are isolated with bubblewrap."`
	CostCommand    string   `env:"HOLDFAST_RUNNER_COST_COMMAND" placeholder:"COMMAND" help:"Shell command that prints Infracost's JSON for the plan in $PLAN_JSON, such as: infracost breakdown --path \"$PLAN_JSON\" --format json. It runs outside of the isolation of attempts."`
	AllowMetadata  bool     `env:"HOLDFAST_RUNNER_ALLOW_METADATA" help:"Work although every run can reach the metadata service of this machine's cloud, and so its credentials."`

	Version kong.VersionFlag `help:"Print the version."`
}

func main() {
	if runner.Enclosed() {
		return
	}
	var args cli
	kong.Parse(
		&args,
		kong.Name("holdfast-runner"),
		kong.Description("Executes the runs of a Holdfast server with tofu. The first SIGTERM ends it after the run at hand, the second interrupts tofu."),
		kong.Vars{"version": "holdfast-runner " + version},
	)
	if err := run(args); err != nil {
		fmt.Fprintln(os.Stderr, "holdfast-runner:", err)
		os.Exit(1)
	}
}

func run(args cli) error {
	token, err := os.ReadFile(args.TokenFile)
	if err != nil {
		return err
	}
	name := args.Name
	if name == "" {
		if name, err = os.Hostname(); err != nil {
			return err
		}
	}
	ctx, interrupt := onSignals()
	return runner.Run(ctx, runner.Config{
		Address: args.Address, Token: strings.TrimSpace(string(token)), Dir: args.Dir, TofuPath: args.Tofu,
		ProviderMirror: args.ProviderMirror, NetworkMirror: args.NetworkMirror, Name: name, Version: version, CAFile: args.CAFile, Labels: args.Labels, Interrupt: interrupt,
		Isolation: args.Isolation, Visible: args.Visible, NoCache: !args.ProviderCache, AllowMetadata: args.AllowMetadata, CostCommand: args.CostCommand,
		Limits: runner.Limits{Memory: args.Memory << 20, Disk: args.Disk << 20, Processes: args.Processes},
	})
}

// onSignals gives a context that the first signal ends, and a channel that the second closes.
func onSignals() (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(context.Background())
	interrupt := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		slog.Info("ending after the attempt at hand; a second signal interrupts it")
		cancel()
		<-signals
		close(interrupt)
	}()
	return ctx, interrupt
}
