//go:build unix && !linux

package pgcluster

import "syscall"

// isPostmaster tells whether pid lives. Without /proc this is as much as PostgreSQL itself
// checks.
func isPostmaster(pid int, _ string) bool { return syscall.Kill(pid, 0) == nil }
