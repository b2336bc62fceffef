//go:build unix

package dirlock

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/holdfast-run/holdfast/fault"
)

// Lock is a held lock. It ends with Release or with the process.
type Lock struct{ file *os.File }

// Acquire takes the lock of dir, which must exist. A folder owned by another process
// is fault.Locked, code "folder_in_use", naming that process.
func Acquire(dir string) (*Lock, error) {
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		defer file.Close()
		return nil, fault.New(fault.Locked, "folder_in_use",
			"%s is in use by process %s. Stop that process, or use another folder.", dir, holder(file))
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	// The pid is only for the message above: the lock itself is the kernel's.
	if err := errors.Join(file.Truncate(0), writePid(file)); err != nil {
		_ = file.Close()
		return nil, err
	}
	return &Lock{file: file}, nil
}

// Release gives the folder up.
func (l *Lock) Release() { _ = l.file.Close() }

func writePid(file *os.File) error {
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(file *os.File) string {
	buf := make([]byte, 20)
	n, _ := file.ReadAt(buf, 0)
	if pid := strings.TrimSpace(string(buf[:n])); pid != "" {
		return pid
	}
	return "(unknown)"
}
