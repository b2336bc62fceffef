// Package runner is what a runner machine does: it asks the server for work, runs
// tofu for one attempt at a time and reports what tofu did.
//
// Owns: the folder Config.Dir (attempts/, errored/, providers/, lock) and every process it starts.
// Words: attempt (one execution of one phase of a run), sandbox (the folder of one
// attempt, named anew each time), spool (a log of an attempt on its way to the
// server), events (the log that clients draw from), stop (a wish that the attempt
// ends: canceled, out of time, or the runner was told to end).
//
// Invariants:
//   - tofu apply starts only after the server answered apply-start
//     (TestApplyStartRefused, TestApplyStartUnanswered).
//   - Nothing that fails around a running tofu ends it: log writes, status polls and
//     uploads are repeated beside it (TestLogFailuresDoNotDisturbTofu). Only a stop does, and the server's word that the session
//     is over (TestAPlanThatIsRefusedEnds, TestAnApplyThatIsRefusedStopsCleanly).
//   - tofu reaches the server through the runner, on loopback, which repeats its reads until they
//     are answered (relay.go): tofu asks for some things once only, and a server that is away at
//     that moment must not fail the run (TestTheServerIsAwayWhenTofuStarts).
//   - An attempt gets nothing of another one, and leaves nothing behind except a state that
//     tofu could not publish, kept in errored/ and handed over to the server, if need be by the
//     next runner there (TestErroredStateIsKept, TestAKeptStateIsHandedOverLater, TestLeftovers, TestSeveralErroredStates).
//   - The configuration is unpacked inside its folder or not at all (unpack_test.go).
//   - Tokens and variable values are in no log line, message or process argument; nor does
//     tofu's own message show a value that it cannot take (TestValuesAreNotInTheLogs).
//   - One execution gives both logs, each up to its own limit; in that of events each line is
//     whole, and one that a client could bear (TestBothLogs, TestEachLogHasItsLimit,
//     TestEventsOverTheLimit, TestEventsLeaveOutWhatClientsCannotBear).
//   - An apply whose tofu was killed from outside has an unknown outcome (TestATofuThatTheSystemKills).
//   - No sensitive value is in the redacted plan (TestRedact).
//   - With a network mirror no registry is asked (TestNetworkMirrorThatCannotBeUsed).
//   - The cache of providers is written by the runner alone, after a hash check, and read by attempts; one organization's is
//     not another's, nor a speculative run's that of an apply (cache.go, TestWhatTheCacheDoesNotTake,
//     TestTheCacheIsDivided, TestAProviderIsInstalledOnce).
//   - An enclosed attempt sees nothing of the machine but programs, the network and its own
//     folder, and uses no more than it may (enclosure.go, TestEscapes, TestWhatAnEnclosedRunMayUse);
//     a runner that encloses nothing works for one organization
//     (TestWithoutIsolationOneOrganizationIsServed).
//
// Refuses: deciding anything. The runner says what it saw; the server decides what
// it means. It knows neither the database nor the object store. A runner that is
// killed takes its tofu with it (the kernel's parent-death signal, on Linux).
//
// Tested by: the tests here, against a server that speaks the protocol and a state
// API in memory, with the real tofu.
package runner
