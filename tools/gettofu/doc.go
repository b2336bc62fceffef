// Command gettofu downloads a release of OpenTofu, verifies its signature and
// checksum, and writes the tofu binary to a file:
//
//	gettofu VERSION FILE
//
// It gives up quickly where the network is closed, so that a build can go on to
// the next way of getting one.
package main
