package pgcluster

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// isPostmaster tells whether pid is a living server on data: such a process works in its
// data folder and has it on its command line. A zombie has neither.
func isPostmaster(pid int, data string) bool {
	proc := "/proc/" + strconv.Itoa(pid)
	if cwd, err := os.Readlink(proc + "/cwd"); err == nil {
		resolved, err := filepath.EvalSymlinks(data)
		return err == nil && cwd == resolved
	}
	args, err := os.ReadFile(proc + "/cmdline") // readable where cwd is not
	return err == nil && strings.Contains(string(args), "\x00"+data+"\x00")
}
