// Package migrations holds the schema as numbered SQL files and applies them.
//
// Owns: the *.sql files beside this one. Words: migration (one file, applied once).
// Invariants: several servers starting at once apply each file exactly once
// (session lock, TestServersThatStartTogetherApplyEachFileOnce); a file that has been
// released is never edited; no reference crosses an organization
// (TestNoReferenceCrossesTenants); each check and each unique rule is shown to refuse
// (TestEveryRuleIsRefusedOnce): a new one comes with its line in schema_test.go; a server
// works on a newer schema unless that says it needs newer servers
// (TestANewerSchemaIsRefusedOnlyWhenItSaysSo), so a migration only adds, and what it
// makes superfluous goes in a later release, which raises min_server to its own number.
// Refuses: data of users; a migration moves structure.
// Tested by: migrations_test.go, compatibility_test.go and schema_test.go.
package migrations
