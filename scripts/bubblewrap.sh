#!/bin/sh
# Gets bubblewrap, with which runners keep runs apart, where it can be had without a word.
# Everything works without it: a runner then serves one organization only.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

command -v bwrap >/dev/null 2>&1 && exit 0
if [ "$(uname -s)" = Linux ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	say "installing bubblewrap with apt-get"
	export DEBIAN_FRONTEND=noninteractive
	if { apt-get install -y --no-install-recommends bubblewrap || { apt-get update && apt-get install -y --no-install-recommends bubblewrap; }; } </dev/null >&2; then
		exit 0
	fi
fi
say "bubblewrap is not installed, so runs are not isolated from this machine (Debian and Ubuntu: sudo apt-get install bubblewrap)"
