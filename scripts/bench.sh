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
bin/holdfast dev --provider-mirror "$work/mirror" -- "$work/benchmarks" "${args[@]}"
