package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-tfe"

	"github.com/holdfast-run/holdfast/internal/child"
	"github.com/holdfast-run/holdfast/internal/pgcluster"
)

// ctx has no end of its own: go test's -timeout is the last word.
var ctx = context.Background()

// patience is how long anything may take on a busy machine when nothing is broken any more. A tofu
// that met an outage waits longer and longer between its tries.
const patience = 5 * time.Minute

// stack is PostgreSQL, an object store, several servers and several runners, all on
// loopback, all children of this process, with the fault proxy before the servers.
type stack struct {
	dir     string
	environ map[string]string // as `holdfast dev` made it: tokens, CA, store
	history *history
	proxy   *proxy
	servers []*server
	runners []*worker
	store   *program
	roots   *x509.CertPool

	mu           sync.Mutex
	postgres     *pgcluster.Cluster
	postgresPort int
	database     string   // its URL
	dead         []string // ids of runners that were killed
	end          chan struct{}
	background   sync.WaitGroup
}

// size says how much of what a stack has.
type size struct{ servers, runners int }

// program is a child that can be killed and started again.
type program struct {
	name    string
	log     string
	command func() *exec.Cmd

	mu      sync.Mutex
	process *child.Process
}

// start starts the program; it must not run.
func (p *program) start() error {
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the child has its own descriptor
	cmd := p.command()
	cmd.Stdout, cmd.Stderr = log, log
	process, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.name, err)
	}
	p.mu.Lock()
	p.process = process
	p.mu.Unlock()
	return nil
}

func (p *program) running() *child.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

func (p *program) signal(sig syscall.Signal) { p.running().Signal(sig) }

// kill ends the program without any chance to tidy up, and returns when it is gone.
func (p *program) kill() {
	process := p.running()
	process.Signal(syscall.SIGKILL)
	<-process.Done()
}

func (p *program) alive() bool {
	process := p.running()
	if process == nil {
		return false
	}
	select {
	case <-process.Done():
		return false
	default:
		return true
	}
}

// server is one replica. Each start takes another port: the proxy knows the present one.
type server struct {
	*program
	mu   sync.Mutex
	port int
}

func (s *server) address() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(s.port))
}

// worker is one runner.
type worker struct {
	*program
	label string // the runner's name, by which the database knows it
}

// binDir holds the programs under test.
var binDir = func() string {
	dir, err := filepath.Abs(filepath.Join("..", "..", "bin"))
	if err != nil {
		panic(err)
	}
	return dir
}()

func bin(name string) string { return filepath.Join(binDir, name) }

// freePort finds a port that the system gives to nobody who does not ask for it by number, so
// that a service which is killed finds it free again.
func freePort() (int, error) {
	for range 1000 {
		port := 10000 + rand.IntN(20000) // below the range of outgoing connections
		if l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("no port is free between 10000 and 30000")
}

// startStack makes the data folder with `holdfast dev`, which then ends, and starts everything
// on it that a cluster of servers has.
func startStack(dir string, h *history, want size, faults faults) (_ *stack, err error) {
	s := &stack{dir: dir, environ: map[string]string{}, history: h, end: make(chan struct{})}
	defer func() {
		if err != nil {
			s.stop()
		}
	}()
	providers := filepath.Join(dir, "providers")
	if said, err := exec.Command(filepath.Join("..", "provider", "build.sh"), providers).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make the providers: %w\n%s", err, said)
	}
	if err := s.bootstrap(providers); err != nil {
		return nil, err
	}
	if s.roots, err = roots(s.environ["SSL_CERT_FILE"]); err != nil {
		return nil, err
	}
	if s.postgresPort, err = freePort(); err != nil {
		return nil, err
	}
	if err := s.startPostgres(); err != nil {
		return nil, err
	}
	if err := s.startStore(); err != nil {
		return nil, err
	}
	certificate, err := tls.LoadX509KeyPair(s.path("tls", "server.pem"), s.path("tls", "server-key.pem"))
	if err != nil {
		return nil, err
	}
	if s.proxy, err = startProxy(certificate, s.roots, h, faults); err != nil {
		return nil, err
	}
	for i := range want.servers {
		server := s.newServer(i)
		s.servers = append(s.servers, server)
		if err := s.startServer(server); err != nil {
			return nil, err
		}
	}
	for i := range want.runners {
		worker := s.newRunner(i, providers)
		s.runners = append(s.runners, worker)
		if err := worker.start(); err != nil {
			return nil, err
		}
	}
	s.background.Go(func() { s.forget(s.end) })
	s.background.Go(func() { s.observe(s.end) })
	return s, s.awaitRunner()
}

func (s *stack) path(elements ...string) string {
	return filepath.Join(append([]string{s.dir, "data"}, elements...)...)
}

func (s *stack) logFile(name string) string { return filepath.Join(s.dir, "logs", name+".log") }

// bootstrap lets `holdfast dev` make database, keys, certificates and tokens.
func (s *stack) bootstrap(providers string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, "logs"), 0o700); err != nil {
		return err
	}
	cmd := exec.Command(bin("holdfast"), "dev", "--data", s.path(), "--provider-mirror", providers, "--", "env", "-0")
	cmd.Env = plainEnviron()
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("holdfast dev: %w\n%s", err, &said)
	}
	for told := bufio.NewReader(strings.NewReader(string(out))); ; {
		entry, err := told.ReadString(0)
		if err != nil {
			return nil
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(entry, "\x00"), "=")
		s.environ[name] = value
	}
}

func roots(bundle string) (*x509.CertPool, error) {
	text, err := os.ReadFile(bundle)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", bundle)
	}
	return pool, nil
}

// plainEnviron is our environment without what would change how tofu or Holdfast work.
func plainEnviron() (environ []string) {
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "TF_") && !strings.HasPrefix(entry, "TFE_") && !strings.HasPrefix(entry, "HOLDFAST_") {
			environ = append(environ, entry)
		}
	}
	return environ
}

func (s *stack) startPostgres() error {
	starting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	cluster, err := pgcluster.Start(starting, pgcluster.Options{
		Dir: s.path("postgres"), Port: s.postgresPort, LogFile: s.logFile("postgres"),
		Durable: true, // a commit that was answered must survive the crash
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.postgres, s.database = cluster, cluster.URL("holdfast")
	return nil
}

// crashPostgres ends PostgreSQL as `pg_ctl -m immediate` does: without a checkpoint, every
// connection cut. start brings it back.
func (s *stack) crashPostgres() error {
	s.mu.Lock()
	cluster := s.postgres
	s.mu.Unlock()
	if err := syscall.Kill(cluster.Pid(), syscall.SIGQUIT); err != nil {
		return err
	}
	<-cluster.Done()
	cluster.Stop() // gives up the folder
	return nil
}

func (s *stack) startStore() error {
	port, err := freePort()
	if err != nil {
		return err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	s.environ["HOLDFAST_S3_ENDPOINT"] = "http://" + listen
	s.store = &program{name: "store", log: s.logFile("store"), command: func() *exec.Cmd {
		cmd := exec.Command(bin("holdfast"), "dev-s3", "--dir", s.path("s3"), "--listen", listen, "--bucket", s.environ["HOLDFAST_S3_BUCKET"])
		cmd.Env = append(plainEnviron(), "HOLDFAST_S3_ACCESS_KEY_ID="+s.environ["HOLDFAST_S3_ACCESS_KEY_ID"],
			"HOLDFAST_S3_SECRET_ACCESS_KEY="+s.environ["HOLDFAST_S3_SECRET_ACCESS_KEY"])
		return cmd
	}}
	if err := s.store.start(); err != nil {
		return err
	}
	return await("the store", func() bool { return answers("http://"+listen+"/healthz", http.DefaultClient) })
}

func (s *stack) newServer(i int) *server {
	name := fmt.Sprintf("server-%d", i)
	server := &server{}
	server.program = &program{name: name, log: s.logFile(name), command: func() *exec.Cmd {
		s.mu.Lock()
		database := s.database
		s.mu.Unlock()
		cmd := exec.Command(bin("holdfast"), "server")
		cmd.Env = append(plainEnviron(), "HOLDFAST_DATABASE_URL="+database, "HOLDFAST_LISTEN="+server.address(), "HOLDFAST_ADDRESS="+s.proxy.url(),
			"HOLDFAST_TLS_CERT="+s.path("tls", "server.pem"), "HOLDFAST_TLS_KEY="+s.path("tls", "server-key.pem"))
		for _, name := range []string{"KEYRING", "S3_ENDPOINT", "S3_BUCKET", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY"} {
			cmd.Env = append(cmd.Env, "HOLDFAST_"+name+"="+s.environ["HOLDFAST_"+name])
		}
		return cmd
	}}
	return server
}

// startServer starts a replica on a new port, waits until it serves, and puts it behind the
// proxy. A replica that ends while it starts, because the database is away, is started again.
func (s *stack) startServer(server *server) error {
	begun := false
	return await(server.name, func() bool {
		if begun && !server.alive() {
			time.Sleep(300 * time.Millisecond) // as a supervisor would
		}
		if begun && server.alive() {
			if !answers("https://"+server.address()+"/healthz", s.client(2*time.Second)) {
				return false
			}
			s.proxy.join(server.name, server.address())
			return true
		}
		port, err := freePort()
		if err != nil {
			return false
		}
		server.mu.Lock()
		server.port = port
		server.mu.Unlock()
		begun = server.start() == nil
		return false
	})
}

// killServer kills a replica. The proxy finds out by itself, as a load balancer would.
func (s *stack) killServer(i int) {
	s.servers[i].kill()
	s.history.add(event{Kind: "kill", What: s.servers[i].name})
}

func (s *stack) newRunner(i int, providers string) *worker {
	name := fmt.Sprintf("runner-%d", i)
	worker := &worker{label: name}
	worker.program = &program{name: name, log: s.logFile(name), command: func() *exec.Cmd {
		cmd := exec.Command(bin("holdfast-runner"))
		cmd.Env = append(plainEnviron(), "HOLDFAST_ADDRESS="+s.proxy.url(), "HOLDFAST_RUNNER_TOKEN_FILE="+s.tokenFile(),
			"HOLDFAST_RUNNER_DIR="+s.path("runners", name), "HOLDFAST_TOFU="+bin("tofu"), "HOLDFAST_PROVIDER_MIRROR="+providers,
			"HOLDFAST_RUNNER_ISOLATION=external", "HOLDFAST_RUNNER_ALLOW_METADATA=true", // ledgers lie outside of the runs
			"HOLDFAST_RUNNER_NAME="+name, "SSL_CERT_FILE="+s.environ["SSL_CERT_FILE"])
		return cmd
	}}
	return worker
}

// killRunner kills a runner; its tofu dies with it.
func (s *stack) killRunner(i int) {
	s.runners[i].kill()
	s.history.add(event{Kind: "kill", What: s.runners[i].name})
}

// awaitRunner returns when a run would find somebody to execute it.
func (s *stack) awaitRunner() error {
	if len(s.runners) == 0 {
		return nil
	}
	return await("runners", func() bool {
		n, err := s.number("select count(*) from runners where name = any($1)", s.runnerNames())
		return err == nil && n >= len(s.runners)
	})
}

func (s *stack) runnerNames() (names []string) {
	for _, r := range s.runners {
		names = append(names, r.label)
	}
	return names
}

// tokenFile finds the file of the runner group's token, which `holdfast dev` wrote.
func (s *stack) tokenFile() string { return s.path("runner-token") }

// client speaks HTTPS and trusts the stack.
func (s *stack) client(limit time.Duration) *http.Client {
	return &http.Client{Timeout: limit, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}
}

// api is a go-tfe client of the site admin. Behind the stormy door it meets the faults.
func (s *stack) api(address string) (client *tfe.Client, err error) {
	err = again(func() error { // it asks for the API's version once
		client, err = tfe.NewClient(&tfe.Config{Address: address, Token: s.environ["TFE_TOKEN"], HTTPClient: s.client(time.Minute), RetryServerErrors: true})
		return err
	})
	return client, err
}

// stop ends all children, the last started first.
func (s *stack) stop() {
	close(s.end)
	s.background.Wait()
	for _, r := range s.runners {
		r.stop()
	}
	for _, r := range s.servers {
		r.stop()
	}
	if s.proxy != nil {
		s.proxy.close()
	}
	if s.store != nil {
		s.store.stop()
	}
	if s.postgres != nil {
		s.postgres.Stop()
	}
}

func (p *program) stop() {
	if process := p.running(); process != nil {
		process.Signal(syscall.SIGCONT) // for the case that it was stopped
		process.Signal(syscall.SIGKILL)
		<-process.Done()
	}
}

func answers(address string, client *http.Client) bool {
	response, err := client.Get(address)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode == http.StatusOK
}

// await polls until the condition holds, up to patience.
func await(what string, holds func() bool) error {
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain for %s", what)
		}
	}
	return nil
}
