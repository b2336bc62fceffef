// Package testdb gives each test a database of its own on a real PostgreSQL.
//
// Owns: the test server, the migrated template, one clone of it per test, and what each
// clone is asked (Watch).
// Words: server (the one HOLDFAST_TEST_DATABASE_URL names, else a cluster of this test
// process, started at first use, with its files in memory where Linux has room there), template (an empty database with all migrations,
// named by the digest of their files and shared by all test processes of a server).
// Invariants: tests never see each other's rows (TestEachTestHasItsOwnDatabase); the
// template is complete or absent (it gets its name last); the server of a test process
// goes with the process, however that ends (TestTheServerGoesWithItsProcess).
// Refuses: any use outside tests; durability: fsync is off.
// Tested by: testdb_test.go, and by those who use it.
//
// `go run ./internal/testdb/cmd/testcluster -- COMMAND…` starts one server for a whole
// run of many packages.
package testdb
