// Package operator is the command line of whoever recovers interrupted applies.
//
// Owns: the commands of `holdfast admin recover`, where they find the server and the token,
// and what they print. Words: rehearsal (everything is read and shown, and nothing is
// changed), proven (the API says that nothing is in doubt), mine (a recovery that this
// user has prepared).
// Invariants: it speaks the public API and nothing else, so it may do what its token may;
// nothing is changed without --apply (TestNothingIsChangedWithoutApply); a password or code
// is asked for only when the API demands a step-up (TestAStepUpIsAskedForOnce), and is sent
// nowhere else; the token goes to the server it is for, also when that redirects; text of
// others is printed through package terminal (TestForeignTextCannotAct); a request names
// exactly the evidence that was shown.
// Refuses: deciding whether a state is right, and what is in doubt: the API does.
// Tested by: its own tests against a server that plays the API, tests/e2e with the real one.
package operator
