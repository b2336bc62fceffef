// Package devstack is the supervisor behind `holdfast dev`: everything one user needs,
// as the separate processes of production, in one folder.
//
// Owns: the data folder DIR: lock, pids/, logs/, ports, tls/, keys/keyring.json, postgres/,
// s3/, runner/, s3-credentials, admin-token, runner-token, tofu.rc, env.
// Words: stack (all processes together), service (one of postgres, s3, server, runner),
// command (the user's program that runs inside the stack), bootstrap (migrations, the
// admin, organization demo, a runner group: done by a function that cmd/holdfast gives).
// Invariants:
//   - One supervisor per DIR (package dirlock); the second is told who is first.
//   - A service that ends is started again, on the same port and data
//     (TestAKilledServiceIsStartedAgain). Only while the stack starts are ports exchanged
//     that others have taken (TestAPortThatIsTakenMeanwhile).
//   - Nothing outlives the supervisor, however it ends (package child).
//   - It listens on loopback only, unless told otherwise (TestListenAddresses).
//   - Files with a secret have mode 0600 and appear complete, by a rename
//     (TestSecretFilesArePrivateAndKept).
//   - The runner's environment names neither database, store nor key ring
//     (TestTheRunnerSeesNoStore).
//
// Refuses: knowing what a server does: it imports no domain package.
// Tested by: the tests beside it; the whole stack by tests/e2e.
package devstack
