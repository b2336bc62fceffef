// Package runnerapi is the server's side of the runner protocol.
//
// Owns: the handlers below /runner/v1, and the manifest's form. Words: those of
// package wire, which describes the protocol.
// Invariants: poll answers hold no secret; a credential is handed out by accept,
// and by bootstrap for what accept answered (TestTheProtocol, TestASessionIsRedeemed); every call after it acts for the attempt that its token
// stands for, and for no other (TestWhoMayCall); a runner of the release before works
// (TestARunnerOfVersionOneWorks); what a runner sends wrongly is never
// answered with 5xx, which says: try again.
// Refuses: deciding anything; package runs does.
// Tested by: runnerapi_test.go, poll_test.go, rules_test.go and authority_test.go, which speak the protocol
// as a stranger would, and refuse_test.go.
package runnerapi
