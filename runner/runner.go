package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// Config says where the server is and what the runner works with.
type Config struct {
	Address        string   // of the server, such as "https://holdfast.example.com:8443"
	Token          string   // of the runner group
	Dir            string   // the runner's own folder; one runner a folder
	TofuPath       string   // the tofu binary
	ProviderMirror string   // a filesystem mirror that tofu looks into before the registries; "" is none
	NetworkMirror  string   // an https address that tofu asks in place of the registries; "" is none
	Name           string   // shown to people
	Version        string   // of the runner's own release
	CAFile         string   // certificates that the runner and tofu trust, instead of the system's; "" is the system's
	Labels         []string // what this runner has beside the labels of its group, such as "region=eu"
	Isolation      string   // of attempts: one of the Isolation names; "" is IsolationAuto
	Visible        []string // further files and folders that isolated attempts may read
	Limits         Limits   // of an isolated attempt
	NoCache        bool     // each attempt installs its providers anew, from the mirrors or the registries
	CostCommand    string   // for /bin/sh: prints Infracost's JSON for the plan in $PLAN_JSON; "" is none
	AllowMetadata  bool     // runs may reach the metadata service of the cloud that the runner is in

	// Interrupt, when closed, interrupts a running tofu. Ending the context of Run
	// alone lets it go on to its end.
	Interrupt <-chan struct{}
}

const (
	pollWait      = 50 * time.Second // how long the server may hold a poll: its longest
	farewellLimit = 5 * time.Second  // how long the runner tries to deregister when it ends
)

// runner is a running runner.
type runner struct {
	cfg       Config
	host      string // host:port of the server, the name that tofu knows it by
	server    *server
	tofu      binary
	providers providerSources
	enclosure *enclosure
	packages  packages
	dir       folder
	release   wire.Release
	served    string // the only organization that a runner without isolation works for, once it has worked
	id        string // its own from the first poll on, so that even an offer whose answer is lost is asked for again
	drained   bool   // the server told it to end
}

// Run takes and executes attempts, one at a time, until ctx ends or the server tells it
// to end; an attempt that is running then goes on until it is done. It returns nil after
// such an end, and an error when the runner cannot work at all: wrong configuration, no
// usable tofu, a refused token, a server that speaks no version of the protocol that the
// runner does, or a folder that another runner works in.
func Run(ctx context.Context, cfg Config) error {
	r, err := newRunner(ctx, cfg)
	if err != nil {
		return err
	}
	defer r.dir.release()
	slog.Info("runner started", "name", cfg.Name, "server", cfg.Address, "tofu", r.tofu.version)
	beside, rest := context.WithCancel(ctx)
	defer rest()
	go r.handOverKept(beside)
	for ctx.Err() == nil && !r.drained {
		work, err := r.poll(ctx)
		if err != nil {
			return err
		}
		if work != nil && r.mayServe(work.OrganizationID) {
			r.id = work.RunnerID
			r.execute(*work)
		}
	}
	r.deregister()
	slog.Info("runner ended")
	return nil
}

func newRunner(ctx context.Context, cfg Config) (*runner, error) {
	host, err := hostOf(cfg.Address)
	if err != nil {
		return nil, err
	}
	cfg.Address = strings.TrimSuffix(cfg.Address, "/")
	providers, err := newProviderSources(cfg.ProviderMirror, cfg.NetworkMirror)
	if err != nil {
		return nil, err
	}
	for _, path := range []*string{&cfg.Dir, &cfg.TofuPath, &cfg.CAFile} {
		if *path, err = absolute(*path); err != nil {
			return nil, err
		}
	}
	srv, err := newServer(cfg.Address, cfg.CAFile)
	if err != nil {
		return nil, err
	}
	tofu, err := inspect(ctx, cfg.TofuPath)
	if err != nil {
		return nil, err
	}
	release, err := ownRelease(cfg.Version)
	if err != nil {
		return nil, err
	}
	if !cfg.AllowMetadata {
		var dialer net.Dialer
		if err := checkMetadata(ctx, dialer.DialContext); err != nil {
			return nil, err
		}
	}
	enclosure, err := newEnclosure(ctx, cfg.Isolation, cfg.Limits, append(cfg.Visible, cfg.CAFile, providers.folder)...)
	if err != nil {
		return nil, err
	}
	dir, err := openFolder(cfg.Dir)
	if err != nil {
		return nil, err
	}
	r := &runner{cfg: cfg, host: host, server: srv, tofu: tofu, providers: providers, enclosure: enclosure, release: release, dir: dir, id: newID()}
	if enclosure != nil && !cfg.NoCache { // else attempts could write to it
		r.packages = packages{dir.providers()}
		r.packages.clear()
	}
	if !r.isolated() {
		r.served, err = dir.served()
	}
	return r, err
}

// ownRelease names this very binary, which a server may allow or not.
func ownRelease(version string) (wire.Release, error) {
	path, err := os.Executable()
	if err != nil {
		return wire.Release{}, err
	}
	digest, err := digestOf(path)
	return wire.Release{Version: version, Digest: digest}, err
}

// isolated tells whether attempts are kept from this machine and from one another.
func (r *runner) isolated() bool { return r.enclosure != nil || r.cfg.Isolation == IsolationExternal }

// mayServe tells whether the runner may work for the organization. Without isolation it
// works for the first one that it got work of, also after a new start: what one attempt
// has left on the machine is there for the next.
func (r *runner) mayServe(organization string) bool {
	switch {
	case r.isolated() || organization == r.served:
		return true
	case r.served != "":
		slog.Error("work of another organization was refused: this runner does not isolate its attempts", "serves", r.served, "offered", organization)
		return false
	}
	if err := writeNew(r.dir.servedFile(), []byte(organization)); err != nil {
		slog.Error("work was refused: the organization that this runner serves could not be noted", "error", err)
		return false
	}
	r.served = organization
	slog.Info("this runner does not isolate its attempts, so it serves this organization only", "organization", organization)
	return true
}

func newID() string { return string(ids.New[ids.Runner]()) }

// absolute gives the same path for tofu, which runs in another folder, where a relative
// one would be another file. No path stays none.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// poll waits for work. No work and an end of ctx are both nil.
func (r *runner) poll(ctx context.Context) (*wire.Assignment, error) {
	var work *wire.Assignment
	body := wire.Poll{
		ProtocolVersion: wire.Version, OldestVersion: wire.OldestVersion, RunnerName: r.cfg.Name, RunnerID: r.id,
		WaitSeconds: int(pollWait / time.Second), TofuVersions: []string{r.tofu.version}, Labels: r.cfg.Labels, OrganizationID: r.served, Release: r.release,
	}
	err := r.server.do(ctx, request{
		method: http.MethodPost, path: wire.PathPoll, token: r.cfg.Token, body: jsonBody(body),
		limit: pollWait + 20*time.Second,
	}, func(resp *http.Response) error {
		if resp.StatusCode == http.StatusNoContent {
			if id := resp.Header.Get(wire.HeaderRunner); id != "" {
				r.id = id
			}
			if r.drained = resp.Header.Get(wire.HeaderDrain) == "true"; r.drained {
				slog.Info("the server told this runner to end")
			}
			return nil
		}
		work = new(wire.Assignment)
		return decodeJSON(resp, work)
	})
	var no *refusal
	switch {
	case err == nil:
		return work, nil
	case ctx.Err() != nil:
		return nil, nil
	case errors.As(err, &no) && (no.status == http.StatusUnauthorized || no.status == http.StatusForbidden):
		return nil, fault.New(fault.Unauthenticated, "token_refused",
			"The server refused the runner group's token (%s). Give the runner a valid one.", no.detail)
	case errors.As(err, &no) && no.code == wire.CodeVersion:
		return nil, fault.New(fault.Invalid, wire.CodeVersion, "The server and this runner speak no common version of the protocol. %s", no.detail)
	case errors.As(err, &no) && no.status == http.StatusNotFound:
		slog.Warn("the server knows this runner as another group's; asking as a new one", "error", err)
		r.id = newID()
		pause(ctx, time.Second)
	default:
		slog.Error("the server refused the poll", "error", err)
		pause(ctx, longestDelay)
	}
	return nil, nil
}

// deregister tells the server that the runner is gone. A server that cannot be
// reached finds out by itself.
func (r *runner) deregister() {
	ctx, cancel := context.WithTimeout(context.Background(), farewellLimit)
	defer cancel()
	err := r.server.do(ctx, request{method: http.MethodDelete, path: withID(wire.PathDeregister, r.id), token: r.cfg.Token}, nil)
	if err != nil {
		slog.Warn("could not deregister", "error", err)
	}
}

// folder is the runner's own folder.
type folder struct {
	path string
	lock *os.File
}

func (f folder) attempts() string { return filepath.Join(f.path, "attempts") }
func (f folder) errored() string  { return filepath.Join(f.path, "errored") }

// providers is the cache of their packages.
func (f folder) providers() string { return filepath.Join(f.path, "providers") }

// servedFile holds the id of the only organization that was ever served here.
func (f folder) servedFile() string { return filepath.Join(f.path, "organization") }

func (f folder) served() (string, error) {
	content, err := os.ReadFile(f.servedFile())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return string(content), err
}

// openFolder makes the folder, makes sure that no other runner uses it, and clears
// what a killed runner left there.
func openFolder(path string) (folder, error) {
	f := folder{path: path}
	for _, dir := range []string{path, f.attempts(), f.errored()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return folder{}, err
		}
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return folder{}, err
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return folder{}, fault.New(fault.Conflict, "folder_in_use", "Another runner works in %s. Give each runner a folder of its own.", path)
	}
	f.lock = lock
	return f, f.clear()
}

func (f folder) release() { _ = f.lock.Close() }

// clear removes the attempts of a runner that did not end by itself. A state that
// tofu could not publish is moved to safety first.
func (f folder) clear() error {
	old, err := os.ReadDir(f.attempts())
	if err != nil {
		return err
	}
	for _, entry := range old {
		dir := filepath.Join(f.attempts(), entry.Name())
		kept := true
		for _, state := range erroredStates(filepath.Join(dir, "config")) {
			own := besideOverride(state)
			place, err := f.keep(state, entry.Name())
			if err == nil && own {
				moveEmergency(sandbox{path: dir}, place)
			}
			kept = err == nil && kept
		}
		if !kept {
			slog.Error("a state that could not be published is still in the folder of its attempt; the folder stays", "folder", dir)
			continue
		}
		if err := removeSandbox(dir); err != nil {
			slog.Error("could not remove the folder of an attempt; it stays", "folder", dir, "error", err)
		}
	}
	return nil
}

// erroredStates finds all states that tofu could not publish, or that came with the
// configuration. First is that of the folder where tofu ran: the override file is there.
func erroredStates(config string) []string {
	openFolders(config)
	var first, others []string
	_ = filepath.WalkDir(config, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() != erroredState {
			return nil
		}
		if besideOverride(path) {
			first = append(first, path)
		} else {
			others = append(others, path)
		}
		return nil
	})
	return append(first, others...)
}

// keep moves an errored.tfstate to where an operator finds it, and says where. What is
// kept there already stays.
func (f folder) keep(path, name string) (place string, err error) {
	place, err = f.placeFor(filepath.Base(name))
	if err != nil {
		return "", err
	}
	if err := os.Rename(path, place); err != nil {
		_ = os.Remove(place)
		return "", err
	}
	slog.Error("tofu could not publish its state; it is kept for recovery", "file", place)
	return place, os.Chmod(place, 0o600)
}

// placeFor takes the first free place for a state of the name, with an empty file.
func (f folder) placeFor(name string) (string, error) {
	place := filepath.Join(f.errored(), name+".tfstate")
	for n := 2; ; n++ {
		err := writeNew(place, nil)
		if !errors.Is(err, fs.ErrExist) {
			return place, err
		}
		place = filepath.Join(f.errored(), fmt.Sprintf("%s-%d.tfstate", name, n))
	}
}
