// Package chaos breaks everything that can break, under traffic, and then checks the history:
// several servers, several runners with a real tofu, PostgreSQL, an object store, and a proxy
// before the servers that loses, delays and repeats HTTP. `make chaos SEED=n` runs it.
//
// Owns: the cluster under test (stack), its fault proxy, the schedule of what breaks when, the
// traffic, the history, and the model that the history is checked against.
// Words: seed (the schedule, the fate of each request and the traffic follow from it), blow (one
// thing that is broken, and for how long), place (a workspace of the test), held (a workspace
// that is closed for recovery), false hold (a held run of which it turns out afterwards that
// nothing was lost), calm (the proxy's second door, where nothing is lost).
//
// What is checked, in model_test.go: every run has ended, or waits behind a held one; an apply was
// started at most once a run, and what the provider made it made once; every state that a server
// acknowledged is there, byte for byte, in one chain of serials and epochs, and the last is
// current; runs had their workspace one after the other in the order of their creation; at no
// instant an epoch fell, or a free workspace let a run wait; no secret is in any log. To hold is
// not the cheap way out: as long as no runner is lost, every run must succeed,
// and no run fails for another reason than that its runner was lost.
//
// Invariants: the model finds each breach that it is made for (TestTheModelFinds); the same seed
// gives the same schedule and fates (TestASeedIsASchedule); the proxy does to a request what its
// fate says (TestFates). Everything listens on loopback, and only processes that were started
// here are killed, by their id.
// Refuses: looking into the servers: they are driven over HTTP, and the database is read. One
// thing is written there: the last sign of life of a runner that is dead for sure is moved into
// the past, because the servers wait ten minutes for it.
// Tested by: proxycheck_test.go, modelcheck_test.go, in `make test`; all else needs `make chaos`.
package chaos
