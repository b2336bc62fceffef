package state_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/state"
)

func TestPublishAndReadBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, err := w.Current(ctx, w.ada, w.ws)
	wantFault(t, err, fault.NotFound, "no_state")
	outputs, err := w.CurrentOutputs(ctx, w.ada, w.ws)
	require.NoError(t, err)
	assert.Empty(t, outputs)

	tok := w.lock(w.ada)
	content := file(7, lineage, "one") // a first version may have any serial
	v := w.begin(w.ada, 7, content)
	assert.Equal(t, state.Pending, v.Status)
	assert.Equal(t, []any{tok.Epoch, fence.User, string(w.ada.User), w.ada.User}, []any{v.Epoch, v.HolderKind, v.HolderID, v.CreatedBy})
	assert.Empty(t, w.current(), "an announced version is not current")
	_, _, err = w.Download(ctx, w.ada, v.ID)
	wantFault(t, err, fault.NotFound, "no_bytes")

	v, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, state.Finalized, v.Status, "the raw bytes alone finalize (ST-18)")
	assert.Equal(t, int64(7), v.Serial)
	assert.Equal(t, lineage, v.Lineage)
	assert.Equal(t, int64(len(content)), v.Size)
	assert.Equal(t, "1.10.6", v.TerraformVersion)
	assert.False(t, v.ClientEncrypted)
	assert.NotNil(t, v.FinalizedAt)
	assert.Equal(t, []state.Resource{{Module: `module.net["a"]`, Mode: "managed", Type: "terraform_data", Name: "one", Provider: `provider["terraform.io/builtin/terraform"]`, Instances: 2, Keys: []string{"0", "1"}}}, v.Resources)
	assert.Equal(t, content, w.download(w.ada, v.ID), "byte for byte")
	assert.Equal(t, v.ID, w.current())
	read, err := w.Current(ctx, w.mia, w.ws)
	require.NoError(t, err)
	assert.Equal(t, v, read)
	assert.Equal(t, 1, w.audited("state.published"))

	outputs, err = w.CurrentOutputs(ctx, w.mia, w.ws)
	require.NoError(t, err)
	require.Len(t, outputs, 2)
	assert.Equal(t, "greeting", outputs[0].Name)
	assert.JSONEq(t, `"one"`, string(outputs[0].Value))
	assert.JSONEq(t, `"string"`, string(outputs[0].Type))
	assert.Equal(t, []any{"password", true}, []any{outputs[1].Name, outputs[1].Sensitive})
	assert.JSONEq(t, `{"a":["hunter2-one"]}`, string(outputs[1].Value))
	one, err := w.Output(ctx, w.mia, outputs[1].ID)
	require.NoError(t, err)
	assert.Equal(t, outputs[1], one)
	same, err := w.Outputs(ctx, w.mia, v.ID)
	require.NoError(t, err)
	assert.Equal(t, outputs, same)
}

func TestResourcesAreThereWhereverOneVersionIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, "x")
	v := w.publish(w.ada, 1, content)
	require.NotEmpty(t, v.Resources)
	shown := map[string]state.Version{"version": w.version(v.ID)}
	var err error
	shown["the same create again"], _, err = w.Begin(ctx, w.ada, w.ws, announce(1, lineage, content))
	require.NoError(t, err)
	shown["the same upload again"], err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	shown["current"], err = w.Current(ctx, w.ada, w.ws)
	require.NoError(t, err)
	require.NoError(t, postgres.InTx(ctx, w.db, "test.load", func(tx postgres.Tx) error {
		shown["load"], err = w.Load(ctx, tx, v.ID)
		return err
	}))
	for where, got := range shown {
		assert.Equal(t, v, got, where)
	}
	back, err := w.Rollback(ctx, w.ada, w.ws, v.ID)
	require.NoError(t, err)
	assert.Equal(t, v.Resources, back.Resources)
	assert.Equal(t, back, w.version(back.ID))
}

func TestVersionsAreListedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	var published []ids.StateVersion
	for serial := range int64(3) {
		published = append([]ids.StateVersion{w.publish(w.ada, serial, file(serial, lineage, "x")).ID}, published...)
	}
	pending := w.begin(w.ada, 9, file(9, lineage, "x"))
	names := func(f state.Filter) (list []ids.StateVersion, total int) {
		versions, total, err := w.Versions(ctx, w.mia, w.ws, f)
		require.NoError(t, err)
		for _, v := range versions {
			assert.Empty(t, v.Resources, "a list opens nothing sealed")
			list = append(list, v.ID)
		}
		return list, total
	}
	list, total := names(state.Filter{Limit: 10})
	assert.Equal(t, append([]ids.StateVersion{pending.ID}, published...), list)
	assert.Equal(t, 4, total)
	list, total = names(state.Filter{Statuses: []state.Status{state.Finalized}, Limit: 2, Offset: 1})
	assert.Equal(t, published[1:], list)
	assert.Equal(t, 3, total)
}

func TestJSONFormInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"before", "after"} {
		t.Run(order, func(t *testing.T) {
			w := newWorld(t)
			w.lock(w.ada)
			content := file(1, lineage, "x")
			v := w.begin(w.ada, 1, content)
			raw := func() {
				_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
				require.NoError(t, err)
			}
			if order == "after" {
				raw()
				_, _, err := w.DownloadJSON(ctx, w.ada, v.ID)
				wantFault(t, err, fault.NotFound, "no_bytes")
			}
			require.NoError(t, w.UploadJSON(ctx, v.ID, strings.NewReader(`{"values":1}`)))
			if order == "before" {
				assert.Empty(t, w.current(), "the JSON form decides nothing")
				raw()
			}
			assert.Equal(t, v.ID, w.current())
			body, _, err := w.DownloadJSON(ctx, w.ada, v.ID)
			require.NoError(t, err)
			got, err := io.ReadAll(body)
			require.NoError(t, err)
			require.NoError(t, body.Close())
			assert.Equal(t, `{"values":1}`, string(got))
			assert.Equal(t, content, w.download(w.ada, v.ID))

			require.NoError(t, w.UploadJSON(ctx, v.ID, strings.NewReader(`{"values":1}`)), "the same again")
			wantFault(t, w.UploadJSON(ctx, v.ID, strings.NewReader(`{"values":2}`)), fault.Conflict, "already_uploaded")
			assert.Equal(t, map[string]int{"stored": 2, "discarded": 2}, w.objects(), "the bytes of neither repeat are kept")
		})
	}
}

func TestClientEncryptedState(t *testing.T) {
	t.Parallel()
	envelope := func(serial, secret string) []byte {
		return []byte(`{` + serial + `"meta":{"key_provider.pbkdf2.k":"eyJ9"},"encrypted_data":"` + secret + `","encryption_version":"v0"}`)
	}
	w := newWorld(t)
	w.lock(w.ada)
	content := envelope(`"serial":3,"lineage":"`+lineage+`",`, "AAAA")
	in := announce(3, lineage, content)
	in.Outputs = []byte(`{"b":{"value":"in-plain","type":"string","sensitive":true},"a":{"value":1,"type":"number"}}`)
	v, _, err := w.Begin(ctx, w.ada, w.ws, in)
	require.NoError(t, err)
	v, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, []any{true, int64(3), lineage}, []any{v.ClientEncrypted, v.Serial, v.Lineage})
	assert.Equal(t, content, w.download(w.ada, v.ID))
	outputs, err := w.CurrentOutputs(ctx, w.ada, w.ws)
	require.NoError(t, err)
	require.Len(t, outputs, 2)
	assert.Equal(t, []any{"a", "b", true}, []any{outputs[0].Name, outputs[1].Name, outputs[1].Sensitive})
	assert.True(t, value[bool](w, "select declared_outputs_sealed is null from state_versions where id = @id", postgres.Args{"id": v.ID}), "the declared copy is not kept")

	early := envelope("", "BBBB") // as OpenTofu 1.7 wrote it: the declared facts serve
	v, err = w.Upload(ctx, w.begin(w.ada, 4, early).ID, bytes.NewReader(early))
	require.NoError(t, err)
	assert.Equal(t, []any{int64(4), lineage}, []any{v.Serial, v.Lineage})
}

func TestTheBytesDecideNotTheDeclaration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.lock(w.ada)
	first := w.publish(w.ada, 5, file(5, lineage, "a"))

	t.Log("a user may declare something else than the file says; it is recorded")
	content := file(6, lineage, "b")
	v, _, err := w.Begin(ctx, w.ada, w.ws, state.Create{Serial: 60, MD5: md5of(content)})
	require.NoError(t, err)
	v, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, []any{int64(6), int64(60), lineage, ""}, []any{v.Serial, v.DeclaredSerial, v.Lineage, v.DeclaredLineage})
	assert.Contains(t, value[string](w, "select details::text from audit_entries where action = 'state.published' and object_id = @id", postgres.Args{"id": v.ID}), `"declared_serial": 60`)

	t.Log("but the rules hold for what the file says")
	refused := func(in state.Create, content []byte, code string) {
		t.Helper()
		in.MD5 = md5of(content)
		stale, _, err := w.Begin(ctx, w.ada, w.ws, in)
		require.NoError(t, err)
		_, err = w.Upload(ctx, stale.ID, bytes.NewReader(content))
		wantFault(t, err, fault.Conflict, code)
		w.wantEvidence(stale.ID, code, content)
		assert.Equal(t, v.ID, w.current())
	}
	refused(state.Create{Serial: 61, Lineage: lineage}, file(6, lineage, "stale by its bytes"), "stale_serial")
	refused(state.Create{Serial: 62, Lineage: lineage}, file(62, other, "of other lineage by its bytes"), "lineage_mismatch")
	refused(state.Create{Serial: 63}, file(63, other, "lineage not declared"), "lineage_mismatch")
	refused(state.Create{Serial: 64}, file(64, "", "no lineage at all"), "lineage_mismatch")
	w.release(tok)

	t.Log("an attempt must declare what it sends")
	runner, _ := w.apply(v.ID)
	for mark, declared := range map[string]state.Create{"serial": {Serial: 8, Lineage: lineage}, "lineage": {Serial: 7, Lineage: lineage}} {
		content := file(7, lineage, mark)
		if mark == "lineage" {
			content = file(7, other, mark)
		}
		declared.MD5 = md5of(content)
		u, _, err := w.Begin(ctx, runner, w.ws, declared)
		require.NoError(t, err)
		_, err = w.Upload(ctx, u.ID, bytes.NewReader(content))
		wantFault(t, err, fault.Invalid, "state_attribute_mismatch")
		w.wantEvidence(u.ID, "state_attribute_mismatch", content)
	}
	assert.Equal(t, v.ID, w.current())
	assert.Equal(t, state.Finalized, w.version(first.ID).Status, "old versions stay")
}

// wantEvidence demands that a refused upload is discarded, with its bytes kept.
func (w world) wantEvidence(id ids.StateVersion, code string, content []byte) {
	w.Helper()
	v := w.version(id)
	assert.Equal(w, []any{state.Discarded, code}, []any{v.Status, v.DiscardReason})
	assert.Equal(w, content, w.download(w.ada, id), "the refused bytes are evidence")
	assert.NotEqual(w, id, w.current())
	assert.Equal(w, 1, value[int](w, "select count(*) from audit_entries where action = 'state.refused' and object_id = @id and details ->> 'code' = @code", postgres.Args{"id": id, "code": code}))
}

func TestDeclarationsAreCheckedEarly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	w.publish(w.ada, 5, file(5, lineage, "a"))
	for code, in := range map[string]state.Create{
		"stale_serial":     announce(5, lineage, file(5, lineage, "b")),
		"lineage_mismatch": announce(6, other, file(6, other, "b")),
	} {
		_, _, err := w.Begin(ctx, w.ada, w.ws, in)
		wantFault(t, err, fault.Conflict, code)
		assert.Contains(t, err.Error(), "5", "both serials are named")
		assert.Contains(t, err.Error(), "rollback")
	}
	for pointer, in := range map[string]state.Create{
		"serial":  {Serial: -1, MD5: md5of(nil)},
		"lineage": {Serial: 9, MD5: md5of(nil), Lineage: "a\x00b"},
		"md5":     {Serial: 9, MD5: "D41D8CD98F00B204E9800998ECF8427E"},
	} {
		_, _, err := w.Begin(ctx, w.ada, w.ws, in)
		wantFault(t, err, fault.Invalid, "invalid_attribute")
		var f *fault.Error
		require.ErrorAs(t, err, &f)
		assert.Equal(t, "/data/attributes/"+pointer, f.Pointer)
	}
	_, total, err := w.Versions(ctx, w.ada, w.ws, state.Filter{Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 1, total, "nothing was announced")
}

func TestBytesThatAreNoState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	for name, content := range map[string]string{
		"text": "not a state", "empty": "", "array": "[]", "no serial": `{"lineage":"x"}`, "no lineage": `{"serial":3}`,
		"serial twice": `{"serial":1,"lineage":"x","serial":3}`, "truncated": string(file(1, lineage, "t")[:200]), "trailing": string(file(1, lineage, "t")) + "x",
	} {
		t.Run(name, func(t *testing.T) {
			v := w.begin(w.ada, 3, []byte(content))
			_, err := w.Upload(ctx, v.ID, strings.NewReader(content))
			wantFault(t, err, fault.Invalid, "state_malformed")
			w.wantEvidence(v.ID, "state_malformed", []byte(content))
			assert.Equal(t, int64(3), w.version(v.ID).Serial, "what was declared stays")
			_, err = w.Upload(ctx, v.ID, strings.NewReader(content))
			wantFault(t, err, fault.Conflict, "upload_discarded")
			wantFault(t, w.UploadJSON(ctx, v.ID, strings.NewReader("{}")), fault.Conflict, "upload_discarded")
			again, created, err := w.Begin(ctx, w.ada, w.ws, announce(3, lineage, []byte(content)))
			require.NoError(t, err)
			assert.True(t, created && again.ID != v.ID, "a refused create is no retry key")
		})
	}
	assert.Empty(t, w.current())
}

func TestWrongDigestChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, "x")
	v := w.begin(w.ada, 1, content)
	_, err := w.Upload(ctx, v.ID, bytes.NewReader(file(1, lineage, "changed on the way")))
	wantFault(t, err, fault.Invalid, "digest_mismatch")
	assert.Equal(t, state.Pending, w.version(v.ID).Status)
	assert.Equal(t, 1, value[int](w, "select count(*) from objects where status = 'discarded'", nil), "bytes that were not announced are given up")
	v, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, v.ID, w.current())
}

func TestRepeats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.lock(w.ada)
	content := file(1, lineage, "x")
	v := w.begin(w.ada, 1, content)

	repeat, created, err := w.Begin(ctx, w.ada, w.ws, announce(1, lineage, content))
	require.NoError(t, err)
	assert.Equal(t, []any{false, v.ID}, []any{created, repeat.ID}, "the exact create again is the same version")

	v, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	again, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, v, again, "the same bytes again are the lost answer")
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(file(1, lineage, "y")))
	wantFault(t, err, fault.Conflict, "already_finalized")
	assert.Equal(t, content, w.download(w.ada, v.ID))
	repeat, created, err = w.Begin(ctx, w.ada, w.ws, announce(1, lineage, content))
	require.NoError(t, err)
	assert.Equal(t, []any{false, v.ID}, []any{created, repeat.ID}, "also when it is final")
	assert.Equal(t, 1, w.audited("state.published"))

	t.Log("equal bytes under a new epoch are a new version (amendment 15)")
	w.release(tok)
	w.lock(w.ada)
	fresh := w.publish(w.ada, 1, content)
	assert.NotEqual(t, v.ID, fresh.ID)
	assert.Equal(t, fresh.ID, w.current())

	t.Log("a create that was replaced since is not answered as if it were current")
	newer := w.publish(w.ada, 2, file(2, lineage, "z"))
	_, _, err = w.Begin(ctx, w.ada, w.ws, announce(1, lineage, content))
	wantFault(t, err, fault.Conflict, "stale_serial")
	assert.Equal(t, newer.ID, w.current())
}

func TestAnUploadMustBeginInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, "x")
	late := func(id ids.StateVersion) {
		require.NoError(t, w.exec("update state_versions set expires_at = clock_timestamp() where id = @id", postgres.Args{"id": id}))
	}
	open := func() (n int) {
		require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
			n, err = state.OpenUploads(ctx, tx, w.ws, w.epoch())
			return err
		}))
		return n
	}
	v := w.begin(w.ada, 1, content)
	assert.Equal(t, 1, open())
	late(v.ID)
	assert.Zero(t, open(), "an unclaimed upload does not matter for ever")
	_, err := w.Upload(ctx, v.ID, bytes.NewReader(content))
	wantFault(t, err, fault.Conflict, "upload_expired")
	wantFault(t, w.UploadJSON(ctx, v.ID, strings.NewReader("{}")), fault.Conflict, "upload_expired")

	fresh, created, err := w.Begin(ctx, w.ada, w.ws, announce(1, lineage, content))
	require.NoError(t, err)
	assert.True(t, created && fresh.ID != v.ID, "the create made again starts anew")
	assert.Equal(t, "upload_expired", w.version(v.ID).DiscardReason)

	require.NoError(t, w.UploadJSON(ctx, fresh.ID, strings.NewReader("{}")))
	late(fresh.ID)
	assert.Equal(t, 1, open(), "a claim by the JSON form alone counts (G-23)")
	_, err = w.Upload(ctx, fresh.ID, bytes.NewReader(content))
	require.NoError(t, err, "what has begun may go on")
	assert.Zero(t, open())
}

// An aborted request leaves a claim, and no version that anybody sees as current.
func TestAnUploadThatBreaksOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	content := file(1, lineage, strings.Repeat("x", 1<<20))
	v := w.begin(w.ada, 1, content)
	broken := io.MultiReader(bytes.NewReader(content[:600_000]), brokenReader{})
	_, err := w.Upload(ctx, v.ID, broken)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.True(t, value[bool](w, "select raw_claimed_at is not null and status = 'pending' from state_versions where id = @id", postgres.Args{"id": v.ID}), "claimed, not finalized (ST-17)")
	assert.Empty(t, w.current())

	w.store.SetDown(true)
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	w.store.SetDown(false)
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	assert.Equal(t, content, w.download(w.ada, w.current()))
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// What OpenTofu marks as sensitive, and all that belongs to the state, stands
// nowhere in plain: not in any column of any table, not in the store.
func TestNothingOfAStateIsStoredInPlain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	const secret = "hunter2-tellnobody"
	content := file(1, lineage, "tellnobody")
	in := announce(1, lineage, content)
	in.Outputs = []byte(`{"password":{"value":"` + secret + `","type":"string","sensitive":true}}`)
	v, _, err := w.Begin(ctx, w.ada, w.ws, in)
	require.NoError(t, err)
	assert.Empty(t, w.columnsWith(secret), "announced")
	_, err = w.Upload(ctx, v.ID, bytes.NewReader(content))
	require.NoError(t, err)
	_, err = w.Upload(ctx, w.begin(w.ada, 2, []byte(secret)).ID, strings.NewReader(secret))
	wantFault(t, err, fault.Invalid, "state_malformed")
	assert.NotContains(t, err.Error(), secret)
	_, err = w.Rollback(ctx, w.ada, w.ws, v.ID)
	require.NoError(t, err)

	for _, plain := range []string{secret, "terraform_data", "greeting"} {
		assert.Empty(t, w.columnsWith(plain), plain)
		for _, key := range w.store.Keys() {
			assert.NotContains(t, string(w.store.Bytes(key)), plain, key)
		}
	}
	assert.NotEmpty(t, w.columnsWith(lineage), "the search finds what is there in plain")
}

// columnsWith names the columns of any table that hold the text.
func (w world) columnsWith(text string) (found []string) {
	w.Helper()
	type column struct{ TableName, ColumnName, DataType string }
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		columns, err := postgres.All[column](ctx, tx, `select c.table_name, c.column_name, c.data_type from information_schema.columns c
			join information_schema.tables t using (table_schema, table_name) where c.table_schema = 'public' and t.table_type = 'BASE TABLE'`, nil)
		if err != nil {
			return err
		}
		for _, c := range columns {
			as := fmt.Sprintf("position(@text in %q::text)", c.ColumnName)
			if c.DataType == "bytea" {
				as = fmt.Sprintf("position(convert_to(@text, 'UTF8') in %q)", c.ColumnName)
			}
			n, err := postgres.Value[int](ctx, tx, fmt.Sprintf("select count(*) from %q where %s > 0", c.TableName, as), postgres.Args{"text": text})
			if err != nil {
				return err
			}
			if n > 0 {
				found = append(found, c.TableName+"."+c.ColumnName)
			}
		}
		return nil
	}))
	return found
}

// Case 34: a state that lost all its resources is remarked in the audit, and one call
// brings the earlier one back.
// TestAJumpOfTheSerialIsRemarked: case 8. Somebody set it by hand; what follows goes on from there.
func TestAJumpOfTheSerialIsRemarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	skipped := func(id ids.StateVersion) int64 {
		return value[int64](w, "select coalesce((details->>'skipped_serials')::bigint, 0) from audit_entries where action = 'state.published' and object_id = @id", postgres.Args{"id": id})
	}
	for _, step := range []struct{ serial, skipped int64 }{{5, 0}, {6, 0}, {1006, 999}, {1007, 0}, {math.MaxInt64, math.MaxInt64 - 1008}} {
		assert.Equal(t, step.skipped, skipped(w.publish(w.ada, step.serial, file(step.serial, lineage, "x")).ID), step.serial)
	}
}

func TestAnEmptiedStateIsRemarked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.lock(w.ada)
	remarked := func(id ids.StateVersion) bool {
		return value[bool](w, "select (details->>'emptied')::boolean from audit_entries where action = 'state.published' and object_id = @id", postgres.Args{"id": id})
	}
	empty := func(serial int64) []byte {
		return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":%q,"outputs":{},"resources":[]}`, serial, lineage)
	}
	assert.False(t, remarked(w.publish(w.ada, 1, empty(1)).ID), "it was empty before")
	full := w.publish(w.ada, 2, file(2, lineage, "full"))
	assert.False(t, remarked(full.ID))
	assert.True(t, remarked(w.publish(w.ada, 3, empty(3)).ID))
	back, err := w.Rollback(ctx, w.ada, w.ws, full.ID)
	require.NoError(t, err)
	assert.Equal(t, file(2, lineage, "full"), w.download(w.ada, back.ID))
}
