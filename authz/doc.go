// Package authz is the one table of who may do what.
//
// Owns: actors, actions, levels and the table that joins them. Words: actor (who asks; policy is the
// server doing what settings allow without a person),
// action (a name such as run:apply), level (a row of the table: what a role, a team's
// access or a kind of token gives), grants (the levels an actor has in an organization, with
// the project or workspace where each holds), object (the thing asked about, with the
// organization, project and workspace it belongs to), scope (where in an organization an
// action is allowed, for statements that select).
// Invariants: every service method asks Allow before it reads or changes a thing;
// levels only add up (TestLevelsAddUp) and hold nowhere but where they were given
// (TestALevelHoldsWhereItWasGiven); a list selects what Can allows
// (TestWhereSaysTheSameAsCan); what an actor cannot see answers NotFound, the same as
// what does not exist; what it sees but may not do answers Forbidden and names the action;
// a member of an organization has only what its teams give.
// Refuses: looking anything up. Actors arrive with their roles and grants.
// Tested by: authz_test.go, which walks every level × action × place.
package authz
