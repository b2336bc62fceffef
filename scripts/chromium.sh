#!/bin/sh
# Makes sure that a Chromium is on PATH, for tests/browser.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

found() { command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 || command -v google-chrome >/dev/null 2>&1; }

from_debian() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
	say "installing Chromium with apt-get (about half a minute)"
	export DEBIAN_FRONTEND=noninteractive
	{ apt-get update && apt-get install -y --no-install-recommends chromium; } </dev/null >&2
}

if found; then exit 0; fi
if from_debian && found; then exit 0; fi
die "Chromium was not found, and could not be installed.
holdfast: Install it (Debian: sudo apt-get install chromium) and run make again."
