//go:build unix

package devstack

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/dirlock"
)

// Credentials are what the bootstrap hands out. All of them are secrets.
type Credentials struct {
	UserToken     string // the site admin's, for clients
	AdminPassword string // the site admin's, for the web pages
	AdminTOTP     string // the secret of its second factor, in base32
	RunnerToken   string // the local runner group's
}

// Bootstrap brings the database at env["HOLDFAST_DATABASE_URL"] to the present schema and
// makes the admin, the organization demo and its runner group where they are missing. It is
// called at every start with those stored by the one before (empty at first) and
// returns those when they are still good. env is the server's own environment.
type Bootstrap func(ctx context.Context, env map[string]string, stored Credentials) (Credentials, error)

// RunnerConnected is nil once the server knows of a runner. A run that is made before has
// nobody to execute it and fails at once. env is the server's own environment.
type RunnerConnected func(ctx context.Context, env map[string]string) error

// Options say what to run and where.
type Options struct {
	Dir            string   // the data folder; empty: ./.holdfast, or with a Command a temporary folder
	Listen         string   // host:port; empty: localhost:8443, or with a Command a free port on localhost
	AllowRemote    bool     // permits a listen address that is not loopback
	ProviderMirror string   // folder of providers for runner and command; empty: none
	NetworkMirror  string   // https address that both ask in place of the registries; empty: none
	Command        []string // runs inside the stack, which ends with it; empty: serve until a signal

	Executable   string   // the holdfast binary; holdfast-runner and tofu are looked for beside it first
	PostgresDirs []string // glob patterns of further folders with PostgreSQL programs
	Environ      []string // the caller's environment

	Stdin, Stdout, Stderr *os.File // the command's; progress goes to Stderr
	Bootstrap             Bootstrap
	RunnerConnected       RunnerConnected
}

// Run starts the stack, runs the command or serves until SIGINT, SIGTERM or SIGHUP, stops
// everything and gives the exit code: the command's own, or 128+n when signal n ended the
// command or arrived while the stack was starting. While it stops, a further signal cuts all
// waiting short. An error comes with the exit code to use.
func Run(ctx context.Context, opts Options) (code int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	say := func(format string, args ...any) { fmt.Fprintf(opts.Stderr, format+"\n", args...) }

	began := clock.Now()
	l, remove, err := dataFolder(opts)
	if err != nil {
		return 1, err
	}
	defer remove()
	lock, err := dirlock.Acquire(l.dir)
	if err != nil {
		return 1, err
	}
	defer lock.Release()
	say("Holdfast starts in %s", l.dir)
	if err := writePrivate(l.pid("supervisor"), strconv.Itoa(os.Getpid())+"\n"); err != nil {
		return 1, err
	}
	defer func() { _ = os.Remove(l.pid("supervisor")) }()
	s, err := prepare(opts, l, say)
	if err != nil {
		return 1, err
	}
	var command string
	if len(opts.Command) > 0 {
		if command, err = lookPath(opts.Command[0], commandEnviron(opts.Environ, s.facts)); err != nil {
			return notFound, err
		}
	}

	startCtx, watched := untilSignal(ctx, signals)
	err = s.upOnFreePorts(startCtx)
	interrupted := watched()
	defer func() {
		hurry, watched := untilSignal(context.WithoutCancel(ctx), signals)
		s.down(hurry)
		watched()
	}()
	if interrupted != nil {
		return exitOf(interrupted), nil
	}
	if err != nil {
		return 1, err
	}

	if command != "" {
		return runCommand(command, opts, commandEnviron(opts.Environ, s.facts), signals, inForeground())
	}
	say("Ready after %.1f s.\n\n%s", clock.Since(began).Seconds(), nextSteps(s.facts))
	select {
	case sig := <-signals:
		say("Stopping (%s).", sig)
	case <-ctx.Done():
	}
	return 0, nil
}

// dataFolder makes the data folder; remove deletes it when it was a temporary one.
func dataFolder(opts Options) (l layout, remove func(), err error) {
	dir, remove := opts.Dir, func() {}
	switch {
	case dir == "" && len(opts.Command) == 0:
		dir = ".holdfast"
	case dir == "":
		if dir, err = os.MkdirTemp("", "holdfast-dev-"); err != nil {
			return layout{}, nil, err
		}
		temporary := dir
		remove = func() { _ = os.RemoveAll(temporary) }
	}
	dir, err = filepath.Abs(dir)
	if err == nil {
		err = layout{dir}.makeFolders()
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		remove()
		return layout{}, nil, fault.New(fault.Unavailable, "data_folder", "The data folder %s cannot be used.", dir).Because(err)
	}
	return layout{dir}, remove, nil
}

// prepare does what needs no process: programs, addresses, certificates, keys.
func prepare(opts Options, l layout, say func(string, ...any)) (*stack, error) {
	s := &stack{opts: opts, say: say}
	s.facts = facts{layout: l, binDir: filepath.Dir(opts.Executable)}
	var err error
	if s.runner, err = beside(opts.Executable, "holdfast-runner", "Run `make build`."); err != nil {
		return nil, err
	}
	if s.facts.tofu, err = beside(opts.Executable, "tofu", "Run `make tofu`, or install OpenTofu."); err != nil {
		return nil, err
	}
	if opts.ProviderMirror != "" {
		if s.facts.mirror, err = filepath.Abs(opts.ProviderMirror); err != nil {
			return nil, err
		}
		if info, err := os.Stat(s.facts.mirror); err != nil || !info.IsDir() {
			return nil, fault.New(fault.Invalid, "provider_mirror", "The provider mirror %s is no folder.", s.facts.mirror)
		}
	}
	if s.facts.network, err = networkMirror(opts.NetworkMirror); err != nil {
		return nil, err
	}
	awaitLeftovers(l, say)
	if err := s.chooseAddresses(); err != nil {
		return nil, err
	}
	if err := ensureCertificates(l, s.facts.address.public, lookup(opts.Environ, "SSL_CERT_FILE")); err != nil {
		return nil, err
	}
	if err := envelope.CreateKeyring(l.keyring()); err != nil {
		return nil, err
	}
	s.facts.s3, err = ensureS3Credentials(l)
	return s, err
}

// chooseAddresses fixes all ports for the life of this supervisor.
func (s *stack) chooseAddresses() error {
	listen, names := s.opts.Listen, []string{"postgres", "s3", "metrics"}
	switch {
	case listen == "" && len(s.opts.Command) == 0:
		listen = defaultListen
	case listen == "":
		listen = "localhost:0"
	}
	address, err := parseListen(listen, s.opts.AllowRemote)
	if err != nil {
		return err
	}
	if address.port == 0 {
		names = append(names, "server")
	} else if l, err := net.Listen("tcp", address.listen()); err != nil {
		return fault.New(fault.Unavailable, "listen_address",
			"Holdfast cannot listen on %s. Stop what listens there, or give another address with --listen.", listen).Because(err)
	} else {
		_ = l.Close()
	}
	if s.ports, err = choosePorts(s.facts.layout.ports(), names...); err != nil {
		return err
	}
	if address.port == 0 {
		address.port = s.ports["server"]
	}
	s.facts.address, s.facts.databaseURL = address, ""
	s.facts.metricsListen = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports["metrics"]))
	s.facts.s3Endpoint = "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.ports["s3"]))
	return nil
}

// beside finds a program next to the holdfast binary, else on PATH.
func beside(executable, name, remedy string) (string, error) {
	path := filepath.Join(filepath.Dir(executable), name)
	if isProgram(path) {
		return path, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fault.New(fault.Unavailable, "program_missing",
			"The program %s is neither beside %s nor on PATH. %s", name, executable, remedy)
	}
	return filepath.Abs(path)
}

func lookup(environ []string, name string) string {
	for _, entry := range environ {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// untilSignal gives a context that a signal ends. watched stops listening, so that later
// signals go elsewhere, and gives the signal that came, or nil.
func untilSignal(parent context.Context, signals <-chan os.Signal) (ctx context.Context, watched func() os.Signal) {
	ctx, cancel := context.WithCancel(parent)
	done := make(chan struct{})
	var came os.Signal
	var listening sync.WaitGroup
	listening.Go(func() {
		select {
		case came = <-signals:
			cancel()
		case <-done:
		}
	})
	return ctx, func() os.Signal {
		close(done)
		listening.Wait()
		cancel()
		return came
	}
}

func exitOf(sig os.Signal) int {
	number, _ := sig.(syscall.Signal)
	return 128 + int(number)
}

// nextSteps tells a newcomer what to do now.
func nextSteps(f facts) string {
	return fmt.Sprintf(`Holdfast is at %s

  In a shell:      . %s
                   (sets the organization, the token and the CA, and puts tofu on PATH)
  In your *.tf:    terraform {
                     cloud {
                       workspaces { name = "first" }
                     }
                   }
  Then:            tofu init && tofu apply

  Without that shell, name the host in the cloud block: hostname = %q, organization = "demo",
  and let your system trust %s.
  Admin token:     %s   (client credentials: %s)
  Web pages:       %s/app/settings/tokens   (user admin, password in %s)
  Logs:            %s
  Stop:            Ctrl-C
`, f.address.url(), shellQuote(f.layout.env()), f.address.hostPort(), f.layout.tls("ca.pem"),
		f.layout.adminToken(), f.layout.cliConfig(), f.address.url(), f.layout.adminPassword(), f.layout.path("logs"))
}
