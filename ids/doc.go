// Package ids makes and reads the public identifiers of things.
//
// Owns: the prefix of each kind of thing ("ws-", "run-", …), one Go type per kind.
// Words: id (prefix and sixteen random letters and digits).
// Invariants: an id of one kind cannot be passed where another is meant (it does
// not compile); an id that does not parse is the id of nothing, so Parse answers
// NotFound, the same as for an id that exists nowhere.
// Refuses: meaning inside an id; nothing is derived from it but its kind.
// Tested by: ids_test.go.
package ids
