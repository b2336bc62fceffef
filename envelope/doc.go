// Package envelope seals bytes so that they can be opened only where they belong.
//
// Owns: the format of sealed streams and sealed values, the key ring, and the
// tokens inside links.
// Words: root key (in the key ring, versioned), organization key (wrapped by a root
// key), DEK (the data encryption key of one object, wrapped by an organization
// key), context (what a sealed object belongs to), link (an address that
// carries its own permission).
// Format: a sealed stream is an age v1 file (age-encryption.org/v1) with one stanza
// of type "holdfast". Its arguments are the context in clear; its body is age's
// file key, sealed under the DEK with the context as additional data.
// Invariants: a stream opens only under the context it was sealed for, and only
// whole: a flipped bit, a cut, an appended byte or a swapped object is
// sealed_object_corrupt (TestOpenRefuses). The context can be read without any
// key (TestReadHeaderNeedsNoKey). Keys never print (TestKeysDoNotPrint). A key
// ring that others can read is not opened (TestOpenKeyringRefuses).
// Refuses: storage; it knows neither database nor object store.
// Tested by: stream_test.go, keyring_test.go, value_test.go, links_test.go.
package envelope
