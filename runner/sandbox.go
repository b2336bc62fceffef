package runner

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

const (
	overrideName = "zz_holdfast_override.tf"
	lockFileName = ".terraform.lock.hcl"
	erroredState = "errored.tfstate" // what tofu writes into its folder when it cannot publish a state
)

// sandbox is the folder of one attempt.
type sandbox struct {
	id   string // its name; random, so that no two attempts share one
	path string
	work string // where tofu runs: the configuration's working directory
	tmp  string // TMPDIR of tofu
}

// longestTmp is how long the path of TMPDIR may be: tofu and its providers make
// sockets there, and the path of a socket ends at about a hundred bytes.
const longestTmp = 80

// newSandbox makes the folder, for the runner's user alone.
func newSandbox(parent string) (sandbox, error) {
	id := "sbx-" + rand.Text()
	s := sandbox{id: id, path: filepath.Join(parent, id)}
	for _, dir := range []string{s.path, s.config(), s.home()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return sandbox{}, err
		}
	}
	s.tmp = filepath.Join(s.path, "tmp")
	if len(s.tmp) <= longestTmp {
		return s, os.Mkdir(s.tmp, 0o700)
	}
	short, err := os.MkdirTemp("", tmpPrefix)
	if err != nil {
		return sandbox{}, err
	}
	err = os.Symlink(short, s.tmp) // for whoever removes the sandbox
	s.tmp = short
	return s, err
}

const tmpPrefix = "holdfast-runner-"

// removeSandbox deletes a sandbox, also one of a runner that is gone.
func removeSandbox(path string) error {
	if short, err := os.Readlink(filepath.Join(path, "tmp")); err == nil &&
		filepath.Dir(short) == filepath.Clean(os.TempDir()) && strings.HasPrefix(filepath.Base(short), tmpPrefix) {
		if err := removeAll(short); err != nil {
			return err
		}
	}
	return removeAll(path)
}

// removeAll deletes also what is in folders that their makers closed to writing, as
// those of Go's module cache.
func removeAll(path string) error {
	if err := os.RemoveAll(path); err == nil {
		return nil
	}
	openFolders(path)
	return os.RemoveAll(path)
}

// openFolders gives the runner all rights in a folder and those in it, as far as it may.
func openFolders(path string) {
	_ = filepath.WalkDir(path, func(at string, d fs.DirEntry, err error) error { // follows no links
		if err == nil && d.IsDir() {
			_ = os.Chmod(at, 0o700)
		}
		return nil
	})
}

func (s sandbox) config() string       { return filepath.Join(s.path, "config") }
func (s sandbox) home() string         { return filepath.Join(s.path, "home") }   // HOME of tofu in an enclosure
func (s sandbox) mirror() string       { return filepath.Join(s.path, "mirror") } // of what the cache has for the attempt
func (s sandbox) cliConfig() string    { return filepath.Join(s.path, "tofu.rc") }
func (s sandbox) plan() string         { return filepath.Join(s.path, "plan") }
func (s sandbox) planJSON() string     { return filepath.Join(s.path, "plan.json") }
func (s sandbox) planRedacted() string { return filepath.Join(s.path, "plan-redacted.json") }
func (s sandbox) logSpool() string     { return filepath.Join(s.path, "log") }
func (s sandbox) eventSpool() string   { return filepath.Join(s.path, "events") }
func (s sandbox) eventPipe() string    { return filepath.Join(s.path, "events.pipe") }
func (s sandbox) generated() string    { return filepath.Join(s.path, "generated.tf") }
func (s sandbox) lockFile() string     { return filepath.Join(s.work, lockFileName) }
func (s sandbox) erroredState() string { return filepath.Join(s.work, erroredState) }

// enter finds the working directory in the unpacked configuration and removes from
// it what a client's own runs left there and tofu would take for its own.
func (s *sandbox) enter(workingDirectory string) error {
	name := filepath.Clean(filepath.FromSlash("./" + workingDirectory))
	root, err := os.OpenRoot(s.config())
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Stat(name); err != nil || !info.IsDir() {
		return fmt.Errorf("the configuration has no folder %q, which is the workspace's working directory", workingDirectory)
	}
	work, err := root.OpenRoot(name)
	if err != nil {
		return err
	}
	defer func() { _ = work.Close() }()
	for _, leftover := range []string{
		".terraform/terraform.tfstate", ".terraform/environment", ".terraform/providers",
		"terraform.tfstate", "terraform.tfstate.backup", erroredState,
	} {
		if err := work.RemoveAll(leftover); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	s.work, err = filepath.EvalSymlinks(filepath.Join(s.config(), name))
	return err
}

// writeCLIConfig writes the file that tells tofu at which address it finds the server's API
// and registry, with which token it speaks there, and where providers come from. Nothing else holds the token.
func (s sandbox) writeCLIConfig(host, address, token string, providers providerSources) error {
	installation, err := providers.installation(host)
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "disable_checkpoint = true\n\ncredentials %s {\n  token = %s\n}\n\n", cliString(host), cliString(token))
	fmt.Fprintf(&b, "host %s {\n  services = {\n", cliString(host))
	for _, service := range []struct{ name, path string }{
		{"tfe.v2", "/api/v2/"},
		{"tfe.v2.1", "/api/v2/"},
		{"tfe.v2.2", "/api/v2/"},
		{"state.v2", "/api/v2/"},
		{"modules.v1", "/api/registry/v1/modules/"},
		{"providers.v1", "/api/registry/v1/providers/"},
	} {
		fmt.Fprintf(&b, "    %s = %s\n", cliString(service.name), cliString(address+service.path))
	}
	b.WriteString("  }\n}\n" + installation)
	return os.WriteFile(s.cliConfig(), []byte(b.String()), 0o600)
}

// cliString writes text as a string of the CLI configuration, whose language is the older HCL.
func cliString(text string) string {
	encoded, _ := json.Marshal(text)
	return string(encoded)
}

// writeOverride writes the override file that puts this server's workspace in the
// place of whatever cloud, remote or other backend block the configuration has.
func (s sandbox) writeOverride(host string, m wire.Manifest) error {
	name, err := lastOf(s.work, overrideName, isOverride, func(last string) string {
		stem, _, _ := strings.Cut(last, ".")
		return stem + "_" + overrideName
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("terraform {\n  cloud {\n    hostname     = %s\n    organization = %s\n    workspaces {\n      name = %s\n    }\n  }\n}\n",
		hclString(host), hclString(m.OrganizationName), hclString(m.WorkspaceName))
	return writeNew(filepath.Join(s.work, name), []byte(text))
}

// isOverride says whether tofu merges the file over the others.
func isOverride(name string) bool {
	stem, ok := configurationStem(name)
	return ok && (stem == "override" || strings.HasSuffix(stem, "_override"))
}

// isConfiguration says whether tofu reads the file as configuration.
func isConfiguration(name string) bool {
	_, ok := configurationStem(name)
	return ok
}

// configurationStem is the name of a configuration file without what makes it one.
func configurationStem(name string) (stem string, ok bool) {
	for _, ext := range []string{".tf", ".tofu", ".tf.json", ".tofu.json"} {
		if stem, ok = strings.CutSuffix(name, ext); ok {
			return stem, true
		}
	}
	return "", false
}

// lastOf gives a file name that comes after all those in the folder that are of the
// same sort: tofu reads them in the order of their names, and the last one wins. It
// is wish, if that is so, else what after makes of the last name there.
func lastOf(dir, wish string, sort func(string) bool, after func(last string) string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, entry := range entries { // sorted as tofu sorts them
		if name := entry.Name(); sort(name) && name >= wish {
			wish = after(name)
		}
	}
	return wish, nil
}

// writeNew writes a file that must not be there yet, not even as a link.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Write(text); err != nil {
		return err
	}
	return file.Close()
}

// hclString writes text as an HCL string that means exactly that text.
func hclString(text string) string {
	quoted, _ := json.Marshal(text)
	return strings.NewReplacer("${", "$${", "%{", "%%{").Replace(string(quoted))
}
