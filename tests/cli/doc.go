// Package cli runs the commands of the real tofu, one by one, against the real server.
//
// Owns: what each command says, changes and exits with, under both backends (cloud and
// remote), both strategies (a name, tags or a prefix) and both execution modes where
// both make sense. The tests whose names begin with Test_ are the scenarios of
// OpenTofu's own end-to-end suite for the cloud backend, under the names they have there.
// Words: stack (one `holdfast dev`, started once), desk (an organization of its own and
// the environment in which tofu works for it), folder (a configuration on disk at a
// desk), talk (a dialogue: wait for a text, answer it).
// Invariants: a test fails, and never skips, where a program is missing (TestMain); no
// test sees another's organization; the stack ends with the test process, however that
// ends (its command reads our pipe).
// Refuses: killing things, which is package e2e.
// Tested by: breaking what it tests.
package cli
