// Package tfeapi is the Terraform Enterprise API as the tofu client and go-tfe
// scripts use it: /api/v2, discovery, and the addresses for uploads, downloads and logs.
//
// Owns: the wire types, one file a resource; the route table (routes.go); the one
// table from fault.Kind to status and title (errors.go); the one projection from
// durable to wire status (status.go).
// Words: document (a JSON:API body), view (a Go struct that is written as a
// resource), ref (type and id of a related resource), link (an address that
// authenticates itself by a token at the end of its path).
// Invariants: a thing reads the same in the answer to create, read and list, for
// one function draws it (client_test.go); every fault kind has a row
// (errors_test.go); status, plan and apply of a client come from status.go alone, and
// the attributes of our own from package runs (status_test.go, review_test.go); a
// review shows what it names and nothing that leads to bytes (review_test.go); every route but those marked
// open asks for a token (server_test.go); a run's token reaches only the routes that
// attempttokens.go lists (attempttokens_test.go); neither bodies nor tokens are logged
// (server_test.go); the end of a phase, the run's status and the last byte of its
// log show together, for each answer is drawn from one reading (runwalk_test.go); what a
// list costs the database does not depend on how many things it shows, and all have the same
// pages (lists_test.go); an id of another organization reads like that of nothing wherever a
// request holds it (foreign_test.go); an answer differs from the OpenAPI document of the
// original only where testdata/openapi-deviations.txt says why (shapes_test.go).
// Refuses: deciding anything. Rights, states and conflicts are answered by the
// packages it calls.
// Tested by: the files named above, decode_test.go, golden_test.go against testdata,
// and with the real go-tfe client on a real database.
package tfeapi
