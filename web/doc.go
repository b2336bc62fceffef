// Package web answers the addresses that people open in a browser, and exchanges the
// codes that a login brings from there.
//
// Owns: the page of a run, at the address the CLI prints; sign-in and sign-out; the
// consent to a tofu login and its token address (OAuth 2 authorization code with PKCE);
// the page of a user's tokens and that of its second factor. Words: session (who is signed in in this browser), form
// token (what proves that a form was on a page of the same session), next (the page
// that a sign-in leads to).
// Invariants: what a page shows is escaped; it holds no script, and the strict
// Content-Security-Policy forbids scripts and frames; no page is kept by a cache
// (TestEveryPage…); without a token or a session a page tells nothing that the address
// itself does not say; a form counts only from our own origin and its own session
// (TestForms…); a redirect leads to a page of ours or, with a code, to a port of the
// user's own machine (TestNobodyIsSentElsewhere); a secret is shown once, to its owner.
// Refuses: deciding who may do what, and all the rules of passwords, sessions and codes:
// package accounts. The API takes no cookies, so nothing here can act through it.
// Tested by: the _test.go files beside this one, tests/e2e/login_test.go with the real
// client, tests/browser with a real browser.
package web
