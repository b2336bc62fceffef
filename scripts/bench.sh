#!/bin/bash
# Builds what the benchmarks need and runs them inside a development stack of their own.
# ONLY=NAME[,NAME…] picks sections; BENCH_LONG=1 takes the long one in its full length.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"
cd "$root"

work=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-bench.XXXXXX")
trap 'rm -rf "$work"' EXIT

tests/provider/build.sh "$work/mirror"
go build -buildvcs=false -o "$work/benchmarks" ./benchmarks

args=()
if [ -n "${ONLY:-}" ]; then args+=(-only "$ONLY"); fi
if [ "${BENCH_LONG:-}" = 1 ]; then args+=(-long); fi
# Lists walk through more memory than the processor keeps a map of in pages of 4 kB, and PostgreSQL takes
# huge ones where the system has enough (docs/configuration.md). They are given back at the end.
reserve_huge_pages() {
	local file=/proc/sys/vm/nr_hugepages wanted
	[ -w "$file" ] || return 0
	before=$(cat "$file")
	# An eighth of the memory, at most 2 GB, as the development stack gives it, and a little for the rest.
	wanted=$(awk '$1 == "MemTotal:" { m = $2 / 8; if (m > 2097152) m = 2097152 } $1 == "Hugepagesize:" { print int(m * 1.1 / $2) }' /proc/meminfo)
	trap 'rm -rf "$work"; { echo "$before" > /proc/sys/vm/nr_hugepages; } 2>/dev/null || true' EXIT
	{ echo $((before + wanted)) > "$file"; } 2>/dev/null || true
	if [ "$(cat "$file")" -ge $((before + wanted)) ]; then
		echo "PostgreSQL gets huge pages: $wanted are reserved until the end."
	else
		{ echo "$before" > "$file"; } 2>/dev/null || true
		echo "PostgreSQL gets no huge pages: the system does not give $wanted."
	fi
}
if [[ ",${ONLY:-}," == *,lists,* ]]; then reserve_huge_pages; fi
bin/holdfast dev --provider-mirror "$work/mirror" -- "$work/benchmarks" "${args[@]}"
