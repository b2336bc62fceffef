// Package dirlock lets one process at a time own a folder.
//
// Owns: the file "lock" in a folder. Words: holder (the process that has the lock).
// Invariants: the kernel holds the lock, so a dead holder never blocks anybody and a
// stale file means nothing (TestAStaleLockFileDoesNotBlock).
// Refuses: waiting; who comes second is told who was first.
// Tested by: dirlock_test.go.
package dirlock
