// Package suite names the version of go-tfe whose tests are run. It is a module of its
// own, so that what those tests need never meets the server's dependencies.
package suite

import _ "github.com/hashicorp/go-tfe"
