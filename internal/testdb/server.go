package testdb

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"github.com/holdfast-run/holdfast/internal/pgcluster"
)

// serverVariable names an existing server: an address of any of its databases, for a role
// that may create databases.
const serverVariable = "HOLDFAST_TEST_DATABASE_URL"

// serverURL gives the server of this process, starting one at the first call if none is named.
var serverURL = sync.OnceValues(func() (string, error) {
	if address := os.Getenv(serverVariable); address != "" {
		return address, nil
	}
	address, stop, err := StartServer(context.Background())
	stopServer = stop
	runtime.KeepAlive(stopServer)
	return address, err // never stopped here: a test process has no last moment; see reap
})

// stopServer keeps the watcher's pipe from the garbage collector, whose closing of it
// would tell the watcher that this process has died.
var stopServer func()

// StartServer starts a cluster for tests in a temporary folder, in memory where the system has
// room there, and gives the address of its database "postgres". stop ends and removes it; should this process die before, a
// watcher does.
func StartServer(ctx context.Context) (address string, stop func(), err error) {
	dir, err := os.MkdirTemp(memoryDisk(), "holdfast-testdb-")
	if err != nil {
		return "", nil, err
	}
	opts := pgcluster.Options{Dir: dir}
	if cache, err := os.UserCacheDir(); err == nil {
		opts.MoreBinDirs = []string{filepath.Join(cache, "holdfast", "postgres", "*", "bin")}
	}
	cluster, err := pgcluster.Start(ctx, opts)
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	reaped, err := reap(cluster.Pid(), dir)
	if err != nil {
		cluster.Stop()
		_ = os.RemoveAll(dir)
		return "", nil, err
	}
	return cluster.URL("postgres"), func() { cluster.Stop(); reaped() }, nil
}

// reap starts a watcher that waits until this process is gone, or until the returned
// function is called, and then ends the server pid and removes dir. The watcher notices by
// the end of its standard input, which no kind of death can prevent.
func reap(pid int, dir string) (now func(), err error) {
	const script = `cat >/dev/null
kill -INT "$1" 2>/dev/null
i=0
while kill -0 "$1" 2>/dev/null && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done
rm -rf "$2"`
	watcher := exec.Command("/bin/sh", "-c", script, "holdfast-testdb-watcher", strconv.Itoa(pid), dir)
	watcher.Dir = "/"
	watcher.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not reach it
	alive, err := watcher.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := watcher.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = alive.Close()
		_ = watcher.Wait()
	}, nil
}
