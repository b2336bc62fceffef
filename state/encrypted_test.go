package state_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// insist turns the setting client-encrypted of the workspace on or off.
func (w world) insist(on bool) {
	w.Helper()
	places := workspaces.New(w.db, accounts.New(w.db, nil), nil)
	_, err := places.Update(ctx, w.ada, w.ws, workspaces.Changes{Settings: workspaces.Settings{ClientEncrypted: &on}})
	require.NoError(w, err)
}

// ciphertext is a state as tofu encrypts it.
func ciphertext(serial int64, mark string) []byte {
	return fmt.Appendf(nil, `{"serial":%d,"lineage":%q,"meta":{"key_provider.pbkdf2.k":"eyJ9"},"encrypted_data":%q,"encryption_version":"v0"}`, serial, lineage, mark)
}

// beginWithOutputs announces a state with what tofu sends in plain beside it.
func (w world) beginWithOutputs(serial int64, content []byte) state.Version {
	w.Helper()
	in := announce(serial, lineage, content)
	in.Outputs = []byte(`{"greeting":{"value":"sesame-in-plain","type":"string"}}`)
	v, _, err := w.Begin(ctx, w.ada, w.ws, in)
	require.NoError(w, err)
	return v
}

func (w world) outputNames(id ids.StateVersion) (names []string) {
	w.Helper()
	outputs, err := w.Outputs(ctx, w.ada, id)
	require.NoError(w, err)
	for _, o := range outputs {
		names = append(names, o.Name)
	}
	return names
}

// unknown are the names of outputs that are only in the state: one without a type, so
// that clients read the state.
var unknown = []string{"(in the state only)"}

func TestAWorkspaceThatInsistsOnEncryptionKeepsNothingInPlain(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"json first", "raw first"} {
		t.Run(order, func(t *testing.T) {
			w := newWorld(t)
			w.insist(true)
			w.lock(w.ada)
			content := ciphertext(1, "AAAA")
			v := w.beginWithOutputs(1, content)
			assert.True(t, value[bool](w, "select declared_outputs_sealed is null from state_versions where id = @id", postgres.Args{"id": v.ID}))
			putJSON := func() { require.NoError(t, w.UploadJSON(ctx, v.ID, strings.NewReader(`{"secret":"in-plain"}`))) }
			if order == "json first" {
				putJSON()
			}
			before := value[int](w, "select count(*) from objects", nil)
			_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
			require.NoError(t, err)
			putJSON()
			assert.Equal(t, before+1, value[int](w, "select count(*) from objects", nil), "the state alone is an object")

			v = w.version(v.ID)
			assert.Equal(t, []any{state.Finalized, true, ids.Object("")}, []any{v.Status, v.ClientEncrypted, v.JSONObject})
			assert.Equal(t, content, w.download(w.ada, v.ID))
			outputs, err := w.CurrentOutputs(ctx, w.ada, w.ws)
			require.NoError(t, err)
			require.Len(t, outputs, 1)
			assert.Equal(t, []any{unknown[0], true, "null", "null"}, []any{outputs[0].Name, outputs[0].Sensitive, string(outputs[0].Type), string(outputs[0].Value)})
			one, err := w.Output(ctx, w.ada, outputs[0].ID)
			require.NoError(t, err)
			assert.Equal(t, outputs[0], one)
		})
	}
}

func TestAWorkspaceThatInsistsOnEncryptionRefusesPlainState(t *testing.T) {
	t.Parallel()
	half := bytes.Replace(file(2, lineage, "half"), []byte(`"version": 4`), []byte(`"version": 4, "encrypted_data": "AAAA"`), 1)
	for name, content := range map[string][]byte{"in plain": file(2, lineage, "plain"), "in plain beside a ciphertext": half} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lock(w.ada)
			first := w.publish(w.ada, 1, file(1, lineage, "before"))
			w.insist(true)
			v := w.begin(w.ada, 2, content)
			_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
			wantFault(t, err, fault.Invalid, "state_not_encrypted")
			assert.Equal(t, first.ID, w.current(), "what was there before stays")
			v = w.version(v.ID)
			assert.Equal(t, []any{state.Discarded, "state_not_encrypted", int64(2)}, []any{v.Status, v.DiscardReason, v.Serial})
			assert.Equal(t, content, w.download(w.ada, v.ID), "the bytes are kept as evidence")
			assert.Equal(t, 1, w.audited("state.refused"))
			_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
			wantFault(t, err, fault.Conflict, "upload_discarded")

			w.publish(w.ada, 2, ciphertext(2, "BBBB"))
			w.insist(false)
			w.publish(w.ada, 3, file(3, lineage, "after"))
		})
	}
}

// A force is no way around the setting, and neither is a run.
func TestNobodyIsExemptFromEncryption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.lock(w.ada)
	first := w.publish(w.ada, 1, ciphertext(1, "AAAA"))
	w.insist(true)
	content := file(1, other, "forced")
	in := announce(1, other, content)
	in.Force = true
	v, _, err := w.Begin(ctx, w.ada, w.ws, in)
	require.NoError(t, err)
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	wantFault(t, err, fault.Invalid, "state_not_encrypted")

	w.release(tok)
	attempt, _ := w.apply(first.ID)
	content = file(2, lineage, "run")
	_, err = w.Upload(ctx, w.begin(attempt, 2, content).ID, bytes.NewReader(content))
	wantFault(t, err, fault.Invalid, "state_not_encrypted")
	assert.Equal(t, first.ID, w.current())
}

// The setting counts as it is when the bytes are there.
func TestTheSettingChangesDuringAnUpload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := ciphertext(1, "AAAA")
	v := w.beginWithOutputs(1, content)
	require.NoError(t, w.UploadJSON(ctx, v.ID, &whenRead{Reader: strings.NewReader(`{"secret":"in-plain"}`), then: func() { w.insist(true) }}))
	_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Empty(t, w.version(v.ID).JSONObject)
	assert.Equal(t, unknown, w.outputNames(v.ID), "what was announced before is not kept either")
	assert.True(t, value[bool](w, "select declared_outputs_sealed is null from state_versions where id = @id", postgres.Args{"id": v.ID}))
}

// whenRead does something before the first byte is read.
type whenRead struct {
	*strings.Reader
	then func()
}

func (r *whenRead) Read(p []byte) (int, error) {
	if r.then != nil {
		r.then()
		r.then = nil
	}
	return r.Reader.Read(p)
}

func TestRollbackWhereEncryptionIsInsistedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	plain := w.publish(w.ada, 1, file(1, lineage, "plain"))
	content := ciphertext(2, "AAAA")
	sealed := w.beginWithOutputs(2, content)
	_, err := w.Upload(ctx, sealed.ID, bytes.NewReader(content))
	require.NoError(t, err)
	require.NoError(t, w.UploadJSON(ctx, sealed.ID, strings.NewReader(`{"secret":"in-plain"}`)))
	assert.Equal(t, []string{"greeting"}, w.outputNames(sealed.ID))

	w.insist(true)
	_, err = w.Rollback(ctx, w.ada, w.ws, plain.ID)
	wantFault(t, err, fault.Invalid, "state_not_encrypted")
	assert.Equal(t, sealed.ID, w.current())
	again, err := w.Rollback(ctx, w.ada, w.ws, sealed.ID)
	require.NoError(t, err)
	assert.Equal(t, content, w.download(w.ada, again.ID))
	assert.Empty(t, again.JSONObject)
	assert.Equal(t, unknown, w.outputNames(again.ID))

	w.insist(false)
	back, err := w.Rollback(ctx, w.ada, w.ws, sealed.ID)
	require.NoError(t, err)
	assert.NotEmpty(t, back.JSONObject)
	assert.Equal(t, []string{"greeting"}, w.outputNames(back.ID))
}

// An upload that is refused because the workspace is held stays for the recovery to decide about.
func TestHeldForRecoveryGoesBeforeEncryption(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.insist(true)
	attempt, tok := w.apply("")
	content := file(1, lineage, "late")
	v := w.begin(attempt, 1, content)
	require.NoError(t, w.tx(func(tx postgres.Tx) error { return fence.HoldForRecovery(ctx, tx, tok, "test") }))
	_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	wantFault(t, err, fault.RecoveryHeld, "workspace_recovery_pending")
	assert.Equal(t, state.Pending, w.version(v.ID).Status)
}

// What the server has no index of is said to be in the state: an empty list would be a lie.
func TestOutputsThatAreNotKnown(t *testing.T) {
	t.Parallel()
	many := func(n int) []byte {
		var b bytes.Buffer
		for i := range n {
			fmt.Fprintf(&b, `%s"o%d":{"value":%d,"type":"number"}`, map[bool]string{true: ","}[i > 0], i, i)
		}
		return fmt.Appendf(nil, `{"version":4,"serial":1,"lineage":%q,"outputs":{%s},"resources":[]}`, lineage, &b)
	}
	for name, c := range map[string]struct {
		content  []byte
		declared string
		want     []string
	}{
		"none":                                  {many(0), "", nil},
		"too many":                              {many(10_001), "", unknown},
		"encrypted and none said":               {ciphertext(1, "AAAA"), "", unknown},
		"encrypted and said that there is none": {ciphertext(1, "AAAA"), "{}", nil},
		"encrypted and said in an unknown form": {ciphertext(1, "AAAA"), "[1]", unknown},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.lock(w.ada)
			in := announce(1, lineage, c.content)
			in.Outputs = []byte(c.declared)
			v, _, err := w.Begin(ctx, w.ada, w.ws, in)
			require.NoError(t, err)
			_, err = w.Upload(ctx, v.ID, bytes.NewReader(c.content))
			require.NoError(t, err)
			assert.Equal(t, c.want, w.outputNames(v.ID))
		})
	}
}
