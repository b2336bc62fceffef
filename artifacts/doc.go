// Package artifacts keeps sealed, write-once objects: configurations, lock files,
// plans, states and logs. A row in PostgreSQL says that an object counts; the
// object store holds bytes nobody can read without the key ring.
//
// Owns: tables objects and organization_keys; the layout of the object store; the
// only S3 client.
// Words: object (sealed bytes and the row that points to them), sidecar (a small
// object beside it with its wrapped DEK), intent (the row before the bytes,
// or with CommittedBy before their end),
// organization key and DEK (see envelope), site value (a small secret of no
// organization, sealed under a key of its own; whoever keeps it keeps root_version too).
// Layout: <organization>/<workspace>/<kind>/<object> is the body, with "registry" in the
// place of the workspace for modules and providers; the same with .dek.<version> is its sidecar, <organization>/organization-key.<version> the wrapped
// organization key. With the key ring that is enough to read a store whose database
// is lost. <organization>/<workspace>/witness/<run> tells of an apply that was permitted
// (witness.go); it alone has no row and may be put again. Whoever shreds an organization removes the key's row and that object.
// Invariants: a key is used once and never overwritten; no key plus "/" begins
// another. A row is stored only after body and sidecar are (TestPut…). A stored
// object opens whole and in its own place or is an error, never an empty or partial
// success (TestOpenRefuses…). Bytes are removed only where a row was discarded long
// ago (TestSweep…). Memory is constant in the size of the object
// (TestPutOverTheLimit). No rule depends on conditional writes, listing or
// versions of the store.
// Refuses: to reuse an object id; to remove bytes without a row; to open an object
// that was discarded.
// Tested by: service_test.go, sweep_test.go, unconfirmed_test.go, values_test.go, witness_test.go, s3_test.go with storetest.
package artifacts
