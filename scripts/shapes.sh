#!/bin/bash
# Holds every answer of the API's tests against an OpenAPI document: scripts/shapes.sh FILE
set -uo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"

file=${1:-}
if [ ! -f "$file" ]; then
  echo "make shapes OPENAPI=FILE: name the OpenAPI document (v2/openapi/spec.json in the repository of go-tfe)" >&2
  exit 2
fi
TFE_OPENAPI=$(realpath -- "$file")
export TFE_OPENAPI
cd "$root" || exit
# Of a run with -v only what it found and how it ended.
go run -buildvcs=false ./internal/testdb/cmd/testcluster -- go test -buildvcs=false -count=1 -v -timeout 30m ./tfeapi -openapi-whole |
  grep -E 'differs from the OpenAPI|^(OpenAPI|new|FAIL|--- FAIL|ok|panic)'
