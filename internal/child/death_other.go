//go:build unix && !linux

package child

import "syscall"

// setDeathSignal does nothing: only Linux knows the parent-death signal.
func setDeathSignal(*syscall.SysProcAttr, syscall.Signal) {}
