package tfeapi

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// encryptedSetting reads client-encrypted of a workspace's document.
func encryptedSetting(t *testing.T, body string) *bool {
	t.Helper()
	var said struct {
		Data struct {
			Attributes struct {
				ClientEncrypted *bool `json:"client-encrypted"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &said))
	return said.Data.Attributes.ClientEncrypted
}

func TestTheSettingClientEncrypted(t *testing.T) {
	w := newWorld(t)
	yes, no := true, false
	body := func(attributes string) string {
		return `{"data":{"type":"workspaces","attributes":{` + attributes + `}}}`
	}
	_, said := w.send("POST", "/api/v2/organizations/acme/workspaces", w.ann, body(`"name":"open"`))
	assert.Equal(t, &no, encryptedSetting(t, said), "not unless it is asked for")
	_, said = w.send("POST", "/api/v2/organizations/acme/workspaces", w.ann, body(`"name":"closed","client-encrypted":true`))
	assert.Equal(t, &yes, encryptedSetting(t, said))
	const closed = "/api/v2/organizations/acme/workspaces/closed"
	for _, step := range []struct {
		attributes string
		want       *bool
	}{{`"description":"d"`, &yes}, {`"client-encrypted":null`, &yes}, {`"client-encrypted":false`, &no}, {`"client-encrypted":true`, &yes}} {
		_, said = w.send("PATCH", closed, w.ann, body(step.attributes))
		assert.Equal(t, step.want, encryptedSetting(t, said), step.attributes)
		_, said = w.send("GET", closed, w.ann, "")
		assert.Equal(t, step.want, encryptedSetting(t, said), step.attributes)
	}
	response, _ := w.send("PATCH", closed, w.ann, body(`"client-encrypted":"yes"`))
	assert.Equal(t, 400, response.StatusCode)
	response, _ = w.send("PATCH", closed, w.bob, body(`"client-encrypted":false`))
	assert.Equal(t, 403, response.StatusCode, "a member cannot turn it off")
}

func TestStateOfAWorkspaceThatInsistsOnEncryption(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	w.send("PATCH", "/api/v2/workspaces/"+ws.ID, w.ann, `{"data":{"type":"workspaces","attributes":{"client-encrypted":true}}}`)
	_, err := w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	lineage := "l-1"
	announce := func(serial int64, state []byte) *tfe.StateVersion {
		t.Helper()
		v, err := w.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{
			Lineage: &lineage, MD5: md5Of(state), Serial: &serial, JSONStateOutputs: text64([]byte(`{"a":{"value":"in plain","type":"string"}}`)),
		})
		require.NoError(t, err)
		return v
	}
	plain := stateFile(1)
	v := announce(1, plain)
	response, said := w.send("PUT", v.UploadURL, "", string(plain))
	assert.Equal(t, 422, response.StatusCode)
	assert.Contains(t, said, `"code":"state_not_encrypted"`)
	_, err = w.client.StateVersions.ReadCurrent(ctx, ws.ID)
	assert.Equal(t, tfe.ErrResourceNotFound, err)
	refused, err := w.client.StateVersions.Read(ctx, v.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.StateVersionStatus("discarded"), refused.Status)

	sealed := fmt.Appendf(nil, `{"serial":2,"lineage":%q,"meta":{},"encrypted_data":"AAAA","encryption_version":"v0"}`, lineage)
	v = announce(2, sealed)
	response, _ = w.send("PUT", v.JSONUploadURL, "", `{"format_version":"1.0","secret":"in plain"}`)
	assert.Equal(t, 200, response.StatusCode, "the client goes on")
	response, _ = w.send("PUT", v.UploadURL, "", string(sealed))
	assert.Equal(t, 200, response.StatusCode)
	current, err := w.client.StateVersions.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err)
	assert.Equal(t, v.ID, current.ID)
	assert.Empty(t, current.JSONDownloadURL)
	outputs, err := w.client.StateVersionOutputs.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err)
	require.Len(t, outputs.Items, 1)
	one, err := w.client.StateVersionOutputs.Read(ctx, outputs.Items[0].ID)
	require.NoError(t, err)
	assert.Equal(t, outputs.Items[0], one)
	assert.Equal(t, []any{"(in the state only)", true, "dynamic", nil, nil}, []any{one.Name, one.Sensitive, one.Type, one.DetailedType, one.Value})

	inline := stateFile(3)
	_, err = w.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(inline), Serial: number(3), State: text64(inline)})
	assert.ErrorContains(t, err, "state_not_encrypted", "nor in the document itself")
}

// Case 46: a state that is lost is an error, never an empty state.
func TestAStateWhoseBytesAreGone(t *testing.T) {
	w := newWorld(t)
	ctx, ws := t.Context(), w.workspace("app")
	_, err := w.client.Workspaces.Lock(ctx, ws.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	lineage, content := "l-1", stateFile(1)
	before := map[string]bool{}
	for _, key := range w.store.Keys() {
		before[key] = true
	}
	_, err = w.client.StateVersions.Create(ctx, ws.ID, tfe.StateVersionCreateOptions{Lineage: &lineage, MD5: md5Of(content), Serial: number(1), State: text64(content)})
	require.NoError(t, err)
	for _, key := range w.store.Keys() {
		if !before[key] {
			w.store.Replace(key, nil)
		}
	}
	current, err := w.client.StateVersions.ReadCurrent(ctx, ws.ID)
	require.NoError(t, err, "it is known that there is one")
	response, said := w.send("GET", current.DownloadURL, w.ann, "")
	assert.Equal(t, 500, response.StatusCode)
	assert.Contains(t, said, `"code":"internal"`, "what is missing stands in the server's log")
}
