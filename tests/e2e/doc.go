// Package e2e sees the whole product at work: a real tofu, the real binaries, every
// service as a process of its own, over HTTPS.
//
// Owns: the scenarios a user lives through. Words: stack (one `holdfast dev` with all
// its services), shared stack (started once for the package; it has one runner, so
// remote runs take turns), private stack (of a test that kills things), folder (a
// configuration with its own workspace), gate (a file that a slow apply waits for).
// Invariants: a test fails, and never skips, where a program is missing (TestMain); a
// stack ends with the test process, however that ends (its command reads our pipe).
// Refuses: looking behind the API, except to kill, to read logs and to search the
// stored bytes.
// Tested by: breaking what it tests.
package e2e
