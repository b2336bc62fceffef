package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
)

// Ways to isolate attempts, as Config.Isolation names them.
const (
	IsolationAuto       = "auto"       // bubblewrap where it works, else none
	IsolationBubblewrap = "bubblewrap" // or the runner does not start
	IsolationExternal   = "external"   // whoever starts the runner isolates it, in a container of its own for an attempt or an organization
	IsolationNone       = "none"       // attempts see what the runner's user sees, so that the runner serves one organization only
)

// Limits bound what one attempt may use. Zero is no limit.
type Limits struct {
	Memory    int64 // bytes, of all its processes together
	Disk      int64 // bytes, in the folder of the attempt
	Processes int   // at a time, threads not counted
}

// enclosure is where the programs of an attempt run: tofu, its providers, and whatever a
// hostile configuration starts. They see the system's programs, the attempt's own folder,
// and the network; no process, folder, variable or token of anybody else. nil is no
// enclosure: they see what the runner's user sees.
type enclosure struct {
	bubblewrap string   // path of bwrap
	runner     string   // path of our own program, which becomes bwrap (Enclosed)
	visible    []string // read-only
	limits     Limits
}

// system is what programs need of a system to run at all: no home, no /run, /var or /srv,
// and of /etc only what names the network and its authorities.
var system = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64",
	"/etc/alternatives", "/etc/ca-certificates", "/etc/crypto-policies", "/etc/gai.conf", "/etc/group", "/etc/host.conf", "/etc/hosts",
	"/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/nsswitch.conf", "/etc/passwd", "/etc/pki",
	"/etc/protocols", "/etc/resolv.conf", "/etc/services", "/etc/ssl",
}

// newEnclosure finds out whether attempts can be enclosed here. kind is one of the
// Isolation names; visible are further files and folders that attempts may read.
func newEnclosure(ctx context.Context, kind string, limits Limits, visible ...string) (*enclosure, error) {
	switch kind {
	case IsolationNone, IsolationExternal:
		return nil, nil
	case IsolationAuto, "", IsolationBubblewrap:
	default:
		return nil, fault.New(fault.Invalid, "bad_isolation", "HOLDFAST_RUNNER_ISOLATION is %q; it can be auto, bubblewrap, external or none.", kind)
	}
	e := &enclosure{limits: limits}
	err := e.find(ctx)
	if err == nil {
		for _, path := range append(system, visible...) {
			if _, err := os.Stat(path); path != "" && err == nil {
				e.visible = append(e.visible, path)
			}
		}
		return e, nil
	}
	if kind == IsolationBubblewrap {
		return nil, fault.New(fault.Unavailable, "no_isolation", "Attempts cannot be isolated with bubblewrap here: %s. Install it, and let users make namespaces; or set HOLDFAST_RUNNER_ISOLATION=none for a runner of one organization.", err)
	}
	slog.Warn("attempts are not isolated from this machine, so this runner serves one organization only", "reason", err)
	return nil, nil
}

func (e *enclosure) find(ctx context.Context) (err error) {
	if e.bubblewrap, err = exec.LookPath("bwrap"); err != nil {
		return errors.New("the program bwrap is not installed")
	}
	if e.runner, err = os.Executable(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	try := exec.CommandContext(ctx, e.bubblewrap, append(append([]string{}, alone...), "--ro-bind", "/", "/", "--proc", "/proc", "true")...)
	if said, err := try.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not work (%s)", e.bubblewrap, strings.TrimSpace(string(said)))
	}
	return nil
}

// alone makes namespaces of its own for everything but the network, gives up all
// capabilities, and ends everything in there with the first process.
var alone = []string{
	"--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
	"--cap-drop", "ALL", "--new-session", "--die-with-parent",
}

// knobs are the parts of /proc that change the kernel for everybody. Where the runner is
// root, they would belong to the programs inside, too: their owner is all that is asked for.
var knobs = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/driver", "/proc/scsi", "/proc/mtrr"}

// order is what Enclosed reads: how to become tofu inside.
type order struct {
	Program   string   // bwrap
	Arguments []string // before those of tofu
	FileSize  int64    // bytes of one file
	Memory    int64    // bytes of one process
	Processes int
}

const (
	enclosedName = "enclosed-tofu" // the name by which our program knows that it shall become tofu
	orderFile    = "order.json"
)

// enclose gives the path of a program that is tofu inside the enclosure, for one
// attempt whose sandbox it may write to. It may read the shown folders, too.
func (e *enclosure) enclose(box sandbox, tofu string, shown ...string) (string, error) {
	dir := filepath.Join(box.path, "enclosure")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	args := append([]string{}, alone...)
	args = append(args, "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")
	for _, knob := range knobs {
		args = append(args, "--ro-bind-try", knob, knob)
	}
	for _, path := range slices.Concat(e.visible, []string{tofu}, shown) {
		args = append(args, "--ro-bind", path, path)
	}
	args = append(args, "--bind", box.path, box.path, "--ro-bind", dir, dir)
	if filepath.Dir(box.tmp) != box.path {
		args = append(args, "--bind", box.tmp, box.tmp)
	}
	text, err := json.Marshal(order{
		Program: e.bubblewrap, Arguments: append(args, "--", tofu),
		FileSize: e.limits.Disk, Memory: e.limits.Memory, Processes: e.limits.Processes,
	})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, orderFile), text, 0o600); err != nil {
		return "", err
	}
	path := filepath.Join(dir, enclosedName)
	return path, os.Symlink(e.runner, path)
}

// metadata are the addresses where clouds give credentials of a machine to whoever asks.
var metadata = []string{"169.254.169.254:80", "[fd00:ec2::254]:80", "100.100.100.200:80"}

// errMetadata says that an attempt could become this machine.
func errMetadata(address string) error {
	return fault.New(fault.Forbidden, "metadata_reachable", "The cloud's metadata service answers at %s, so every configuration could take this machine's credentials. "+
		"Close it to the runner (a firewall rule, a network policy, or IMDSv2 with a hop limit of 1 in containers), or set HOLDFAST_RUNNER_ALLOW_METADATA=true if these credentials may be used by all runs.", address)
}

// checkMetadata refuses to work where attempts could reach the metadata service of a cloud.
// The network is the one thing that attempts share with the runner.
func checkMetadata(ctx context.Context, dial func(ctx context.Context, network, address string) (net.Conn, error)) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	found := make(chan string, len(metadata))
	for _, address := range metadata {
		go func() {
			conn, err := dial(ctx, "tcp", address)
			if err != nil {
				found <- ""
				return
			}
			_ = conn.Close()
			found <- address
		}()
	}
	for range metadata {
		if address := <-found; address != "" {
			return errMetadata(address)
		}
	}
	return nil
}

// diskUse is what the files below a folder take, in bytes. Files that vanish meanwhile count nothing.
func diskUse(dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it is gone
		}
		if info, err := d.Info(); err == nil && d.Type().IsRegular() {
			total += onDisk(info)
		}
		return nil
	})
	return total
}
