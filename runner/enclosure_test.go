//go:build linux

package runner

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// enclosed is a configuration of a runner that isolates, or nothing runs.
func enclosed(t *testing.T, f *fakeServer) Config {
	t.Helper()
	// Installed is not enough: some containers give no namespaces. The product says the same words then.
	if err := new(enclosure).find(context.Background()); err != nil {
		t.Skipf("runs cannot be isolated on this machine, and nothing says that they are: %v", err)
	}
	cfg := f.config()
	cfg.Isolation = IsolationBubblewrap
	return cfg
}

// provisioned runs a shell script while tofu applies, as a provider could run anything.
func provisioned(script string) string {
	return fmt.Sprintf("resource \"terraform_data\" \"hostile\" {\n  provisioner \"local-exec\" {\n    command = %s\n  }\n}\n", hclString(script))
}

// applied plans and applies the configuration, and gives the apply's end and log.
func applied(t *testing.T, f *fakeServer, cfg Config) (wire.Done, string) {
	t.Helper()
	start(t, cfg)
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	return f.await(), f.logText()
}

// A hostile configuration looks for everything that is not its own: a dozen and more ways, and
// each finds nothing. A door that is open prints its name.
func TestEscapes(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	secret := filepath.Join(outside, "runner.token") // so are the key ring and the credentials of the machine
	require.NoError(t, os.WriteFile(secret, []byte("top secret"), 0o644))
	shared, err := os.CreateTemp("", "holdfast-escape-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.Remove(shared.Name()) })
	socket := filepath.Join(outside, ".s.PGSQL.5432")
	listener, err := net.Listen("unix", socket)
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })

	f := newFakeServer(t, wire.Manifest{}, nil)
	cfg := enclosed(t, f)
	cfg.ProviderMirror = t.TempDir()
	other := filepath.Join(cfg.Dir, "attempts", "sbx-OTHER")
	doors := map[string]string{
		"the runner's token":             "cat " + secret,
		"what lies about in /tmp":        "ls " + shared.Name(),
		"the folder of another attempt":  "ls " + other,
		"states kept for operators":      "ls " + filepath.Join(cfg.Dir, "errored"),
		"the folder of the runner":       "cat " + filepath.Join(cfg.Dir, "lock"),
		"the home of the runner's user":  "ls /root /home/* | grep .",
		"passwords of the system":        "cat /etc/shadow",
		"configuration of services":      "ls /etc/holdfast /etc/postgresql /etc/kubernetes",
		"sockets of the system":          "ls /run/* /var/run/* | grep .",
		"the socket of the database":     "test -S " + socket,
		"the process of the runner":      fmt.Sprintf("kill -0 %d", os.Getpid()),
		"the environment of the runner":  fmt.Sprintf("cat /proc/%d/environ", os.Getpid()),
		"any environment but its own":    "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep HOLDFAST_ESCAPE_TEST",
		"writing to the provider mirror": "touch " + filepath.Join(cfg.ProviderMirror, "planted"),
		"changing tofu":                  "sh -c ': >> " + cfg.TofuPath + "'",
		"changing programs":              "touch /usr/bin/planted",
		"changing its enclosure":         "sh -c ': >> ../enclosure/" + orderFile + "'",
		"mounting":                       "mount -t tmpfs none /mnt",
		"a kernel's log level":           "sh -c 'cat /proc/sys/kernel/printk > /proc/sys/kernel/printk'",
		"the disks":                      "ls /dev/[svn]d* /dev/nvme* /dev/kmsg | grep .",
		"the settings of the kernel":     "sh -c 'echo core > /proc/sys/kernel/core_pattern'",
	}
	var script strings.Builder
	for name, door := range doors {
		fmt.Fprintf(&script, "if ( %s ) >/dev/null 2>&1; then echo \"OPEN: %s\"; else echo \"shut: %s\"; fi\n", door, name, name)
	}
	script.WriteString("echo HOME=$(ls -A \"$HOME\" | wc -l)\necho mine=$(cat \"$TF_CLI_CONFIG_FILE\" | wc -l)\n")
	f.inputs[wire.KindConfiguration] = pack(t, map[string]string{"main.tf": provisioned(script.String())})
	require.NoError(t, os.MkdirAll(filepath.Dir(other), 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(other) })

	end := start(t, cfg)
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	require.NoError(t, os.Mkdir(other, 0o777)) // after the start, which clears what it finds
	f.next("apply")
	assert.Equal(t, wire.OutcomeFinished, f.await().Outcome)
	log := f.logText()
	end()
	assert.NotContains(t, log, "(local-exec): OPEN: ")
	for name := range doors {
		assert.Contains(t, log, "(local-exec): shut: "+name)
	}
	assert.Contains(t, log, "(local-exec): HOME=", "a home of its own")
	assert.NotContains(t, log, "(local-exec): mine=0", "what is its own is there: else nothing of this means anything")
}

func TestWhatAnEnclosedRunMayUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limits Limits
		script string
		says   string
	}{
		"memory of one process": {Limits{Memory: 300 << 20}, "head -c 900m /dev/zero | tail", "memory exhausted"},
		"memory of all":         {Limits{Memory: 600 << 20}, "for i in 1 2; do (head -c 400m /dev/zero | tail -c 399m | sleep 1000) & done; wait", "more than the 600 MiB of memory"},
		"processes":             {Limits{Processes: 40}, "for i in $(seq 60); do sleep 1000 & done; wait", "processes"},
		"disk in one file":      {Limits{Disk: 50 << 20}, "dd if=/dev/zero of=big bs=1M count=100", "File size limit exceeded"},
		"disk in many":          {Limits{Disk: 50 << 20}, "for i in 1 2 3; do dd if=/dev/zero of=big$i bs=1M count=30; done; sleep 1000", "more than the 50 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": provisioned(c.script)})
			cfg := enclosed(t, f)
			cfg.Limits = c.limits
			done, log := applied(t, f, cfg)
			assert.Equal(t, wire.OutcomeErrored, done.Outcome)
			assert.True(t, done.TofuStarted)
			assert.Contains(t, log+done.Message, c.says)
		})
	}
}

func TestWithoutIsolationNothingIsPromised(t *testing.T) {
	e, err := newEnclosure(context.Background(), IsolationNone, Limits{})
	require.NoError(t, err)
	assert.Nil(t, e)
	_, err = newEnclosure(context.Background(), "chroot", Limits{})
	assert.True(t, fault.HasCode(err, "bad_isolation"))
}

func TestIsolationThatDoesNotWork(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := newEnclosure(context.Background(), IsolationBubblewrap, Limits{})
	require.True(t, fault.HasCode(err, "no_isolation"), "%v", err)
	assert.ErrorContains(t, err, "bwrap is not installed")
	e, err := newEnclosure(context.Background(), IsolationAuto, Limits{})
	require.NoError(t, err)
	assert.Nil(t, e, "then the runner serves one organization only")
}

func TestTheMetadataServiceIsNotToBeReached(t *testing.T) {
	ctx := context.Background()
	refused := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	require.NoError(t, checkMetadata(ctx, refused))
	for _, open := range metadata {
		err := checkMetadata(ctx, func(_ context.Context, network, address string) (net.Conn, error) {
			if address != open {
				return nil, errors.New("refused")
			}
			here, _ := net.Pipe()
			return here, nil
		})
		assert.True(t, fault.HasCode(err, "metadata_reachable"), open)
		assert.ErrorContains(t, err, open)
		assert.ErrorContains(t, err, "HOLDFAST_RUNNER_ALLOW_METADATA=true")
	}
}

func TestUse(t *testing.T) {
	memory, processes := use(os.Getpid())
	assert.Positive(t, memory)
	assert.Positive(t, processes)
	assert.Positive(t, anonymousMemory(strconv.Itoa(os.Getpid())))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), make([]byte, 1<<20), 0o600))
	assert.InDelta(t, 1<<20, diskUse(dir), 64<<10)
}

// A cancel reaches tofu through the enclosure, and what it had made is published.
func TestStopInTheEnclosure(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": slowConfig})
	start(t, enclosed(t, f))
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	f.next("apply")
	f.awaitLog("is-slow-now")
	f.mu.Lock()
	f.stop = true
	f.mu.Unlock()
	done := f.await()
	assert.Equal(t, wire.OutcomeCanceled, done.Outcome, f.logText())
	assert.Equal(t, 1, done.ExitCode, "tofu ended by itself after the interrupt")
	assert.Contains(t, string(f.state), `"first"`, "what was made is in the state")
}

// What a run leaves running ends with it: nothing of it is there for the next.
func TestNothingOutlivesTheEnclosure(t *testing.T) {
	t.Parallel()
	mark := fmt.Sprint(100_000 + os.Getpid()) // seconds that nobody else sleeps
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": provisioned("setsid sleep " + mark + " >/dev/null 2>&1 & echo left")})
	done, log := applied(t, f, enclosed(t, f))
	require.Equal(t, wire.OutcomeFinished, done.Outcome, log)
	require.Contains(t, log, "left")
	require.Eventually(t, func() bool {
		running, err := filepath.Glob("/proc/[0-9]*/cmdline")
		require.NoError(t, err)
		for _, process := range running {
			if line, err := os.ReadFile(process); err == nil && strings.Contains(string(line), "sleep\x00"+mark) {
				return false
			}
		}
		return len(running) > 0
	}, patience, 10*time.Millisecond)
}

// A runner that isolates nothing works for one organization, whoever offers what, and also
// after a new start.
func TestWithoutIsolationOneOrganizationIsServed(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig})
	f.owner = "org-1111111111111111"
	cfg := f.config()
	cfg.Isolation = IsolationNone
	end := start(t, cfg)
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	end()

	f.next("apply")
	f.mu.Lock()
	f.owner = "org-2222222222222222"
	f.mu.Unlock()
	var refused atomic.Bool // one who asks again has decided about what it was offered
	f.override = func(_ http.ResponseWriter, r *http.Request) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		if r.URL.Path == wire.PathPoll && f.offered {
			refused.Store(true)
		}
		return false
	}
	end = start(t, cfg)
	require.Eventually(t, refused.Load, patience, 10*time.Millisecond, "the work was offered")
	end()
	f.mu.Lock()
	defer f.mu.Unlock()
	assert.Equal(t, "org-1111111111111111", f.polled.OrganizationID, "it says whom it serves")
	assert.Nil(t, f.done)
	assert.NotContains(t, strings.Join(f.calls, "\n"), "accept", "work of another organization is not even accepted")
}
