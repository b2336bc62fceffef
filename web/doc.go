// Package web answers the addresses that people open in a browser.
//
// Owns: the page of a run, at the address the CLI prints. Words: none of its own.
// Invariants: what a page shows is escaped; it holds no script and no secret, and
// the strict Content-Security-Policy forbids scripts. Without a sign-in a page tells
// nothing that the address itself does not say.
// Refuses: changing anything.
// Tested by: web_test.go.
package web
