// Package authz is the one table of who may do what.
//
// Owns: actors, actions and the rows that join them. Words: actor (who asks; policy is the
// server doing what a workspace's settings allow without a person),
// action (a name such as run:apply), object (the thing asked about, with the
// organization and workspace it belongs to).
// Invariants: every service method asks Allow before it reads or changes a thing;
// what an actor cannot see answers NotFound, the same as what does not exist;
// what it sees but may not do answers Forbidden and names the action.
// Refuses: looking anything up. Actors arrive with their roles.
// Tested by: authz_test.go, which walks every actor × action.
package authz
