// Package workspaces keeps what an organization contains: projects, workspaces, their
// variables and what they are found by.
//
// Owns: tables projects, workspaces, variables, tags, workspace_tags, tag_bindings,
// team_workspaces, team_projects.
// Words: workspace (one configuration with one state), project (a group of
// workspaces; "Default Project" is there from the start), execution mode (remote:
// runs happen here; local: only the state is kept), environment class (whether production
// depends on it), failed apply (who looks at one after it published: a person, or nobody
// where nothing is in doubt), variable (category terraform or
// env; sensitive ones are never shown again), tombstone (a deleted workspace: its
// row stays and its name is free, ST-23), tag (a word of the organization that
// workspaces have), binding (a pair of key and value on one workspace), access (what a team may do in
// a workspace or project: a fixed level or custom, stored as names of levels of authz), reserved (an environment variable that
// would let a workspace steer the runner instead of its configuration).
// Invariants: among the living, a name is taken once per organization, compared
// exactly (index workspaces_name); a workspace has its fence from its first instant
// (TestCreate…); the value of a variable is sealed in the database, bound to its
// variable (TestVariableValuesAreSealed); nothing reserved can be set
// (TestReserved…); of production a person always looks (constraint
// workspaces_production_is_held); a tag is written once per organization (constraint tags_name); what the API says of an access is
// read from the table of authz (TestAnAccessIsReadBackFromItsLevels).
// Refuses: locking, unlocking and deciding whether a workspace may be deleted now,
// which are package runs; checking that a version of tofu exists, which happens
// when a run is made.
// Tested by: the _test.go files beside this one, on a real database.
package workspaces
