package runner

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/hashicorp/terraform-exec/tfexec"

	"github.com/holdfast-run/holdfast/fault"
)

// binary is the tofu that this runner executes.
type binary struct {
	path    string
	version string // exact, such as "1.12.6"
	digest  string // SHA-256, hex
	events  bool   // plan and apply know -json-into
	stamp   stamp  // of the file when its digest was taken
}

// inspect asks the tofu at path for its version.
func inspect(ctx context.Context, path string) (binary, error) {
	seen := stampOf(path) // before its bytes, so that a change between the two is one
	digest, err := digestOf(path)
	if err != nil {
		return binary{}, fault.New(fault.Invalid, "no_tofu", "The tofu binary %s cannot be read. Name one with HOLDFAST_TOFU.", path).Because(err)
	}
	tf, err := tfexec.NewTerraform(filepath.Dir(path), path)
	if err != nil {
		return binary{}, err
	}
	if err := tf.SetEnv(map[string]string{"HOME": os.Getenv("HOME"), "CHECKPOINT_DISABLE": "1", "TF_CLI_CONFIG_FILE": os.DevNull}); err != nil {
		return binary{}, err
	}
	version, _, err := tf.Version(ctx, true)
	if err != nil {
		return binary{}, fault.New(fault.Invalid, "no_tofu", "%s does not answer to `version` as tofu does. Name a tofu binary with HOLDFAST_TOFU.", path).Because(err)
	}
	return binary{path: path, version: version.String(), digest: digest, events: writesEvents(ctx, path), stamp: seen}, nil
}

// unchanged tells whether the file is what it was when the runner started. Its hundred
// megabytes are read again only when its stamp does not prove that already.
func (b binary) unchanged() bool {
	if now := stampOf(b.path); now != (stamp{}) && now == b.stamp {
		return true
	}
	digest, err := digestOf(b.path)
	return err == nil && digest == b.digest
}

// writesEvents asks tofu whether it can write its events beside what it prints. A
// version number would not tell: this is not in all releases, and builds differ.
func writesEvents(ctx context.Context, path string) bool {
	cmd := exec.CommandContext(ctx, path, "plan", "-help")
	cmd.Env = ownEnvironment()
	help, err := cmd.Output()
	return err == nil && bytes.Contains(help, []byte("-json-into="))
}

// ownEnvironment is that of a tofu that the runner asks something for itself.
func ownEnvironment() []string {
	return []string{"HOME=" + os.Getenv("HOME"), "CHECKPOINT_DISABLE=1", "TF_CLI_CONFIG_FILE=" + os.DevNull}
}

// stamp is what the system changes with every change of a file's bytes: two that are equal,
// and not the zero one, are of the same bytes. No program can set back the time of a change.
type stamp struct {
	device, inode, size int64
	modified, changed   time.Time
}

// settled is how long ago a file must have been changed for its stamp to prove anything: a
// change within the same tick of the file system's clock would not show.
const settled = 3 * time.Second
