//go:build !linux

package evaluator

// confine leaves the limits to Go's own memory limit and to the server, which ends a
// policy-runner that takes too long.
func confine(Limits) error { return nil }
