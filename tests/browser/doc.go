// Package browser sees the pages in a real browser: what headers promise holds only if
// a browser keeps it, and a strict policy can also break a page that looks well in text.
//
// Owns: the ways through the pages that a person goes. Words: none of its own.
// Invariants: a test fails, and never skips, where the browser or a program is missing.
// Refuses: what an HTTP client can show as well; that is tested in package web.
// Tested by: breaking what it tests.
//
// `make browser` runs it inside `holdfast dev`, from which it takes its environment.
package browser
