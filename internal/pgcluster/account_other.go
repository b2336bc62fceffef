//go:build unix && !linux

package pgcluster

import "syscall"

// namespaced is empty: user namespaces are Linux's.
func namespaced() []account { return nil }

// letPass cannot be had here.
func letPass(*syscall.SysProcAttr) bool { return false }
