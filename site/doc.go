// Package site holds what site admins decide for every organization: the settings of the
// site, and which versions of tools may be chosen.
//
// Owns: tables site_settings and tool_versions.
// Words: setting (each one acts, or it is not here), catalogue (the versions of tools about
// which something is known), tool (terraform, which is OpenTofu or what stands for it in a
// workspace; opa and sentinel, which policy sets name), entry (one version of a tool),
// disabled (nobody may choose it, and no run begins with it), deprecated (whoever has it
// keeps it; nobody chooses it anew), beta (nobody gets it who asks for the latest).
// Invariants: a version that is not in the catalogue has been decided about by nobody and
// may be chosen (TestTheCatalogueDecides); what a runner brings stands in the catalogue (a
// trigger of the database, TestWhatARunnerBringsIsInTheCatalogue); only site admins see or
// change any of it, and each change is audited in its transaction (TestOnlySiteAdmins…).
// Refuses: knowing organizations and runs. What a setting does is done by the package whose
// matter it is, which reads it here or in its own statement.
// Tested by: the _test.go files beside this one, on a real database, and tfeapi.
package site
