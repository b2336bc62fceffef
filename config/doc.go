// Package config reads what a server is told by its environment.
//
// Owns: the names of the environment variables of `holdfast server` and `holdfast
// admin`. Words: none of its own.
// Invariants: no other package of the server reads the environment (internal/archtest);
// a missing or unreadable value stops the start with its name and what to do.
// Refuses: flags of development; `holdfast dev` sets these variables like anybody.
// Tested by: config_test.go.
package config
