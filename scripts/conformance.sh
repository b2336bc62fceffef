#!/bin/bash
# Runs go-tfe's own tests against a development stack. ALL=1 runs each test in both modes; KEPT=1 only
# those that must pass, once more when they fail; TIER=T1 and ONLY=EXPRESSION pick tests. Results are in the folder conformance.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"
cd "$root"

work=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-conformance.XXXXXX")
trap 'rm -rf "$work"' EXIT

tests/provider/build.sh "$work/mirror"
go build -buildvcs=false -o "$work/conformance" ./tests/conformance

args=(-mirror "$work/mirror" -tier "${TIER:-}" -only "${ONLY:-}")
if [ "${ALL:-}" = 1 ]; then args+=(-all); fi
if [ "${KEPT:-}" = 1 ]; then args+=(-kept); fi
"$work/conformance" "${args[@]}"
