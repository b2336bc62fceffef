#!/bin/bash
# The demo: an unmodified tofu plans, applies, changes and destroys through Holdfast, and
# then its secret is searched for in everything Holdfast stored.
#
# Run by `make demo`, which is `holdfast dev -- examples/demo/run.sh`; that sets the
# environment. Exits 0 only if every step was seen to do what it should.
set -euo pipefail

fail() {
	printf '\nDEMO FAILED: %s\n' "$*" >&2
	exit 1
}

# shellcheck source=examples/demo/search.sh
. "$(dirname -- "$0")/search.sh"

: "${HOLDFAST_DATA:?is not set: run this with bin/holdfast dev -- examples/demo/run.sh}"
: "${TF_CLOUD_HOSTNAME:?is not set: run this with bin/holdfast dev -- examples/demo/run.sh}"
: "${TF_CLOUD_ORGANIZATION:?is not set: run this with bin/holdfast dev -- examples/demo/run.sh}"

# Settings of the caller's own that would change what tofu does here.
unset TF_WORKSPACE TF_DATA_DIR TF_CLOUD_PROJECT TF_INPUT TF_LOG TF_CLI_ARGS TF_CLI_ARGS_init TF_CLI_ARGS_plan TF_CLI_ARGS_apply

config=$(cd -- "$(dirname -- "$0")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/holdfast-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
mkdir "$work/config"
cp "$config"/*.tf "$work/config/"
cd "$work/config"

# Only tofu's variable carries it; nothing here writes it to a file.
secret=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
[ ${#secret} = 32 ] || fail "no random secret could be made"
export TF_VAR_secret=$secret

log=$work/step.log
run_ids=()

step() { printf '\n==> %s\n' "$*"; }

# tofu_run ARGS…: shows and keeps what tofu says, and bounds its time.
tofu_run() {
	local status=0
	timeout --foreground 300 tofu "$@" -no-color 2>&1 | tee "$log" || status=${PIPESTATUS[0]}
	[ "$status" != 124 ] || fail "tofu $1 took longer than 5 minutes"
	[ "$status" = 0 ] || fail "tofu $* ended with exit status $status"
	if grep -q -F -- "$secret" "$log"; then fail "tofu $1 printed the secret"; fi
}

# saw PATTERN: the last step printed a line that matches.
saw() { grep -q -E -- "$1" "$log" || fail "the last step did not print: $1"; }

# was_remote: the last step was a run on the server. Notes its id.
was_remote() {
	local id
	id=$(sed -n "s|.*https://[^ ]*/app/$TF_CLOUD_ORGANIZATION/demo/runs/\(run-[A-Za-z0-9]*\).*|\1|p" "$log" | head -n 1)
	[ -n "$id" ] || fail "the last step named no run of the server, so it did not run there"
	case " ${run_ids[*]-} " in *" $id "*) fail "the last step named a run seen before: $id" ;; esac
	run_ids+=("$id")
	[ ! -e terraform.tfstate ] || fail "tofu left a state file on this machine"
}

# output_is NAME VALUE
output_is() {
	local got
	got=$(timeout 60 tofu output -no-color -raw "$1") || fail "tofu output $1 failed"
	[ "$got" = "$2" ] || fail "output $1 is not what was applied"
}

step "tofu init"
tofu_run init -input=false
saw 'Cloud backend has been successfully initialized!'

step "tofu plan"
tofu_run plan -input=false
saw '^Plan: 2 to add, 0 to change, 0 to destroy\.'
was_remote

step "tofu apply -auto-approve"
tofu_run apply -input=false -auto-approve
saw 'Apply complete! Resources: 2 added, 0 changed, 0 destroyed\.'
was_remote

step "tofu output"
output_is greeting hello
output_is secret "$secret"
echo "both outputs are what was applied, the secret one too"

step "tofu state list"
tofu_run state list
saw '^terraform_data\.greeting$'
saw '^terraform_data\.vault$'

step "a change: tofu apply, answered with yes"
export TF_VAR_greeting=goodbye
tofu_run apply < <(echo yes)
saw '^Plan: 0 to add, 1 to change, 0 to destroy\.'
saw 'Apply complete! Resources: 0 added, 1 changed, 0 destroyed\.'
was_remote
output_is greeting goodbye
output_is secret "$secret"

step "tofu plan once more: nothing is left to do"
tofu_run plan -input=false -detailed-exitcode
saw '^No changes\.'
was_remote

step "what Holdfast stored: is the secret in it?"
search_stored_bytes "$HOLDFAST_DATA" "$secret" "${run_ids[1]}"

step "tofu destroy -auto-approve"
tofu_run destroy -input=false -auto-approve
saw 'Destroy complete! Resources: 2 destroyed\.|Apply complete! Resources: 0 added, 0 changed, 2 destroyed\.'
was_remote
left=$(timeout 60 tofu state list -no-color) || fail "tofu state list failed after destroy"
[ -z "$left" ] || fail "resources are left after destroy: $left"

step "what Holdfast stored, now that all is destroyed: is the secret in it?"
search_stored_bytes "$HOLDFAST_DATA" "$secret" "${run_ids[-1]}"

printf '\nDEMO PASSED: %s runs on the server, and the secret is nowhere in the stored bytes.\n' "${#run_ids[@]}"
