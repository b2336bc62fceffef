# shellcheck shell=bash
# The search for a secret in the data folder; sourced by run.sh, which brings fail.

# disguises SECRET: the secret in plain, and as base64 writes it at each of its three alignments.
disguises() {
	local lead encoded
	printf '%s\n' "$1"
	for lead in "" x xx; do
		encoded=$(printf '%s%s' "$lead" "$1" | base64 -w 0)
		# The first and last group depend on the neighbours, so they are left out.
		printf '%s\n' "${encoded:4:$((${#encoded} - 8))}"
	done
}

# files_holding DIR PATTERN…: lists the files below DIR that hold one of the patterns. The
# servers are at work, so a file may vanish under the search; anything else unread is a failure.
files_holding() {
	local dir=$1 pattern complaints status=0 patterns=()
	shift
	for pattern in "$@"; do patterns+=(-e "$pattern"); done
	complaints=$(mktemp)
	LC_ALL=C grep -r -l -a -F -D skip "${patterns[@]}" -- "$dir" 2>"$complaints" || status=$?
	if [ "$status" -gt 1 ] && { [ ! -s "$complaints" ] || grep -q -v -F 'No such file or directory' "$complaints"; }; then
		cat "$complaints" >&2
		rm -f "$complaints"
		return 2
	fi
	rm -f "$complaints"
}

# unescaped TEXT: TEXT with the %XX of a URL undone.
unescaped() {
	local text=${1//\\/\\\\}
	printf '%b' "${text//%/\\x}"
}

# with_database PROGRAM…: runs a client of PostgreSQL on the database of HOLDFAST_DATABASE_URL
# (postgres://USER:PASSWORD@HOST:PORT/DATABASE). The password goes by the environment: everybody
# on the machine reads arguments.
with_database() {
	local login place
	[[ ${HOLDFAST_DATABASE_URL:-} =~ ^postgres(ql)?://([^@/]+)@([^/?]+)/([^?]+) ]] || return 1
	login=${BASH_REMATCH[2]} place=${BASH_REMATCH[3]}
	PGDATABASE=$(unescaped "${BASH_REMATCH[4]}") PGUSER=$(unescaped "${login%%:*}") PGPASSWORD=$(unescaped "${login#*:}") \
		PGHOST=${place%:*} PGPORT=${place##*:} "$@"
}

# checkpoint brings the database's pages to disk. Without it the write-ahead log, which is
# searched too, holds every committed row all the same.
checkpoint() {
	if command -v psql >/dev/null 2>&1 && with_database psql -X -q -w -c CHECKPOINT >/dev/null 2>&1; then
		echo "the database wrote all its pages to disk before the search"
	else
		echo "no checkpoint was made; the database's write-ahead log is searched as it is"
	fi
}

# search_dump SECRET RUN searches what pg_dump reads too, where there is one: large values lie
# compressed in the database's files, and there they are not.
search_dump() {
	local hex dump
	command -v pg_dump >/dev/null 2>&1 && [ -n "${HOLDFAST_DATABASE_URL:-}" ] || return 0
	# Columns of bytes are dumped in hexadecimal.
	hex=$(printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n')
	# A pipe keeps the dump off the disk.
	if ! dump=$(with_database pg_dump -w 2>/dev/null |
		LC_ALL=C grep -a -o -F -e "$2" -e "$1" -e "$hex" | sort -u); then
		echo "pg_dump could not read this database; its files were searched alone"
		return 0
	fi
	grep -q -F -x -- "$2" <<<"$dump" || fail "the search did not find run $2 in the dump of the database"
	[ "$dump" = "$2" ] || fail "the secret is in the dump of the database"
	echo "the secret is not in a dump of the database, where run $2 is found"
}

# search_stored_bytes DIR SECRET RUN fails unless SECRET is nowhere below DIR, and unless the
# same search finds what is there: a file planted for it, and the id of RUN in the database.
search_stored_bytes() {
	local dir=$1 secret=$2 run=$3 planted found files patterns tries
	mapfile -t patterns < <(disguises "$secret")
	[ "${#patterns[@]}" = 4 ] || fail "the search's patterns could not be made"
	checkpoint

	# Controls first: a search that finds nothing proves something only if it can find.
	planted=$(mktemp -d "$dir/demo-control.XXXXXX")
	printf 'some bytes \000 before %s and after' "$secret" >"$planted/plain"
	printf '{"password":"%s"}' "$secret" | base64 -w 0 >"$planted/encoded"
	found=$(files_holding "$dir" "${patterns[@]}") || fail "the data folder could not be searched"
	rm -rf "$planted"
	case $found in *"$planted/plain"*) ;; *) fail "the search did not find a planted secret" ;; esac
	case $found in *"$planted/encoded"*) ;; *) fail "the search did not find a planted secret in base64" ;; esac
	found=$(files_holding "$dir" "$run") || fail "the data folder could not be searched"
	[ -n "$found" ] || fail "the search did not find run $run, which the database holds in plain"
	echo "the search finds what is there: two planted files, and run $run in the stored files"

	# A runner removes its working folder just after the run has ended: wait for that, not longer.
	for ((tries = 0; tries < 10; tries++)); do
		found=$(files_holding "$dir" "${patterns[@]}") || fail "the data folder could not be searched"
		[ -n "$found" ] || break
		sleep 1
	done
	[ -z "$found" ] || fail "the secret is stored in plain in:
$found"
	files=$(find "$dir" -type f | wc -l) || true
	echo "the secret is in none of the $files files below $dir: objects, database, write-ahead log, logs"
	search_dump "$secret" "$run"
}
