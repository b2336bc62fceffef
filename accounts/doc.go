// Package accounts knows who there is: users, organizations, who belongs to which,
// and the tokens, passwords and sessions by which people and runner groups prove
// themselves.
//
// Owns: tables users, organizations, memberships, teams, team_memberships, tokens, runner_groups with its lists
// runner_group_workspaces and runner_group_projects, runner_tokens, sessions,
// login_codes, sign_in_attempts, totp_factors, recovery_codes, scim_tokens.
// Words: user token (hfu_…, acts as its user), team (members of an organization with rights of their own; what
// it may do in a workspace or project is kept by package workspaces), owners team (the members whose
// membership has the role owner, seen as a team), SCIM token (hfi_…, acts as an identity provider, and only as
// that), deactivated (by the identity provider: nothing of the user's counts), provisioned (by it as well), team token (hft_…, acts as its team, in the name of an
// account of the team), organization token (hfo_…), invited (an address that a place is kept for), runner group (a set of runners that
// show the same tokens, hfr_…; without an organization it serves all), agent pool (the
// same as people manage it), agent token (a token of a pool), site admin (may
// do everything), role (what a user is in an organization), session (a person signed
// in to the web pages by password, hfs_…; it is no token), login code (hfc_…, what a
// client takes from the browser and exchanges for a user token), challenge and verifier
// (PKCE: the client shows the digest first and what it was made from last), factor (a
// device that shows codes, TOTP), recovery code (what stands in for it once), step-up
// (a user proves itself once more by password and code, which is stamped on the token or
// session it came with), reset (somebody else took a user's factor away).
// Invariants: a token or password is stored only as its digest, so the database
// cannot give it back (tokens_hash, TestTokensAreStoredAsDigests); whether a token
// has expired is decided by the database's clock (TestAuthenticateRefuses…); a token brings all
// rights of whom it stands for in one statement (TestATokenBringsWhatTheTeamsGive); nobody gives
// more than it has (tfeapi.TestNobodyGivesMoreThanItHas); the last owner stays (TestTheLastOwnerStays); an
// organization has its key and, when a user made it, an owner from its first
// instant (TestCreateOrganization…); a login code gives at most one token, and using
// it again takes that token away (TestALoginCode…); passwords are guessed no faster
// than the limits allow, however many guess at once (TestGuessing…); no code is
// accepted twice (TestACodeIsGoodOnce); only the token or session that was stepped up
// counts as such, within the window by the database's clock (TestAStepUpServes…,
// TestOnlyACredential…); what weakens a factor or makes an admin needs a step-up
// (TestWhatWeakens…); every change leaves an audit entry in its own
// transaction.
// Refuses: attempt tokens, which live and die with an attempt of package runs;
// what an organization contains, which is package workspaces.
// Tested by: the _test.go files beside this one, on a real database.
package accounts
