// Package scimapi is what an identity provider speaks with: SCIM 2.0 (RFC 7643, RFC 7644)
// at /scim/v2.
//
// Owns: the addresses below /scim/v2, the documents of users and groups, and how a PATCH changes
// one.
// Words: identity provider, person and group as in package scim; resource (a document of SCIM),
// filter (which resources a list has; only those that name exact values), path (which part of a
// resource an operation of a PATCH is about).
// Invariants: a SCIM token is the only credential taken here (TestOnlyASCIMTokenIsTaken), and is
// taken nowhere else (tfeapi.TestASCIMTokenOpensNothingElse); a refusal is never a 5xx
// (TestWhatIsWrongIsSaid); a PATCH is applied as a whole or not at all (TestAPatchIsWholeOrNothing); a password in a
// document is neither kept nor shown (TestAPersonFromCreationToDeletion).
// Refuses: deciding anything, which is package scim's. The protocol's syntax, filters and schemas
// are those of github.com/elimity-com/scim.
// Tested by: the _test.go files beside this one, over HTTP.
package scimapi
