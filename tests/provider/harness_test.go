package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// patience is how long a test waits for something that always comes.
const patience = 3 * time.Minute

var (
	mirror string // a mirror that build.sh made for all tests
	tofu   string // the tofu binary
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if err := prepare(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(mirror)
	return m.Run()
}

func prepare() (err error) {
	tofu = os.Getenv("HOLDFAST_TEST_TOFU")
	if tofu == "" {
		tofu = "../../bin/tofu"
	}
	if tofu, err = filepath.Abs(tofu); err != nil {
		return err
	}
	if _, err := os.Stat(tofu); err != nil {
		return fmt.Errorf("these tests need a tofu: run `make tofu`, or name one in HOLDFAST_TEST_TOFU: %w", err)
	}
	if mirror, err = os.MkdirTemp("", "provider-mirror-"); err != nil {
		return err
	}
	return build(mirror)
}

// build runs build.sh on dir.
func build(dir string) error {
	out, err := exec.Command("./build.sh", dir).CombinedOutput()
	if err != nil {
		return fmt.Errorf("build.sh: %w\n%s", err, out)
	}
	return nil
}

// folder is a configuration that tofu works on, with a ledger and nothing from outside.
type folder struct {
	t      *testing.T
	dir    string
	ledger string
}

// newFolder makes a folder in which the configuration is initialized. A %[1]s in it
// becomes the folder's path.
func newFolder(t *testing.T, configuration string) *folder {
	t.Helper()
	t.Parallel()
	f := &folder{t: t, dir: t.TempDir()}
	f.ledger = filepath.Join(f.dir, "ledger")
	f.write("tofurc", fmt.Sprintf("provider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n", mirror))
	f.write("providers.tf", `
		terraform {
		  required_providers {
		    fault = { source = "holdfast-run/fault" }
		    null  = { source = "hashicorp/null", version = "~> 3.0" }
		  }
		}`)
	f.configure(configuration)
	f.must("init")
	return f
}

func (f *folder) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.path(name), []byte(text), 0o644))
}

func (f *folder) path(name string) string { return filepath.Join(f.dir, name) }

// configure replaces the configuration.
func (f *folder) configure(configuration string) {
	f.t.Helper()
	f.write("main.tf", strings.ReplaceAll(configuration, "%[1]s", f.dir))
}

// command is tofu with its arguments, ready to start.
func (f *folder) command(args ...string) *exec.Cmd {
	cmd := exec.Command(tofu, args...)
	cmd.Dir = f.dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + f.dir, "TMPDIR=" + f.dir,
		"TF_CLI_CONFIG_FILE=" + f.path("tofurc"), "TF_IN_AUTOMATION=1", "TF_INPUT=0", "CHECKPOINT_DISABLE=1",
		"FAULT_LEDGER=" + f.ledger, "TFE_RUN_ID=run-" + f.t.Name(),
	}
	return cmd
}

// must runs tofu and gives what it printed; it has to succeed.
func (f *folder) must(args ...string) string {
	f.t.Helper()
	out, err := f.command(args...).CombinedOutput()
	require.NoError(f.t, err, "tofu %s:\n%s", strings.Join(args, " "), out)
	return string(out)
}

// fails runs tofu and gives what it printed; it has to end with exit code 1.
func (f *folder) fails(args ...string) string {
	f.t.Helper()
	out, err := f.command(args...).CombinedOutput()
	require.Equal(f.t, 1, exitCode(err), "tofu %s:\n%s", strings.Join(args, " "), out)
	return strings.Join(strings.Fields(strings.ReplaceAll(string(out), "│", " ")), " ")
}

func exitCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func (f *folder) apply() string { f.t.Helper(); return f.must("apply", "-auto-approve", "-no-color") }

func (f *folder) destroy() string {
	f.t.Helper()
	return f.must("destroy", "-auto-approve", "-no-color")
}

func (f *folder) applyFails() string {
	f.t.Helper()
	return f.fails("apply", "-auto-approve", "-no-color")
}

// entry is a line of the ledger.
type entry struct {
	Time                       time.Time
	PID                        int
	Run, Event, Type, ID, Name string
}

// entries reads the ledger; it is empty before the first line.
func (f *folder) entries() (found []entry) {
	f.t.Helper()
	text, err := os.ReadFile(f.ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	require.NoError(f.t, err)
	for line := range bytes.Lines(text) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var e entry
		require.NoError(f.t, json.Unmarshal(line, &e))
		found = append(found, e)
	}
	return found
}

// events gives the ledger as "event name", or "event" where there is no name.
func (f *folder) events() (found []string) {
	f.t.Helper()
	for _, e := range f.entries() {
		found = append(found, strings.TrimSpace(e.Event+" "+e.Name))
	}
	return found
}

// awaitEvent returns when the ledger has the event.
func (f *folder) awaitEvent(event string) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		for _, seen := range f.events() {
			if seen == event {
				return true
			}
		}
		return false
	}, patience, 10*time.Millisecond, "the ledger never said %q", event)
}

// existing gives the objects that exist by the ledger: id → name.
func (f *folder) existing() map[string]string {
	f.t.Helper()
	there := map[string]string{}
	for _, e := range f.entries() {
		switch e.Event {
		case "created":
			there[e.ID] = e.Name
		case "deleted":
			delete(there, e.ID)
		}
	}
	return there
}

// instance is a resource of the state.
type instance struct {
	Tainted bool
	Values  map[string]any
}

// state reads the state: address → instance.
func (f *folder) state() map[string]instance {
	f.t.Helper()
	cmd := f.command("show", "-json")
	out, err := cmd.Output()
	require.NoError(f.t, err)
	var shown struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Address string
					Tainted bool
					Values  map[string]any
				}
			} `json:"root_module"`
		}
	}
	require.NoError(f.t, json.Unmarshal(out, &shown))
	found := map[string]instance{}
	for _, r := range shown.Values.RootModule.Resources {
		found[r.Address] = instance{r.Tainted, r.Values}
	}
	return found
}

// agrees checks that the state holds exactly the objects that exist.
func (f *folder) agrees() {
	f.t.Helper()
	ids := map[string]string{}
	for address, r := range f.state() {
		if strings.HasPrefix(address, "data.") {
			continue
		}
		name, _ := r.Values["name"].(string)
		ids[r.Values["id"].(string)] = name
	}
	require.Equal(f.t, f.existing(), ids, "ledger and state disagree")
}
