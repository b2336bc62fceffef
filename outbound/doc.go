// Package outbound calls the addresses that users gave: notifications, run tasks.
//
// Owns: the one HTTP client for them, and the list of networks that it does not call.
// Words: public (an address that anybody on the internet could call), allowed (a network
// that the operator has named), embedded (an IPv4 address inside of an IPv6 one, which
// decides in its place), hop (one connection: the first request or a redirect's).
// Invariants: every address is checked when it is dialled, on the address that the
// connection is made to and not on the name, for every hop (TestHostileAddresses,
// TestANameThatChangesItsAddress); a connection serves one request, so none made for
// another name is used; a redirect stays on its host; an answer is bounded in time
// and size; the environment's proxy is not used; no error or answer repeats the path of an
// address, which is often a secret itself.
// Refuses: private, loopback, link-local, carrier, multicast and reserved networks unless
// the operator's configuration names them. There is no mode that opens them. Addresses
// of the operator's own (the database, the store, mail) are not called through here.
// Tested by: hostile_test.go, client_test.go, address_test.go.
package outbound
