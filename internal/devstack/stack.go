//go:build unix

package devstack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/pgcluster"
)

const (
	startWithin  = 2 * time.Minute  // a first start on a busy machine, initdb included
	runnerGrace  = 30 * time.Second // an idle runner ends at once; a busy one puts its run in order
	runnerInsist = 10 * time.Second // a run that takes longer is interrupted
	serverGrace  = 10 * time.Second
	s3Grace      = 5 * time.Second
	silentStop   = 2 * time.Second // a stop that takes longer is explained
	startTries   = 3               // where ports are taken
)

// stack is the four services.
type stack struct {
	opts    Options
	facts   facts
	runner  string // path of the holdfast-runner binary
	ports   map[string]int
	say     func(format string, args ...any)
	running []*service // in the order of their start
}

// upOnFreePorts starts everything. Where somebody took a chosen port before its service did,
// it does so once more on other ports. After an error, down still has to be called.
func (s *stack) upOnFreePorts(ctx context.Context) error {
	for tries := 1; ; tries++ {
		err := s.up(ctx)
		if err == nil || ctx.Err() != nil || tries == startTries {
			return err
		}
		s.down(hurried())
		if !s.portTaken() {
			return err
		}
		s.say("Another program has taken a port that was free. Starting again with other ports.")
		if err := s.chooseAddresses(); err != nil {
			return err
		}
	}
}

// portTaken tells whether somebody else listens on one of the ports; nothing of the stack runs.
func (s *stack) portTaken() bool {
	for _, port := range s.ports {
		l, err := listenAt(port)
		if err != nil {
			return true
		}
		_ = l.Close()
	}
	return false
}

// up starts everything. After an error, down still has to be called.
func (s *stack) up(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	postgres, s3 := s.postgres(), s.objectStore()
	var group errgroup.Group
	for _, svc := range []*service{postgres, s3} {
		s.running = append(s.running, svc)
		group.Go(func() error { return s.bring(ctx, svc) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := s.bootstrap(ctx); err != nil {
		return err
	}
	for _, svc := range []*service{s.server(), s.localRunner()} {
		s.running = append(s.running, svc)
		if err := s.bring(ctx, svc); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) bring(ctx context.Context, svc *service) error {
	began := clock.Now()
	if err := svc.run(ctx); err != nil {
		return err
	}
	s.say("  %-9s ready (%.1f s)", svc.name, clock.Since(began).Seconds())
	return nil
}

// down stops the services, the last started first: each may use those before it to the end.
func (s *stack) down(hurry context.Context) {
	for i := len(s.running) - 1; i >= 0; i-- {
		svc := s.running[i]
		note := time.AfterFunc(silentStop, func() {
			s.say("Waiting for %s to end, up to %s. Interrupt again to stop at once.", svc.name, runnerGrace)
		})
		svc.stop(hurry)
		note.Stop()
	}
	s.running = nil
}

// bootstrap brings database and tokens into shape, then writes what speaks of them.
func (s *stack) bootstrap(ctx context.Context) error {
	l := s.facts.layout
	stored, err := readCredentials(l)
	if err != nil {
		return err
	}
	credentials, err := s.opts.Bootstrap(ctx, s.facts.server(), stored)
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	s.facts.credentials = credentials
	for file, content := range map[string]string{
		l.adminToken():    credentials.UserToken + "\n",
		l.adminPassword(): credentials.AdminPassword + "\n",
		l.adminTOTP():     credentials.AdminTOTP + "\n",
		l.runnerToken():   credentials.RunnerToken + "\n",
		l.cliConfig():     cliConfig(s.facts),
		l.env():           envFile(s.facts),
	} {
		if err := writePrivate(file, content); err != nil {
			return err
		}
	}
	return nil
}

func readCredentials(l layout) (c Credentials, err error) {
	for path, secret := range map[string]*string{
		l.adminToken(): &c.UserToken, l.adminPassword(): &c.AdminPassword, l.adminTOTP(): &c.AdminTOTP, l.runnerToken(): &c.RunnerToken,
	} {
		if *secret, err = readTrimmed(path); err != nil {
			return Credentials{}, err
		}
	}
	return c, nil
}

func (s *stack) service(name string, start func(context.Context) (process, error), ready func(context.Context) error) *service {
	return &service{name: name, start: start, ready: ready, layout: s.facts.layout, say: s.say}
}

func (s *stack) clusterOptions() pgcluster.Options {
	return pgcluster.Options{
		Dir: s.facts.layout.postgres(), MoreBinDirs: s.opts.PostgresDirs, Port: s.ports["postgres"],
		Durable: true, Databases: []string{database}, Buffers: buffers(memory()), LogFile: s.facts.layout.log("postgres"),
	}
}

// cluster is the service postgres.
type cluster struct{ *pgcluster.Cluster }

// Stop needs no hurry: a fast shutdown waits for nobody.
func (c cluster) Stop(context.Context) { c.Cluster.Stop() }

func (s *stack) postgres() *service {
	if _, err := os.Stat(s.facts.layout.path("postgres", "data")); err != nil {
		s.say("  Making a database. This is done once and takes a few seconds.")
	}
	return s.service("postgres", func(ctx context.Context) (process, error) {
		c, err := pgcluster.Start(ctx, s.clusterOptions())
		if err != nil {
			return nil, err
		}
		if s.facts.databaseURL == "" { // it stays the same at every start: port and password are kept
			s.facts.databaseURL = c.URL(database)
		}
		return cluster{c}, nil
	}, nil)
}

func (s *stack) objectStore() *service {
	l, listen := s.facts.layout, net.JoinHostPort("127.0.0.1", fmt.Sprint(s.ports["s3"]))
	environ := serviceEnviron(l, inherited(s.opts.Environ, func(string) bool { return false }), map[string]string{
		"HOLDFAST_S3_ACCESS_KEY_ID":     s.facts.s3.id,
		"HOLDFAST_S3_SECRET_ACCESS_KEY": s.facts.s3.secret,
	})
	return s.service("s3", func(context.Context) (process, error) {
		return startProgram(l, "s3", s3Grace, environ,
			s.opts.Executable, "dev-s3", "--dir", l.s3(), "--listen", listen, "--bucket", bucket)
	}, healthy(&http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}, "http://"+listen+"/healthz"))
}

func (s *stack) server() *service {
	l := s.facts.layout
	environ := serviceEnviron(l, inherited(s.opts.Environ, forServer), s.facts.server())
	return s.service("server", func(context.Context) (process, error) {
		return startProgram(l, "server", serverGrace, environ, s.opts.Executable, "server")
	}, healthy(s.tlsClient(), s.facts.address.url()+"/readyz"))
}

func (s *stack) localRunner() *service {
	l := s.facts.layout
	environ := serviceEnviron(l, inherited(s.opts.Environ, forRunner), s.facts.runner())
	return s.service("runner", func(context.Context) (process, error) {
		p, err := startProgram(l, "runner", runnerGrace, environ, s.runner)
		return runnerProgram{p}, err
	}, func(ctx context.Context) error { return s.opts.RunnerConnected(ctx, s.facts.server()) })
}

// tlsClient trusts the dev CA alone and reaches the server without asking for names.
func (s *stack) tlsClient() *http.Client {
	pool := x509.NewCertPool()
	if ca, err := os.ReadFile(s.facts.layout.tls("ca.pem")); err == nil {
		pool.AppendCertsFromPEM(ca) // without it every probe fails, and says why
	}
	return &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", s.facts.address.dial())
		},
	}}
}

// healthy asks an address for its health: anything but 200 is "not yet".
func healthy(client *http.Client, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fault.New(fault.Unavailable, "not_ready", "%s answers %s", address, response.Status)
		}
		return nil
	}
}
