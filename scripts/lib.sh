# shellcheck shell=sh
# Shared by the scripts beside it; sourced, never run.

# say prints a line of progress to the terminal, apart from what a script answers.
say() { printf 'holdfast: %s\n' "$*" >&2; }

# die prints what is wrong and what to do, then ends the script.
die() {
	say "$@"
	exit 1
}

# shellcheck disable=SC2034  # used by the scripts that source this
# root is the repository's folder.
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)

# shellcheck disable=SC2034
# cache is where downloads and slow builds are kept between clones.
cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set, so there is no folder for the cache: set XDG_CACHE_HOME}/.cache}/holdfast
