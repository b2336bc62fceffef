#!/bin/sh
# Builds the tools that `make check` needs, at the versions of tools/go.mod, into the cache.
# Prints the folder that holds them; the vulnerability database lies in its subfolder vulndb.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

# One folder for each set of versions and compiler: tools built by another Go cannot read this one's files.
key=$({
	cd "$root/tools"
	go version
	cat go.mod go.sum
} | sha256sum | cut -c1-16)
dir=$cache/tools/$key

if [ ! -e "$dir/complete" ]; then
	say "building gofumpt, staticcheck, govulncheck and indexdb, once for this machine (a minute or two)"
	mkdir -p "$cache/tools"
	work=$(mktemp -d "$cache/tools/.work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	cd "$root/tools"
	go build -buildvcs=false -o "$work/" tool

	# The vulnerability reports come as a Go module, so that the check runs where vuln.go.dev cannot be reached.
	say "indexing the Go vulnerability database"
	reports=$(go mod download -json golang.org/x/vulndb | sed -n 's/^\t"Dir": "\(.*\)",*$/\1/p')
	"$work/indexdb" -vulns "$reports/data/osv" -out "$work/vulndb" >&2
	touch "$work/complete"
	mv -T "$work" "$dir" 2>/dev/null || [ -e "$dir/complete" ]
fi
echo "$dir"
