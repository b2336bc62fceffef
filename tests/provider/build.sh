#!/bin/bash
# build.sh DIR builds the test providers and lays them out below DIR as a filesystem
# mirror. What was built from the same sources by the same Go is taken from the cache.
set -euo pipefail

fault_version=1.0.0
# Fits what configurations ask of the real one ("~> 3.0", "~> 3.2.1") and is no release of it.
null_version=3.2.999

die() {
	printf 'build.sh: %s\n' "$*" >&2
	exit 1
}

if [ $# != 1 ] || [ -z "$1" ]; then die "usage: build.sh DIR"; fi
mkdir -p -- "$1"
mirror=$(CDPATH='' cd -- "$1" && pwd)
cd -- "$(dirname -- "${BASH_SOURCE[0]}")"

platform=$(go env GOOS GOARCH | paste -sd _)
cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set, so there is no folder for the cache: set XDG_CACHE_HOME}/.cache}/holdfast/provider
# Tests are no part of what is built, so changing one builds nothing anew.
key=$({
	go env GOVERSION GOOS GOARCH GOFLAGS
	find . -type f \( -name '*.go' ! -name '*_test.go' -o -name go.mod -o -name go.sum -o -name build.sh \) -print0 |
		LC_ALL=C sort -z | xargs -0 sha256sum
} | sha256sum | cut -c1-16)
built=$cache/$key

if [ ! -d "$built" ]; then
	echo "build.sh: building the test providers, once for these sources (half a minute)" >&2
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/.work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	CGO_ENABLED=0 go build -race=false -buildvcs=false -trimpath -ldflags '-s -w' -o "$work/" ./cmd/...
	chmod 0755 "$work"
	# Of two builds at once, the second finds the folder there and uses it.
	mv -T "$work" "$built" 2>/dev/null || [ -d "$built" ]
fi

# place NAMESPACE NAME VERSION puts one provider where tofu looks for it. It is a copy, so
# that a test which damages its mirror damages no other, and it appears whole or not at all.
place() {
	local dir="$mirror/registry.opentofu.org/$1/$2/$3/$platform"
	local target="$dir/terraform-provider-$2_v$3"
	if cmp -s -- "$built/terraform-provider-$2" "$target"; then return; fi
	mkdir -p -- "$dir"
	local part
	part=$(mktemp "$mirror/.part.XXXXXX")
	cp -- "$built/terraform-provider-$2" "$part"
	chmod 0755 "$part"
	mv -f -- "$part" "$target"
}

place holdfast-run fault "$fault_version"
place hashicorp null "$null_version"
