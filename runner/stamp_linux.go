package runner

import (
	"os"
	"syscall"
	"time"

	"github.com/holdfast-run/holdfast/clock"
)

// stampOf gives the stamp of the file, the zero one where it would prove nothing. The file is
// opened because a network's file system answers for an open file alone from where it lies.
func stampOf(path string) stamp {
	file, err := os.Open(path)
	if err != nil {
		return stamp{}
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return stamp{}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}
	}
	changed := time.Unix(stat.Ctim.Unix())
	if clock.Since(changed) < settled {
		return stamp{}
	}
	return stamp{device: int64(stat.Dev), inode: int64(stat.Ino), size: stat.Size, modified: info.ModTime(), changed: changed}
}
