// Package archtest holds the rules of the code base that a compiler does not, as tests.
//
// Owns: the import order, the bans (each with its reason), the shape of a package
// (doc.go with its headings, file length, names), the rules for SQL text, and how secrets are
// compared.
// Words: order (the list of packages, lowest first; a package imports only those
// before it), aside (a package that stands outside the order, with its own list),
// ban (a name with the packages that may use it), finding (one broken rule with its
// place and reason).
// Invariants: a rule never rots unseen: each banned name is looked up and must
// still exist, each package a rule names must exist or be listed as not yet there,
// and each checker is shown a small broken program that must turn it red.
// Refuses: matters of taste and formatting, which gofumpt and staticcheck hold.
// Tested by: checks_test.go (the checkers), arch_test.go (this repository).
package archtest
