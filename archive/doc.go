// Package archive reads configuration archives that strangers made.
//
// Owns: what a configuration's tar.gz may hold, for the server that takes it in and
// for the runner that unpacks it. Words: archive (gzip over tar), entry (one file,
// folder or symbolic link of it), tree (where entries are made: a folder, or only
// names in memory).
// Invariants: one walk decides for both: what Check lets pass Unpack unpacks, and
// nothing is ever made outside of the folder; size, number and ratio are bounded.
// Refuses: hard links, devices, pipes, names with "..", absolute names, writing
// through a link, links that lead out. Every refusal names the entry.
// Tested by: archive_test.go, beside_test.go.
package archive
