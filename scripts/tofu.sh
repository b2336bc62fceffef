#!/bin/bash
# Puts a tofu at bin/tofu. In this order, the first that works:
#   1. bin/tofu of an earlier make        3. the cache of this machine
#   2. a recent one on PATH               4. a verified release   5. built from its Go module
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

version=1.12.6
oldest=1.10.0
# OpenTofu's dependencies do not compile with the newer Go that Holdfast is built with.
builder=go1.26.8

target=$root/bin/tofu
cached=$cache/tofu/$version/tofu

# recent FILE: FILE runs and is a tofu of at least $oldest.
recent() {
	local said
	said=$(TF_CLI_CONFIG_FILE=/dev/null "$1" version 2>/dev/null </dev/null | sed -n 's/^OpenTofu v\([0-9.]*\).*/\1/p') || return 1
	[ -n "$said" ] && [ "$(printf '%s\n%s\n' "$oldest" "$said" | sort -V | head -n 1)" = "$oldest" ]
}

# place FILE DEST: copies FILE to DEST so that nobody ever sees half of it.
place() {
	mkdir -p "$(dirname -- "$2")"
	local part
	part=$(mktemp "$2.XXXXXX")
	cp -- "$1" "$part"
	chmod 0755 "$part"
	mv -f -- "$part" "$2"
}

from_path() {
	local there
	there=$(command -v tofu 2>/dev/null) || return 1
	[ ! "$there" -ef "$target" ] || return 1
	if ! recent "$there"; then
		say "the tofu on PATH ($there) is older than $oldest, so it is not used"
		return 1
	fi
	mkdir -p "$root/bin"
	ln -sf -- "$there" "$target"
	say "bin/tofu is the one on PATH: $there"
}

from_release() {
	say "downloading OpenTofu $version"
	(cd "$root/tools/gettofu" && go build -buildvcs=false -o "$work/gettofu" . && "$work/gettofu" "$version" "$work/tofu") && recent "$work/tofu"
}

# progress PID LOG prints a line each 15 s for as long as PID runs.
progress() {
	local started=$SECONDS waited=0
	while kill -0 "$1" 2>/dev/null; do
		sleep 1
		waited=$((waited + 1))
		if [ $((waited % 15)) = 0 ]; then
			say "building tofu: $(((SECONDS - started) / 60)) min $(((SECONDS - started) % 60)) s, $(wc -l <"$2") packages compiled (about 1,800 in all)"
		fi
	done
}

from_source() {
	say "building OpenTofu $version from its Go module, once for this machine."
	say "This takes about ten minutes on two cores, from three on a fast machine."
	# -v names each package as it is compiled, one a line.
	(
		cd "$root/tools/tofu" &&
			GOTOOLCHAIN=$builder CGO_ENABLED=0 exec go build -v -buildvcs=false -trimpath \
				-ldflags "-s -w -X github.com/opentofu/opentofu/version.dev=no" \
				-o "$work/tofu" github.com/opentofu/opentofu/cmd/tofu
	) >"$work/build.log" 2>&1 &
	local build=$!
	# Ctrl-C must not leave a compiler running behind.
	trap 'kill "$build" 2>/dev/null; rm -rf "$work"; exit 130' INT TERM
	progress "$build" "$work/build.log"
	trap - INT TERM
	if wait "$build" && recent "$work/tofu"; then
		return 0
	fi
	say "the build failed; its last lines were:"
	tail -n 15 "$work/build.log" >&2
	return 1
}

if recent "$target"; then exit 0; fi
if from_path; then exit 0; fi
mkdir -p "$cache/tofu/$version"

# Two makes at once share one download or build: the second waits here, then finds the cache filled.
exec 9>"$cache/tofu/$version/lock"
if ! flock -n 9; then
	say "another make is fetching or building tofu; waiting for it"
	flock 9
fi

if ! recent "$cached"; then
	work=$(mktemp -d "$cache/tofu/$version/.work.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	from_release || from_source ||
		die "there is no tofu, and it could neither be downloaded nor built.
holdfast: Install OpenTofu $oldest or later by hand (https://opentofu.org/docs/intro/install/), so that 'tofu version' works, and run make again."
	place "$work/tofu" "$cached"
fi
place "$cached" "$target"
say "bin/tofu is OpenTofu $version"
