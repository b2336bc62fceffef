//go:build unix

package devstack

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// layout names the files of a data folder.
type layout struct{ dir string }

func (l layout) path(elements ...string) string {
	return filepath.Join(append([]string{l.dir}, elements...)...)
}

func (l layout) pid(name string) string { return l.path("pids", name) }
func (l layout) log(name string) string { return l.path("logs", name+".log") }
func (l layout) postgres() string       { return l.path("postgres") }
func (l layout) s3() string             { return l.path("s3") }
func (l layout) runner() string         { return l.path("runner") }
func (l layout) keyring() string        { return l.path("keys", "keyring.json") }
func (l layout) tls(file string) string { return l.path("tls", file) }
func (l layout) ports() string          { return l.path("ports") }
func (l layout) env() string            { return l.path("env") }
func (l layout) cliConfig() string      { return l.path("tofu.rc") }
func (l layout) s3Credentials() string  { return l.path("s3-credentials") }
func (l layout) adminToken() string     { return l.path("admin-token") }
func (l layout) adminPassword() string  { return l.path("admin-password") }
func (l layout) adminTOTP() string      { return l.path("admin-totp") }
func (l layout) runnerToken() string    { return l.path("runner-token") }

// makeFolders makes the folder and those in it that hold files of ours.
func (l layout) makeFolders() error {
	for _, dir := range []string{l.dir, l.path("pids"), l.path("logs"), l.path("tls"), l.path("keys"), l.s3(), l.runner()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	// The folder usually lies in a repository, and it is full of secrets.
	// One that is there is the user's: it may be the folder of something else too.
	ignore, err := os.OpenFile(l.path(".gitignore"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = ignore.WriteString("*\n")
	return errors.Join(err, ignore.Close())
}

// writePrivate replaces a file by one of mode 0600; a reader sees the old or the new content.
func writePrivate(path, content string) error {
	temporary := path + ".new"
	if err := os.Remove(temporary); err != nil && !os.IsNotExist(err) {
		return err
	}
	if err := os.WriteFile(temporary, []byte(content), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}

// readTrimmed gives the content of a file, or "" when there is none.
func readTrimmed(path string) (string, error) {
	content, err := os.ReadFile(path)
	if os.IsNotExist(err) {
		return "", nil
	}
	return strings.TrimSpace(string(content)), err
}

// keyPair is the S3 endpoint's only account.
type keyPair struct{ id, secret string }

// ensureS3Credentials reads the key pair of the folder, or makes one. It must not change
// later: the store keeps the id as the owner of what it holds.
func ensureS3Credentials(l layout) (keyPair, error) {
	content, err := readTrimmed(l.s3Credentials())
	if err != nil {
		return keyPair{}, err
	}
	if fields := strings.Fields(content); len(fields) == 2 {
		return keyPair{fields[0], fields[1]}, nil
	}
	pair := keyPair{"dev" + rand.Text()[:17], rand.Text() + rand.Text()[:14]}
	return pair, writePrivate(l.s3Credentials(), pair.id+"\n"+pair.secret+"\n")
}
