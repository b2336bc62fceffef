#!/bin/sh
# Checks that a usable Go is here and fetches the toolchain the build is pinned to.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

wanted=${GOTOOLCHAIN:-go1.27.3}

command -v go >/dev/null 2>&1 ||
	die "Go is not installed. Install Go 1.26 or later from https://go.dev/dl/, put its bin folder on PATH, and run make again."

# A Go older than 1.21 cannot switch toolchains, and says so in no clear way.
installed=$(cd / && GOTOOLCHAIN=local go env GOVERSION 2>/dev/null || echo unknown)
case $installed in
go1.[0-9] | go1.[0-9].* | go1.1[0-9] | go1.1[0-9].* | go1.20 | go1.20.* | unknown)
	die "Go is too old ($installed). Install Go 1.26 or later from https://go.dev/dl/ and run make again."
	;;
esac

if ! answer=$(cd "$root" && go version 2>&1); then
	die "Go $wanted could not be fetched: $answer
holdfast: The build is pinned to it because the standard library of older ones has known vulnerabilities.
holdfast: Let Go reach its module proxy, or build with what you have: make HOLDFAST_GOTOOLCHAIN=local"
fi
