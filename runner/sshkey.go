package runner

import (
	"path/filepath"
	"strings"
)

// giveSSHKey lets git, by which tofu fetches modules over SSH, use a private key. Hosts are
// trusted when they are first met, and remembered as long as the sandbox lives. Who sets
// GIT_SSH_COMMAND himself has it his way.
func (s sandbox) giveSSHKey(env map[string]string, key string) error {
	if key == "" || env["GIT_SSH_COMMAND"] != "" {
		return nil
	}
	path := filepath.Join(s.path, "ssh-key")
	if err := writeNew(path, []byte(strings.TrimRight(key, "\r\n")+"\n")); err != nil { // ssh demands the line's end
		return err
	}
	env["GIT_SSH_COMMAND"] = "ssh -i " + shellWord(path) + " -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile=" + shellWord(filepath.Join(s.path, "known-hosts"))
	return nil
}
