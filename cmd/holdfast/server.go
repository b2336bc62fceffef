package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/config"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/metrics"
	"github.com/holdfast-run/holdfast/migrations"
	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/registry"
	"github.com/holdfast-run/holdfast/runnerapi"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/runtasks"
	"github.com/holdfast-run/holdfast/scim"
	"github.com/holdfast-run/holdfast/scimapi"
	"github.com/holdfast-run/holdfast/site"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/tfeapi"
	"github.com/holdfast-run/holdfast/throttle"
	"github.com/holdfast-run/holdfast/vcs"
	"github.com/holdfast-run/holdfast/web"
	"github.com/holdfast-run/holdfast/workspaces"
)

// services are the domain, wired once for every command.
type services struct {
	db         *postgres.DB
	store      *artifacts.S3
	objects    *artifacts.Service
	accounts   *accounts.Service
	workspaces *workspaces.Service
	state      *state.Service
	dispatch   *dispatch.Service
	runs       *runs.Service
	gates      *gates.Service
	scim       *scim.Service
	policies   *policies.Service
	registry   *registry.Service
	recovery   *recovery.Service
	links      *envelope.Links
	identity   *site.Identity
	site       *site.Service

	notifications *notifications.Service // of a server, like the next
	runTasks      *runtasks.Service
}

// open connects to everything that cfg names. The caller closes the database.
func open(ctx context.Context, cfg config.Storage, limits config.Limits) (*services, error) {
	ring, err := envelope.OpenKeyring(cfg.Keyring)
	if err != nil {
		return nil, err
	}
	links, err := envelope.NewLinks(ctx, ring)
	if err != nil {
		return nil, err
	}
	store, err := artifacts.NewS3(cfg.S3)
	if err != nil {
		return nil, err
	}
	db, err := postgres.Open(ctx, cfg.DatabaseURL)
	if err != nil {
		return nil, err
	}
	s := &services{db: db, store: store, links: links}
	s.objects = artifacts.New(db, store, ring)
	s.accounts = accounts.New(db, s.objects, accounts.StepUpWindow(limits.StepUp))
	s.scim = scim.New(db, s.accounts.RequireStepUp)
	s.workspaces = workspaces.New(db, s.accounts, s.objects)
	s.state = state.New(db, s.objects, state.UploadLimit(limits.StateBytes))
	s.gates = gates.New(db)
	s.dispatch = dispatch.New(db, s.objects, links)
	judging, err := policies.NewRuntime(version, limits.Policies)
	if err != nil {
		db.Close()
		return nil, err
	}
	s.policies = policies.New(db, s.objects, judging)
	s.registry = registry.New(db, s.objects, limits.Registry)
	s.identity, s.site = site.NewIdentity(db, s.objects), site.New(db)
	limits.Runs.Build, limits.Runs.StepUp, limits.Runs.Identity = build(), s.accounts.RequireStepUp, s.identity.Token
	s.runs = runs.New(db, s.objects, s.workspaces, s.state, s.dispatch, limits.Runs)
	limits.Recovery.StateLimit, limits.Recovery.StepUp = limits.StateBytes, s.accounts.RequireStepUp
	s.recovery = recovery.New(db, s.objects, s.state, s.dispatch, s.runs, limits.Recovery)
	return s, nil
}

// authenticate knows both kinds of bearer tokens of the API.
func (s *services) authenticate(ctx context.Context, token string) (authz.Actor, error) {
	if dispatch.IsToken(token) {
		return s.runs.Authenticate(ctx, token)
	}
	return s.accounts.Authenticate(ctx, token)
}

// ready tells whether this server should be given requests: not once it was told to stop,
// not without database or store, and not on a schema that no longer serves it.
func (s *services) ready(stopping context.Context) func(context.Context) error {
	return func(ctx context.Context) error {
		if stopping.Err() != nil {
			return fault.New(fault.Unavailable, "stopping", "This server is about to stop. Use another one.")
		}
		if err := migrations.Check(ctx, s.db); err != nil {
			return err
		}
		return s.store.Ping(ctx)
	}
}

type serverCmd struct{}

// Run serves until SIGINT or SIGTERM, then lets the requests at hand finish.
func (serverCmd) Run(ctx context.Context) error {
	cfg, err := config.LoadServer()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := migrations.Up(ctx, cfg.DatabaseURL); err != nil {
		return err
	}
	s, err := open(ctx, cfg.Storage, cfg.Limits)
	if err != nil {
		return err
	}
	defer s.db.Close()
	if err := migrations.Check(ctx, s.db); err != nil {
		return err
	}
	if err := s.objects.CheckKeys(ctx); err != nil {
		return err
	}
	s.identity.IssueAs(cfg.Address)
	go s.site.Watch(ctx, 5*time.Second)
	go runs.NewSweeper(s.runs).Run(ctx, 5*time.Second)
	go s.recovery.RunPolicy(ctx, 30*time.Second)
	go s.objects.SweepEvery(ctx, time.Hour)
	s.evaluate(ctx)
	s.tell(cfg)
	shown := metrics.New(version, s.runs.Figures)
	if cfg.MetricsListen != "" {
		side, err := net.Listen("tcp", cfg.MetricsListen)
		if err != nil {
			return fmt.Errorf("listen on %s for the metrics: %w", cfg.MetricsListen, err)
		}
		defer func() { _ = side.Close() }()
		server := &http.Server{Handler: metricsOnly(shown), ReadHeaderTimeout: 10 * time.Second}
		go func() { _ = server.Serve(side) }() // ends with its listener
	}
	working, end := context.WithCancel(context.WithoutCancel(ctx)) // requests at hand are still woken while the server stops
	defer end()
	waiting, endWaiting := context.WithCancel(working)
	defer endWaiting()
	wake := postgres.Listen(working, s.db, dispatch.Channel, dispatch.LogChannel, notifications.Channel, runtasks.Channel)
	var calling sync.WaitGroup
	calling.Go(func() { s.notifications.Run(ctx, wake, 5*time.Second) })
	calling.Go(func() { s.runTasks.Run(ctx, wake, 5*time.Second, s.runs.ReportTask) })
	err = serve(ctx, cfg, s.handler(wake, ctx, waiting, cfg, shown), endWaiting)
	stop()
	calling.Wait() // what is being sent is written down
	return err
}

// evaluators is how many plans a server judges at a time.
const evaluators = 2

// evaluate judges plans in the background until ctx ends.
func (s *services) evaluate(ctx context.Context) {
	wake := postgres.Listen(ctx, s.db, runs.PolicyChannel)
	for range evaluators {
		go runs.NewEvaluator(s.runs, s.policies).Run(ctx, wake, 5*time.Second)
	}
}

// tell makes what calls the addresses that users gave: receivers of notifications and services of run tasks.
func (s *services) tell(cfg config.Server) {
	users := outbound.New(cfg.Outbound)
	telling := notifications.Defaults()
	telling.Address, telling.Document, telling.Mail = cfg.Address, tfeapi.NotificationDocument, cfg.Mail
	s.notifications = notifications.New(s.db, s.objects, users, telling)
	asking := runtasks.Defaults()
	asking.Document = tfeapi.RunTaskDocument(cfg.Address, s.links)
	s.runTasks = runtasks.New(s.db, s.objects, users, asking)
}

// metricsOnly has an address of its own: metrics are not for everybody who reaches the API.
func metricsOnly(shown *metrics.Metrics) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", shown.Handler())
	return mux
}

// handler serves all of the server's APIs. ctx ends with the process; stopping when it was told
// to end; waiting when requests that only wait for news are to be answered.
func (s *services) handler(wake *postgres.Listener, stopping, waiting context.Context, cfg config.Server, shown *metrics.Metrics) http.Handler {
	log := slog.Default()
	observe := func(api string) func(method, route string, status int, took time.Duration) {
		return func(method, route string, status int, took time.Duration) {
			shown.Observe(api, method, route, status, took)
		}
	}
	limit := throttle.New(cfg.Limits.Requests, s.site.RequestLimit)
	api := tfeapi.New(tfeapi.Deps{
		Authenticate: s.authenticate, Accounts: s.accounts, Workspaces: s.workspaces, State: s.state, Runs: s.runs, Dispatch: s.dispatch, Recovery: s.recovery,
		Gates: s.gates, Site: s.site, VCS: vcs.New(s.db, s.objects), Identity: s.identity, Policies: s.policies, Registry: s.registry, Notifications: s.notifications, Mail: cfg.Mail, RunTasks: s.runTasks, Approvals: approvals.New(s.db), SCIM: s.scim, Links: s.links, Wake: wake, Stopping: waiting.Done(), Ready: s.ready(stopping), Observe: observe("tfe"), Limit: limit, Address: cfg.Address, Log: log,
		ClientAddress: func(r *http.Request) string { return web.ClientAddress(cfg.TrustedProxies, r) },
	})
	provisioning := scimapi.New(scimapi.Deps{Authenticate: s.accounts.AuthenticateSCIM, SCIM: s.scim, Limit: limit, Observe: observe("scim"), Address: cfg.Address, Log: log})
	runners := runnerapi.New(runnerapi.Deps{
		Accounts: s.accounts, Dispatch: s.dispatch, Runs: s.runs, Recovery: s.recovery, Wake: wake, Stopping: waiting.Done(), Observe: observe("runner"), Log: log,
	})
	pages := web.New(web.Deps{
		Authenticate: s.authenticate, Accounts: s.accounts, Runs: s.runs, Site: s.site, Address: cfg.Address, TrustedProxies: cfg.TrustedProxies, Observe: observe("web"), Log: log,
	})
	// By hand, because http.ServeMux redirects what it finds untidy, and a redirected
	// POST loses its body.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/runner/"):
			runners.ServeHTTP(w, r)
		case scimapi.Serves(r.URL.Path):
			provisioning.ServeHTTP(w, r)
		case web.Serves(r.URL.Path):
			pages.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// serve answers requests until ctx ends. Then it takes no more, calls endWaiting, so that those that
// only wait for news are answered, and gives the others cfg.DrainTimeout to finish.
func serve(ctx context.Context, cfg config.Server, handler http.Handler, endWaiting func()) error {
	listener, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(endWaiting) // not before nobody can ask anew
	ended := make(chan error, 1)
	go func() {
		if cfg.TLSCert == "" {
			ended <- server.Serve(listener)
			return
		}
		ended <- server.ServeTLS(listener, cfg.TLSCert, cfg.TLSKey)
	}()
	slog.Info("the server listens", "listen", cfg.Listen, "address", cfg.Address, "version", version)
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Whoever spreads the requests needs a moment to see that this server is not ready any more.
	select {
	case err := <-ended:
		return err
	case <-time.After(cfg.ShutdownDelay):
	}
	grace, done := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
	defer done()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, http.ErrServerClosed) {
		slog.Warn("requests did not finish in time and are cut off", "after", cfg.DrainTimeout)
		cancel()
		return server.Close()
	}
	return nil
}
