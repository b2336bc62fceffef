//go:build unix

package pgcluster

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom the PostgreSQL programs run as.
type account struct {
	attr     syscall.SysProcAttr
	uid, gid int // who must own the cluster's files, as seen from here
}

// accounts lists whom the programs may run as, the best first. PostgreSQL refuses to run as
// root, so for root they are: a user namespace in which root goes by another number, then
// the users postgres and nobody, then those with the right to pass the folders on the way
// to the data, which are often root's alone.
func accounts() []account {
	if os.Geteuid() != 0 {
		return nil
	}
	return append(namespaced(), otherUsers()...)
}

func otherUsers() []account {
	var plain, passing []account
	for _, name := range []string{"postgres", "nobody"} {
		uid, gid, ok := lookup(name)
		if !ok {
			continue
		}
		user := account{uid: uid, gid: gid, attr: syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
		}}
		plain = append(plain, user)
		if letPass(&user.attr) {
			passing = append(passing, user)
		}
	}
	return append(plain, passing...)
}

// choose gives the first account that can run the program postgres in bin and enter dir. If
// none can, the programs run plainly, and say themselves why they refuse.
func choose(ctx context.Context, accounts []account, bin, dir string) account {
	for _, a := range accounts {
		if os.Chown(dir, a.uid, a.gid) != nil {
			continue
		}
		probe := exec.CommandContext(ctx, "/bin/sh", "-c", `cd "$1" && exec "$2" --version`, "sh", dir, filepath.Join(bin, "postgres"))
		probe.Dir = "/"
		attr := a.attr
		probe.SysProcAttr = &attr
		if probe.Run() == nil {
			return a
		}
	}
	return account{uid: os.Geteuid(), gid: os.Getegid()}
}

func lookup(name string) (uid, gid int, ok bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, false
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	return uid, gid, uidErr == nil && gidErr == nil
}

// own gives dir and all in it to the account; only root ever needs that.
func (a account) own(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, a.uid, a.gid)
	})
}
