#!/bin/bash
# The five stories of docs/recovery.md, with a real tofu, from the command line alone: an apply is
# interrupted, looked at, recovered, and planned anew. What it prints is what the runbook shows.
#
#	bin/holdfast dev -- examples/recovery/run.sh                 the quick ones, about a minute
#	bin/holdfast dev -- examples/recovery/run.sh network-lost    eight minutes: so long tofu tries to publish
#
# The runs touch files outside of their folders, by which a story knows how far an apply is. And
# a lost runner is waited for only as long as need be; ten minutes, without the last three:
#
#	export HOLDFAST_RUNNER_ISOLATION=external
#	export HOLDFAST_HEARTBEAT=1s HOLDFAST_PLAN_LIVENESS=15s HOLDFAST_APPLY_LIVENESS=15s
set -euo pipefail

fail() {
	printf '\nSTORY FAILED: %s\n' "$*" >&2
	exit 1
}

: "${HOLDFAST_DATA:?is not set: run this with bin/holdfast dev -- examples/recovery/run.sh}"
[ "${HOLDFAST_RUNNER_ISOLATION:-}" = external ] || fail "export the variables that stand at the head of $0, then run it with bin/holdfast dev"
unset TF_WORKSPACE TF_DATA_DIR TF_CLOUD_PROJECT TF_INPUT TF_LOG TF_CLI_ARGS TF_CLI_ARGS_init TF_CLI_ARGS_plan TF_CLI_ARGS_apply

work=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-recovery.XXXXXX")
trap 'rm -rf "$work"' EXIT
export TF_IN_AUTOMATION=1 TF_CLI_ARGS=-no-color

# say COMMAND…: prints the command as one would type it.
say() {
	local word line=
	for word; do
		case $word in *[!A-Za-z0-9_=./:,-]*) word="\"$word\"" ;; esac
		line="$line $word"
	done
	printf '\n$%s\n' "$line"
}

# shown COMMAND…: prints the command and what it says. Its exit status is kept in $status.
shown() {
	say "$@"
	status=0
	timeout --foreground 600 "$@" </dev/null >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	[ "$status" != 124 ] || fail "$1 took longer than 10 minutes"
}

# must COMMAND…: shown, and it has to succeed.
must() {
	shown "$@"
	[ "$status" = 0 ] || fail "$* ended with exit status $status"
}

# saw PATTERN: the last command printed a line that matches.
saw() { grep -q -E -- "$1" "$work/said" || fail "the last command did not print: $1"; }

# await SECONDS WHAT COMMAND…
await() {
	local until=$((SECONDS + $1)) what=$2
	shift 2
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $until ] || fail "waited in vain for $what"
		sleep 0.2
	done
}

api() { curl -sS --fail-with-body -H "Authorization: Bearer $TFE_TOKEN" -H 'Content-Type: application/vnd.api+json' "$@"; }

# story NAME: a workspace of that name, in which the second thing waits for the file go, and
# fails as long as there is no file cured.
story() {
	printf '\n\n==> %s\n' "$1"
	place=$work/$1
	mkdir "$place" "$place/config"
	cd "$place/config"
	cat >main.tf <<-EOF
		terraform {
		  cloud {
		    workspaces { name = "$1" }
		  }
		}
		resource "terraform_data" "first" {}
		resource "terraform_data" "second" {
		  depends_on = [terraform_data.first]
		  provisioner "local-exec" {
		    command = "touch $place/reached; until test -e $place/go; do sleep 0.1; done; test -e $place/cured"
		  }
		}
	EOF
	timeout 120 tofu init -input=false >"$work/said" 2>&1 || { cat "$work/said"; fail "tofu init"; }
	workspace=$(api "$TFE_ADDRESS/api/v2/organizations/$TF_CLOUD_ORGANIZATION/workspaces/$1" | sed -n 's/.*"id":"\(ws-[A-Za-z0-9]*\)".*/\1/p')
}

# begin ARGS…: an apply that has come to the second thing. Notes its run.
begin() {
	timeout 900 tofu apply -auto-approve "$@" >"$place/apply.log" 2>&1 </dev/null &
	client=$!
	await 120 "the second thing" test -e "$place/reached"
	run=$(sed -n 's|.*/runs/\(run-[A-Za-z0-9]*\).*|\1|p' "$place/apply.log" | head -n 1)
	[ -n "$run" ] || fail "tofu named no run"
}

is_held() { api "$TFE_ADDRESS/api/v2/workspaces/$workspace" | grep -q '"recovery-held":true'; }

# held: the run holds its workspace.
held() { await "$1" "a held workspace" is_held; }

# recovers ARGS…: with password and code, which the server asks for once in 15 minutes.
recovers() {
	say holdfast admin recover "$@"
	holdfast admin totp >"$work/code"
	status=0
	timeout 120 holdfast admin recover "$@" --password-file "$HOLDFAST_DATA/admin-password" <"$work/code" >"$work/said" 2>&1 || status=$?
	cat "$work/said"
	[ "$status" = 0 ] || fail "holdfast admin recover $*"
}

# clean: what is to be done is planned and applied, and then there is nothing.
clean() {
	touch "$place/go" "$place/cured"
	tofu apply -auto-approve >"$work/said" 2>&1 </dev/null || { cat "$work/said"; fail "tofu apply"; }
	shown tofu plan -detailed-exitcode
	[ "$status" = 0 ] || fail "the plan is not clean"
}

provider_error() {
	story provider-error
	begin
	touch "$place/go"
	wait "$client" || true
	held 60
	local began=$SECONDS
	shown tofu plan
	saw "holdfast admin recover"
	must holdfast admin recover list
	must holdfast admin recover show "$run"
	must holdfast admin recover "$run"
	local from
	from=$(date +%s.%N)
	recovers "$run" --apply
	must tofu plan
	saw 'Plan: 1 to add, 0 to change, 1 to destroy'
	printf '\nFrom the recovery to the next plan: %.1f s with one command and one code. With all that was looked at before: %d s.\n' "$(awk "BEGIN { print $(date +%s.%N) - $from }")" $((SECONDS - began))
	clean
}

user_canceled() {
	story user-canceled
	begin
	api -X POST "$TFE_ADDRESS/api/v2/runs/$run/actions/cancel" -d '{}' >/dev/null
	held 120
	wait "$client" || true
	must holdfast admin recover show "$run"
	recovers "$run" --reason "compared with the console: the second one is half made, and tainted" --apply
	must tofu plan
	clean
}

runner_killed() {
	story runner-killed
	begin
	kill -9 "$(cat "$HOLDFAST_DATA/pids/runner")" # the supervisor starts another
	held 900
	wait "$client" || true
	must holdfast admin recover show "$run"
	shown holdfast admin recover "$run" --reason "the machine is gone; compared with the console"
	[ "$status" != 0 ] || fail "the writer is not proven, and yet nothing was asked"
	recovers "$run" --reason "the machine is gone; compared with the console" --confirm-writer-not-proven --apply
	must tofu plan
	clean
}

control_plane_down() {
	story control-plane-down
	begin
	kill -9 "$(cat "$HOLDFAST_DATA/pids/server")" # the supervisor starts it again
	touch "$place/go" "$place/cured"
	wait "$client" || true # it may have lost sight of the run; the runner has not
	await 120 "the end of the run" sh -c "curl -sS -H 'Authorization: Bearer $TFE_TOKEN' '$TFE_ADDRESS/api/v2/runs/$run' | grep -q '\"durable-status\":\"succeeded\"'"
	shown holdfast admin recover show "$run"
	saw 'not_held'
	clean
}

# The server is away for longer than tofu tries to publish. To the runner that is a lost network.
network_lost() {
	story network-lost
	touch "$place/go" "$place/cured"
	tofu apply -auto-approve >"$work/said" 2>&1 </dev/null || { cat "$work/said"; fail "tofu apply"; }
	rm "$place/go" "$place/reached"
	begin -replace=terraform_data.second
	kill -STOP "$PPID" # the supervisor, so that the server stays away
	kill -9 "$(cat "$HOLDFAST_DATA/pids/server")"
	touch "$place/go" "$place/cured"
	await 900 "an errored.tfstate" sh -c "ls '$HOLDFAST_DATA'/runner/errored/*.tfstate"
	kill -CONT "$PPID"
	wait "$client" || true
	await 60 "the server" curl -sS --fail "$TFE_ADDRESS/readyz"
	held 120
	must holdfast admin recover show "$run"
	shown holdfast admin recover "$run" --reason "compared with the console"
	saw 'resolution_needed'
	recovers "$run" --resolution import_emergency_state --reason "compared with the console: both are there" --apply
	clean
}

if [ $# = 0 ]; then set -- provider-error user-canceled runner-killed control-plane-down; fi
for name; do
	case $name in
	provider-error | user-canceled | runner-killed | control-plane-down | network-lost) "${name//-/_}" ;;
	*) fail "there is no story $name" ;;
	esac
done
printf '\nAll was recovered.\n'
