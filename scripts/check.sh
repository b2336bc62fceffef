#!/bin/bash
# What a reviewer's eyes should not be spent on. Every check runs, then the answer is given.
set -euo pipefail
# shellcheck source=scripts/lib.sh
. "$(dirname -- "$0")/lib.sh"
cd "$root"

tools=$("$root/scripts/tools.sh")
failed=()

# check NAME COMMAND…: runs it and remembers a failure.
check() {
	local name=$1
	shift
	say "$name"
	if ! "$@"; then failed+=("$name"); fi
}

# quiet COMMAND…: holds when the command succeeds and prints nothing.
quiet() {
	local said
	said=$("$@") || return 1
	[ -z "$said" ] || {
		printf '%s\n' "$said"
		return 1
	}
}

# in_folder DIR COMMAND…
in_folder() { (cd "$1" && shift && "$@"); }

# shell_syntax parses every shell script, and asks shellcheck where it is installed.
shell_syntax() {
	local script bad=0
	while IFS= read -r -d '' script; do
		bash -n "$script" || bad=1
	done < <(find scripts examples .ci -type f \( -name '*.sh' -o -path .ci/run \) -print0)
	if command -v shellcheck >/dev/null 2>&1; then
		find scripts examples .ci -type f \( -name '*.sh' -o -path .ci/run \) -print0 |
			xargs -0 shellcheck -x -P "$root" || bad=1
	fi
	return $bad
}

check "gofumpt: files not formatted" quiet "$tools/gofumpt" -l .
check "go vet" go vet ./...
check "go vet with failpoints" go vet -tags failpoint ./...
check "go vet without the development stack" go vet -tags nodev ./...
check "go vet tools/gettofu" in_folder tools/gettofu go vet ./...
check "go vet tests/browser" in_folder tests/browser go vet ./...
check "staticcheck" "$tools/staticcheck" ./...
check "govulncheck" "$tools/govulncheck" -db "file://$tools/vulndb" ./...
check "govulncheck tools/gettofu" in_folder tools/gettofu "$tools/govulncheck" -db "file://$tools/vulndb" ./...
check "shell scripts" shell_syntax

if [ ${#failed[@]} -gt 0 ]; then
	say "FAILED:"
	printf '  %s\n' "${failed[@]}" >&2
	exit 1
fi
say "all checks passed"
