// Package runnerapi is the server's side of the runner protocol.
//
// Owns: the handlers below /runner/v1, and the manifest's form. Words: those of
// package wire, which describes the protocol.
// Invariants: poll answers hold no secret; a credential is handed out by accept
// alone; every call after it acts for the attempt that its token stands for, and
// for no other; a refusal is never 5xx.
// Refuses: deciding anything; package runs does.
// Tested by: runnerapi_test.go.
package runnerapi
