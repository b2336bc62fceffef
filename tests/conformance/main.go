package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/tests/stack"
)

type options struct {
	holdfast, mirror, module, out string
	both, kept                    bool
	planned                       string
	tier, only                    string
	parallel                      int
	limit                         time.Duration
}

func main() {
	if len(os.Args) == 2 && os.Args[1] == priceArgument {
		if err := price(); err != nil {
			fmt.Fprintln(os.Stderr, "conformance:", err)
			os.Exit(1)
		}
		return
	}
	var o options
	flag.StringVar(&o.holdfast, "holdfast", "bin/holdfast", "the program to test")
	flag.StringVar(&o.mirror, "mirror", "", "folder of providers for the runs of the suite")
	flag.StringVar(&o.module, "suite", "tests/conformance/suite", "folder of the module that names go-tfe's version")
	flag.StringVar(&o.out, "out", "conformance", "folder of the results: results.json, and the output of each test that failed")
	flag.BoolVar(&o.both, "all", false, "run each test in both modes")
	flag.BoolVar(&o.kept, "kept", false, "only the tests that must pass; one that fails is run once more, against a server of its own, and the table says so")
	flag.StringVar(&o.planned, "plan", "", "write the planned list anew to this file, by what was seen")
	flag.StringVar(&o.tier, "tier", "", "only the tests of one tier, such as T1")
	flag.StringVar(&o.only, "only", "", "only the tests that match this expression")
	flag.IntVar(&o.parallel, "parallel", 2, "tests at a time")
	flag.DurationVar(&o.limit, "limit", 3*time.Minute, "the time each test may take")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	l, err := readLists()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "holdfast-conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	s, err := compile(ctx, o.module, work)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	// The suite gives this address to run tasks and notifications: 200 to everything.
	answering, err := serve(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	if err != nil {
		return err
	}
	defer answering.Close()
	r := runner{options: o, suite: s, work: work, callback: "http://" + answering.Addr().String() + "/"}
	jobs := l.jobs(o.both, func(p Planned) bool {
		return (o.tier == "" || p.Tier == o.tier) && only.MatchString(p.Test) && (!o.kept || l.kept[p.Test])
	})
	if err := r.all(ctx, jobs); err != nil {
		return err
	}
	if o.kept {
		if err := r.again(ctx); err != nil {
			return err
		}
	}
	return report(l, o, r.results)
}

func report(l lists, o options, results []result) error {
	list := l.outcomes(results)
	l.table(os.Stdout, list)
	file, err := os.Create(filepath.Join(o.out, "results.json"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeJSON(file, list), file.Close()); err != nil {
		return err
	}
	if o.planned != "" {
		file, err := os.Create(o.planned)
		if err != nil {
			return err
		}
		if err := errors.Join(writePlanned(file, learn(l.planned, results)), file.Close()); err != nil {
			return err
		}
	}
	for _, r := range results {
		path := filepath.Join(o.out, r.Test+"."+string(r.Mode)+".txt")
		if r.Good() || r.Skipped {
			if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		} else if err := os.WriteFile(path, []byte(r.Output), 0o644); err != nil {
			return err
		}
	}
	if names := broken(list); len(names) > 0 {
		return fmt.Errorf("tests that Holdfast must keep have failed: %v", names)
	}
	return nil
}

// serve answers on this machine until the listener is closed.
func serve(handler http.Handler) (net.Listener, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: handler}
		go func() { _ = server.Serve(listener) }()
	}
	return listener, err
}

// runner runs jobs against servers of its own.
type runner struct {
	options
	suite    suite
	work     string
	callback string
	mu       sync.Mutex
	results  []result
	folders  int
}

// all runs the jobs: most against one server, some of them at a time; those that need a
// server to themselves after that, one after the other, each against a new one or with those that
// share it.
func (r *runner) all(ctx context.Context, jobs []job) error {
	var together []job
	alone := map[string][]job{}
	for _, j := range jobs {
		if j.Alone != "" {
			alone[j.Alone] = append(alone[j.Alone], j)
		} else {
			together = append(together, j)
		}
	}
	if err := r.against(ctx, together, r.parallel); err != nil {
		return err
	}
	for _, server := range slices.Sorted(maps.Keys(alone)) {
		if err := r.against(ctx, alone[server], 1); err != nil { // one of the name pricedServer has a cost command, and acquaintedServer people
			return err
		}
	}
	return ctx.Err()
}

// again runs each test that failed once more, against a new server. What it says then
// counts, and stays marked: the suite's own waits are short for a busy machine.
func (r *runner) again(ctx context.Context) error {
	failed := slices.Clone(r.results)
	failed = slices.DeleteFunc(failed, result.Good)
	r.results = slices.DeleteFunc(r.results, func(one result) bool { return !one.Good() })
	for _, one := range failed {
		one.Repeated = true
		if err := r.against(ctx, []job{one.job}, 1); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// against runs jobs against one new server.
func (r *runner) against(ctx context.Context, jobs []job, parallel int) error {
	if len(jobs) == 0 {
		return nil
	}
	r.folders++
	dir := filepath.Join(r.work, fmt.Sprint("server-", r.folders))
	args := []string{}
	if r.mirror != "" {
		args = append(args, "--provider-mirror", r.mirror)
	}
	// The receiver of run tasks and notifications is on this machine.
	special := []string{"HOLDFAST_OUTBOUND_ALLOW=127.0.0.0/8"}
	if jobs[0].Alone == pricedServer {
		own, err := os.Executable()
		if err != nil {
			return err
		}
		special = append(special, "HOLDFAST_RUNNER_COST_COMMAND='"+own+"' "+priceArgument)
	}
	server, err := stack.Start(stack.Options{Executable: r.holdfast, Dir: dir, Args: args, Environ: special})
	if err != nil {
		return err
	}
	user := &prover{holdfast: r.holdfast, server: server}
	if err := errors.Join(r.peopled(ctx, server), user.prove(ctx)); err != nil {
		return errors.Join(err, server.Stop())
	}
	address := server.Address()
	if jobs[0].Alone == acquaintedServer {
		between, err := (&acquaintance{holdfast: r.holdfast, server: server}).listen()
		if err != nil {
			return errors.Join(err, server.Stop())
		}
		defer between.Close()
		address = "http://" + between.Addr().String()
	}
	environ := stack.PlainEnviron()
	for name, value := range map[string]string{
		"TFE_ADDRESS": address, "TFE_TOKEN": server.Token(), "SSL_CERT_FILE": server.Environ["SSL_CERT_FILE"],
		"TFE_ADMIN_PROVISION_LICENSES_TOKEN": server.Token(), "TFC_RUN_TASK_URL": r.callback,
	} {
		environ = append(environ, name+"="+value)
	}
	queue := make(chan job)
	failures := make([]error, parallel)
	var workers sync.WaitGroup
	for i := range parallel {
		workers.Go(func() { failures[i] = r.work1(ctx, filepath.Join(dir, fmt.Sprint("cwd-", i)), user, environ, queue) })
	}
	for _, j := range jobs {
		queue <- j
	}
	close(queue)
	workers.Wait()
	return errors.Join(append(failures, server.Stop(), os.RemoveAll(dir))...)
}

// peopled makes the user whom the suite expects on every site besides the one it works as.
func (r *runner) peopled(ctx context.Context, server *stack.Stack) error {
	const name = "admin-security-maintenance"
	_, err := operate(ctx, r.holdfast, server, "", "users", "create", name, "--email", name+"@tfe.local", "--site-admin")
	return err
}

// work1 takes jobs until there are none. One that cannot work still empties the queue.
func (r *runner) work1(ctx context.Context, dir string, user *prover, environ []string, queue <-chan job) error {
	err := r.suite.folder(dir)
	for j := range queue {
		if err == nil {
			err = user.prove(ctx)
		}
		if err != nil || ctx.Err() != nil {
			continue
		}
		result := r.suite.run(ctx, j, dir, append([]string{}, environ...), r.limit)
		r.mu.Lock()
		r.results = append(r.results, result)
		said := "ok  "
		switch {
		case result.Skipped:
			said = "skip"
		case !result.Good():
			said = "FAIL"
		}
		fmt.Printf("%s  %s  %-10s  %-60s %3d/%3d  %5.1f s  %s\n", said, j.Tier, j.Mode, j.Test, result.Passes, j.Count, result.Seconds, result.Reason)
		r.mu.Unlock()
	}
	return err
}
