// Package shapes holds answers against the OpenAPI document of the API we are compatible with.
//
// Owns: reading that document, finding the operation that describes an answer, comparing
// the two, and the file of deviations that are meant.
// Words: document (the OpenAPI document, which is not part of this repository), deviation (one
// line: where, and how an answer differs), absent (a property which the document has and no
// answer had), where (schema and property, or operation and property, so that one difference
// of a resource is one line however many routes show it).
// Invariants: an answer of a route that the document describes is compared whole, its
// included resources too; a kept deviation that no longer occurs is a finding like one
// that is new (shapes_test.go).
// Refuses: requests; routes that the document does not have; use outside tests.
// Tested by: shapes_test.go; used by the tests of tfeapi.
package shapes
