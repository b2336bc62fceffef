// Package vcs keeps what organizations say of VCS hosts, so that it can be kept as code
// beside everything else.
//
// Owns: tables oauth_clients, oauth_client_projects and oauth_tokens.
// Words: OAuth client (a VCS host and how one is known there), OAuth token (what an
// organization proves itself by there; made with a client that brings one).
// Invariants: secrets are sealed and no call gives them back (TestSecretsAreSealedAndShownToNobody);
// only who may manage the VCS settings of the organization changes any of it.
// Refuses: connecting to a host. No repository is read, no commit starts a run, and what
// would need that, such as an agent pool to connect through, is refused.
// Tested by: the _test.go files beside this one, on a real database, and tfeapi.
package vcs
