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
# Lists walk through more memory than the processor can keep a map of in pages of 4 kB, and PostgreSQL
# takes huge ones where the system has any (docs/configuration.md). They are given back at the end.
if [[ ",${ONLY:-}," == *,lists,* ]] && [ -w /proc/sys/vm/nr_hugepages ]; then
	before=$(cat /proc/sys/vm/nr_hugepages)
	trap 'echo "$before" > /proc/sys/vm/nr_hugepages; rm -rf "$work"' EXIT
	echo $((before + 1200)) > /proc/sys/vm/nr_hugepages
	echo "Huge pages for PostgreSQL: $(awk '$1 == "HugePages_Free:" { print $2 }' /proc/meminfo)"
fi
bin/holdfast dev --provider-mirror "$work/mirror" -- "$work/benchmarks" "${args[@]}"
