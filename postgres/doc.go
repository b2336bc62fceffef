// Package postgres is the door to PostgreSQL: the pool, transactions, named
// queries, and what an SQLSTATE means. A query may have lines that are there only when they
// apply, and may be planned anew for its arguments (ParseQueries).
//
// Owns: InTx, InSnapshot and InOneStatement, the reading of named queries, the counting of statements, one LISTEN connection, NOTIFY after the commit,
// statements that are put off (Later) to share a round trip.
// Words: tx (a transaction somebody else began and will end), snapshot (a
// read-only transaction in which every statement sees the same instant), era (the
// time between two crashes of the database), exchange (a
// transaction's connection, and one round trip on it).
// Invariants: a function that takes a Tx never begins or commits. InTx may run its
// function again after a serialization failure or deadlock, so nothing outside the
// database happens in it (TestInTxRunsAgainAfterASerializationFailure,
// TestInTxSurvivesADeadlock). A COMMIT whose answer was lost is looked up by its
// transaction id, never rerun blindly (TestALostCommitIsLookedUp,
// TestAnUndecidableCommitIsUnknown), and not believed in another era
// (TestALostCommitIsNotTakenForALaterOneOfItsID). A snapshot sees one instant and writes nothing
// (TestASnapshot…); a read outside any transaction is one statement, which sees one
// instant by itself (TestAReadOfOneStatementIsOneAndReads). A notification leaves after the commit of its
// transaction and never without it (TestNotifyWakesAfterTheCommitAndOnlyThen). What a context's statements cost can be counted (TestStatementsAreCounted). What is put off
// runs in its order, before the next statement or the commit, and ends the transaction when it
// fails (TestStatementsThatArePutOff…). No error holds the password (TestThePasswordIsInNoError).
// Refuses: business rules; a constraint's meaning belongs to the package that owns the table.
// Tested by: postgres_test.go, exchange_test.go and snapshot_test.go, with connections lost at will (proxy_test.go), listen_test.go
// and queries_test.go.
package postgres
