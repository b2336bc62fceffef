//go:build !failpoint

package failpoint

// Here does nothing in a normal build.
func Here(string) {}
