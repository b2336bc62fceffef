// Package scim keeps who there is as an identity provider says it, and lets teams follow its
// groups.
//
// Owns: tables scim_settings, scim_users, scim_groups, scim_group_members, scim_mappings and
// saml_settings. The accounts, memberships and tokens themselves are package accounts'.
// Words: identity provider (a program such as Okta or Entra that shows a SCIM token), person (a
// user that it keeps), active (whether the person may do anything here), group (persons, as the
// identity provider has them), link (a team follows a group), paused (of a link: the team stays as
// it is; of the site: the identity provider changes nothing), site admin group (whose members are site
// admins, once somebody has confirmed it with a step-up).
// Invariants: from the commit that deactivates a person on, none of its tokens and sessions counts
// (TestADeactivatedPersonIsOutAtOnce); a team that is linked and not paused has exactly the members of
// its group, from the same commit on (TestATeamFollowsItsGroup…); a group makes nobody a site
// admin before somebody stepped up has said so (TestASiteAdminGroupCountsOnceConfirmed); a site admin who was
// made by hand is out of the identity provider's reach (TestWhoIsKeptByHandStaysSo); every
// change is one transaction, one after the other under the lock of scim_settings
// (TestChangesOfOneGroupAtOnceAllCount), with its audit entry.
// Refuses: knowing HTTP, JSON paths and filters, which are package scimapi's; sign-in by SAML,
// which this server does not have.
// Tested by: the _test.go files beside this one, on a real database, and scimapi.
package scim
