// Package migrations holds the schema as numbered SQL files and applies them.
//
// Owns: the *.sql files beside this one. Words: migration (one file, applied once).
// Invariants: several servers starting at once apply each file exactly once
// (session lock); a file that has been released is never edited.
// Refuses: data of users; a migration moves structure.
// Tested by: migrations_test.go.
package migrations
