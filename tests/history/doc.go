// Package history shows that what a server says of a workspace's state is one history.
//
// Owns: a crowd of writers and readers over HTTP, the faults around them, and the proof.
// Words: operation (a write or a read of a workspace's current state, from the request to
// the answer), linear (all operations can be put in one order that agrees with their
// answers and with who was done before whom began), unknown (a write whose answer nobody
// saw: it may have happened or not, also later).
// Invariants: the history is linear whatever crashes (promise 1); each acknowledged
// version is there at the end, to the byte; the server dies at every failpoint of an upload
// at least once, and PostgreSQL and the store are interrupted, or the test fails.
// Refuses: knowing how the server does it.
// Tested by: model_test.go, which shows the checker histories that must not pass.
package history
