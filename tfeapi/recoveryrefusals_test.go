package tfeapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/runs"
)

// heldRun plays a run that published one state and then failed.
func (w *world) heldRun() (*tfe.Workspace, *tfe.Run) {
	w.Helper()
	group, ws := w.runner(), w.workspace("app")
	run := w.queue(ws, tfe.RunCreateOptions{})
	w.plan(w.accept(group), "")
	s := w.start(group, run)
	w.publish(s, ws)
	w.done(s, runs.Done{Outcome: runs.OutcomeErrored, ExitCode: 1, TofuStarted: true})
	return ws, run
}

// What is refused, each with its code, and changes nothing (RC-10…RC-18, RC-43…RC-49).
func TestWhatARecoveryRefusesOnTheWire(t *testing.T) {
	w := steppedUp(t)
	ws, run := w.heldRun()
	dora, second := w.user(t.Context(), "dora")
	acme, err := w.deps.Accounts.Organization(t.Context(), authz.System(), "acme")
	require.NoError(t, err)
	require.NoError(t, w.deps.Accounts.AddMember(t.Context(), authz.System(), acme.ID, dora, authz.Owner))
	secret, _ := w.enrol("dora", second)
	w.stepUp(secret, second)
	age := func(by string) {
		w.exec("update tokens set step_up_at = clock_timestamp() - @by::interval where step_up_at is not null", postgres.Args{"by": by})
	}
	before := w.show(w.ann, "runs/"+run.ID+"/recovery")
	current := before.Attributes["current-state"].(map[string]any)
	cited := ordinary + fmt.Sprintf(`,"current-state-version-id":%q,"current-state-checksum":%q`, current["id"], current["checksum"])

	age("901 seconds")
	w.recover(w.ann, run.ID, cited, 403, "step_up_required")
	age("1 second")
	for _, refused := range []struct {
		token, attributes string
		status            int
		code              string
	}{
		{w.bob, cited, 403, "forbidden"},
		{w.ann, strings.Replace(cited, "looked at it", "", 1), 422, "reason_required"},
		{w.ann, strings.Replace(cited, `"confirm-revoke-authority":true`, `"confirm-revoke-authority":false`, 1), 422, "confirmation_required"},
		{w.ann, strings.Replace(cited, `,"confirm-advance-fence":true`, "", 1), 422, "confirmation_required"},
		{w.ann, strings.Replace(cited, "current_state_verified", "merge", 1), 422, "invalid_resolution"},
		{w.ann, strings.Replace(cited, current["checksum"].(string), strings.Repeat("0", 64), 1), 409, "evidence_mismatch"},
	} {
		w.recover(refused.token, run.ID, refused.attributes, refused.status, refused.code)
	}
	assert.Equal(t, before, w.show(w.ann, "runs/"+run.ID+"/recovery"), "nothing was changed or recorded")

	// A chain that is broken, and one of 1,025 publications.
	w.exec("update state_versions set base_version_id = 'sv-1111111111111111' where run_id = @run", postgres.Args{"run": run.ID})
	w.recover(w.ann, run.ID, cited, 409, "publication_chain_invalid")
	w.exec("update state_versions set base_version_id = null where run_id = @run", postgres.Args{"run": run.ID})
	w.exec(`insert into state_versions select (jsonb_populate_record(v, jsonb_build_object('id', 'sv-' || lpad(n::text, 16, 'x'), 'serial', v.serial + n, 'declared_serial', v.serial + n,
			'base_version_id', case when n = 1 then v.id else 'sv-' || lpad((n - 1)::text, 16, 'x') end))).*
		from state_versions v, generate_series(1, 1024) n where v.run_id = @run`, postgres.Args{"run": run.ID})
	newest := func(n int) {
		w.exec("update current_states set state_version_id = 'sv-' || lpad(@n::int::text, 16, 'x') where workspace_id = @ws", postgres.Args{"n": n, "ws": ws.ID})
	}
	newest(1024)
	w.recover(w.ann, run.ID, ordinary, 409, "publication_chain_invalid")
	w.exec("delete from state_versions where id = 'sv-' || lpad('1024', 16, 'x')", postgres.Args{})
	newest(1023)
	shown := w.show(w.ann, "runs/"+run.ID+"/recovery").Attributes
	assert.Len(t, shown["publications"], 1024)
	now := shown["current-state"].(map[string]any)
	cited = ordinary + fmt.Sprintf(`,"current-state-version-id":%q,"current-state-checksum":%q`, now["id"], now["checksum"])

	// A second operator, before the lease has run out and after.
	prepared := w.recover(w.ann, run.ID, cited+`,"prepare-only":true`, 200, "")
	w.recover(second, run.ID, cited+`,"takeover":true`, 409, "recovery_lease_held")
	w.exec("update recovery_operations set lease_expires_at = clock_timestamp() - interval '1 second'", postgres.Args{})
	w.recover(second, run.ID, cited, 409, "takeover_confirmation_required")
	w.recover(second, run.ID, ordinary+`,"takeover":true`, 409, "evidence_mismatch")
	w.recover(w.bob, run.ID, cited+`,"takeover":true`, 403, "forbidden")
	age("901 seconds")
	w.recover(second, run.ID, cited+`,"takeover":true`, 403, "step_up_required")
	age("1 second")
	taken := w.recover(second, run.ID, cited+`,"takeover":true,"prepare-only":true`, 200, "")
	assert.Equal(t, []any{prepared.ID, prepared.Attributes["target-state-version-id"]}, []any{taken.ID, taken.Attributes["target-state-version-id"]})
	w.recover(w.ann, run.ID, cited, 409, "recovery_fenced")
	held, err := w.client.Workspaces.ReadByID(t.Context(), ws.ID)
	require.NoError(t, err)
	assert.True(t, held.Locked)
	done := w.recover(second, run.ID, cited, 200, "")
	assert.Equal(t, []any{prepared.ID, "committed", 1024.0}, []any{done.ID, done.Attributes["status"], done.Attributes["publications"]})
	w.recover(w.ann, run.ID, cited, 409, "recovery_fenced")
}
