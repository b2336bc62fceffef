package chaos

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// applyWithTofu is a person with the real tofu who applies in cloud mode through the storm. The
// client does not repeat everything itself: it reads logs once, for one. A person whose
// command ended badly looks, and tries again; tries is how often.
func (s *stack) applyWithTofu(p place, configuration string, tries int) error {
	dir := filepath.Join(s.dir, "clients", p.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	address, err := url.Parse(s.proxy.url())
	if err != nil {
		return err
	}
	cloud := fmt.Sprintf("terraform {\n  cloud {\n    hostname = %q\n    organization = \"demo\"\n    workspaces {\n      name = %q\n    }\n  }\n}\n", address.Host, p.name)
	client := fmt.Sprintf("disable_checkpoint = true\ncredentials %q {\n  token = %q\n}\nprovider_installation {\n  filesystem_mirror {\n    path = %q\n  }\n}\n",
		address.Host, s.environ["TFE_TOKEN"], filepath.Join(s.dir, "providers"))
	for name, content := range map[string]string{"cloud.tf": cloud, "main.tf": configuration, "tofu.rc": client} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	for ; ; tries-- {
		err := s.tofu(dir, "init", "-input=false")
		if err == nil {
			err = s.tofu(dir, "apply", "-auto-approve", "-input=false", "-lock-timeout=60s")
		}
		if err == nil || tries == 0 {
			return err
		}
		time.Sleep(2 * time.Second)
	}
}

func (s *stack) tofu(dir string, args ...string) error {
	cmd := exec.Command(bin("tofu"), args...)
	cmd.Dir = dir
	cmd.Env = append(plainEnviron(), "SSL_CERT_FILE="+s.environ["SSL_CERT_FILE"], "TF_CLI_CONFIG_FILE="+filepath.Join(dir, "tofu.rc"), "TF_CLI_ARGS=-no-color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("tofu %v: %w\n%s", args, err, said[max(0, len(said)-400):])
	}
	return nil
}
