// Package dispatch hands attempts to runners and takes in what they say.
//
// Owns: tables attempts, attempt_sessions, runners, runner_group_versions,
// attempt_artifacts and log_chunks. Words: attempt (one execution of one phase of a run), group and runner
// (who executes), assignment (an offer that expires), session (from accept to done;
// its token is derived from what it is bound to, says so, and stands nowhere),
// bootstrap (the capability that is redeemed for a session, once), lost (a session that
// was minted here and that the database does not know),
// artifact (what an attempt hands over), stream (one of the two logs of an attempt:
// text for people, and events), chunk (a piece of log), demand (what an attempt asks of
// a runner: organization or pool, version, labels), turn (whose attempt is next), lobby
// (where the runners of one server wait for work), agent (a runner as people see it).
// Invariants: an attempt is offered to one runner only and never again after it
// expired (G-46); the turn goes round the organizations (TestClaimsGoRoundTheOrganizations),
// and what it takes to find the next does not grow with the queue
// (TestAClaimStaysCheapInALongQueue); a new attempt wakes one runner of each group that
// fits it (TestANewAttemptCallsOneOfEachGroupThatFits); nothing is offered to a token
// that was revoked (TestWhatNobodyMayOfferAnyMore); credentials exist from accept on (AU-21); a session's token dies
// with its attempt, at the latest at the persisted end of its authority (AU-20); an
// artifact of a kind is handed over once (RL-15); a folded log is opened once for many
// reads of its pieces (TestPiecesOfAFoldedLogDoNotOpenItAgain).
// Refuses: deciding what becomes of a run; that is in package runs. Its functions
// take the transaction of their caller.
// Tested by: the _test.go files beside this one and the tests of package runs.
package dispatch
