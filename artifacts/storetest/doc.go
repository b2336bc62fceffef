// Package storetest says what an artifacts.ObjectStore must do, as a test suite, and
// offers one in memory for tests.
//
// Owns: Contract, Memory. Words: none of its own.
// Invariants: every store of this repository passes Contract, Memory included.
// Refuses: any use outside tests.
// Tested by: memory_test.go, and artifacts/s3_test.go against a real server.
package storetest
