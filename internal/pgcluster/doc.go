// Package pgcluster runs a private PostgreSQL cluster as a child process: the
// database of `holdfast dev` and of the tests.
//
// Owns: a folder with data/ (the cluster), password (0600), lock and postgres.log.
// Words: cluster (one PostgreSQL server and its data), postmaster (its first process),
// durable (a commit that was answered survives a power cut).
// Invariants:
//   - data/ appears by a rename and is complete: a killed first start is begun afresh
//     (TestLifeOfACluster).
//   - One process runs a folder's cluster (package dirlock). Therefore a postmaster that
//     is found there is left over from a dead owner and is stopped, and a postmaster.pid
//     without such a process is removed (TestLifeOfACluster).
//   - It listens on 127.0.0.1 only, with no socket, and asks for a password
//     (TestLifeOfACluster).
//   - It works for root, whom PostgreSQL refuses: see account.go
//     (TestRootFallsBackToAnotherUser).
//
// Refuses: remote addresses, SQL, upgrading data of another major version.
// Tested by: pgcluster_test.go and account_test.go, on a real cluster.
package pgcluster
