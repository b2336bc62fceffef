package workspaces_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func (w world) variable(ws ids.Workspace, v workspaces.Variable) workspaces.Variable {
	w.Helper()
	created, err := w.CreateVariable(ctx, w.owner, ws, v)
	require.NoError(w, err)
	return created
}

func (w world) resolved(ws workspaces.Workspace) map[string]string {
	w.Helper()
	values := map[string]string{}
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		all, above, err := w.ResolveVariables(ctx, tx, ws.Organization, ws.ID)
		assert.Empty(w, above)
		for _, v := range all {
			values[string(v.Category)+":"+v.Key] = v.Value
		}
		return err
	}))
	return values
}

func TestVariablesComeBackByteForByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	values := map[string]string{
		"lines": "a\nb\n", "quotes": `"\` + "`'", "templates": "${x} %{if} <<EOF\nEOF", "empty": "", "unicode": "ä\u2028🙂", "big": strings.Repeat("x", 256<<10),
	}
	want := map[string]string{}
	for key, value := range values {
		assert.Equal(t, value, w.variable(ws.ID, workspaces.Variable{Key: key, Value: value, Category: workspaces.Terraform}).Value)
		want["terraform:"+key] = value
	}
	assert.Equal(t, want, w.resolved(ws))
	list, err := w.ListVariables(ctx, w.member, ws.ID)
	require.NoError(t, err)
	require.Len(t, list, len(values))
	for _, v := range list {
		assert.Equal(t, values[v.Key], v.Value)
	}
	assert.Equal(t, "big", list[0].Key, "by key")
}

func TestSensitiveValuesAreNotShownAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	v := w.variable(ws.ID, workspaces.Variable{Key: "TOKEN", Value: "s3cret", Category: workspaces.Env, Sensitive: true, Description: "of the cloud"})
	assert.Empty(t, v.Value)
	list, err := w.ListVariables(ctx, w.owner, ws.ID)
	require.NoError(t, err)
	assert.Equal(t, []workspaces.Variable{v}, list)
	updated, err := w.UpdateVariable(ctx, w.owner, ws.ID, v.ID, workspaces.VariableChanges{Description: ptr("new")})
	require.NoError(t, err)
	assert.Empty(t, updated.Value)
	assert.Equal(t, map[string]string{"env:TOKEN": "s3cret"}, w.resolved(ws), "an update without a value keeps it")
	_, err = w.UpdateVariable(ctx, w.owner, ws.ID, v.ID, workspaces.VariableChanges{Sensitive: ptr(false)})
	assert.True(t, fault.Is(err, fault.Invalid))
}

func TestVariableValuesAreSealedForTheirVariable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	one := w.variable(ws.ID, workspaces.Variable{Key: "one", Value: "first value", Category: workspaces.Terraform})
	two := w.variable(ws.ID, workspaces.Variable{Key: "two", Value: "second value", Category: workspaces.Terraform, Sensitive: true})
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		sealed, err := postgres.Values[[]byte](ctx, tx, "select value_sealed from variables", postgres.Args{})
		assert.Len(t, sealed, 2)
		for _, s := range sealed {
			assert.NotContains(t, string(s), "value")
		}
		details, err2 := postgres.Values[string](ctx, tx, "select details::text from audit_entries where action = 'variable.created'", postgres.Args{})
		assert.Len(t, details, 2)
		assert.NotContains(t, strings.Join(details, ""), "value")
		require.NoError(t, err2)
		return err
	}))
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update variables set value_sealed = (select value_sealed from variables where id = @two) where id = @one", postgres.Args{"one": one.ID, "two": two.ID})
		return err
	}))
	_, err := w.ListVariables(ctx, w.owner, ws.ID)
	assert.True(t, fault.HasCode(err, "sealed_value_corrupt"), "a secret moved to where it would be shown does not open")
}

func TestUpdateVariable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws, neighbour := w.workspace("acme", "w"), w.workspace("acme", "n")
	v := w.variable(ws.ID, workspaces.Variable{Key: "region", Value: "eu", Category: workspaces.Terraform})
	w.variable(ws.ID, workspaces.Variable{Key: "zone", Value: "1", Category: workspaces.Terraform})

	got, err := w.UpdateVariable(ctx, w.owner, ws.ID, v.ID, workspaces.VariableChanges{})
	require.NoError(t, err)
	assert.NotEqual(t, v.VersionID, got.VersionID, "another version although nothing was said")
	v.VersionID = got.VersionID
	assert.Equal(t, v, got)
	want := workspaces.Variable{ID: v.ID, Workspace: ws.ID, Key: "REGION", Value: "us", Category: workspaces.Env, HCL: true, Description: "d"}
	got, err = w.UpdateVariable(ctx, w.owner, ws.ID, v.ID, workspaces.VariableChanges{
		Key: ptr("REGION"), Value: ptr("us"), Category: ptr(workspaces.Env), HCL: ptr(true), Description: ptr("d"),
	})
	require.NoError(t, err)
	assert.NotEqual(t, v.VersionID, got.VersionID)
	want.VersionID = got.VersionID
	assert.Equal(t, want, got)

	_, err = w.UpdateVariable(ctx, w.owner, ws.ID, v.ID, workspaces.VariableChanges{Key: ptr("PATH")})
	assert.True(t, fault.HasCode(err, "reserved_variable"))
	_, err = w.UpdateVariable(ctx, w.owner, ws.ID, v.ID, workspaces.VariableChanges{Key: ptr("zone"), Category: ptr(workspaces.Terraform)})
	assert.ErrorContains(t, err, "Key has already been taken")
	_, err = w.UpdateVariable(ctx, w.member, ws.ID, v.ID, workspaces.VariableChanges{})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.UpdateVariable(ctx, w.owner, neighbour.ID, v.ID, workspaces.VariableChanges{})
	assert.True(t, fault.Is(err, fault.NotFound), "by the way of another workspace")
	assert.Equal(t, map[string]string{"env:REGION": "us", "terraform:zone": "1"}, w.resolved(ws))
}

func TestDeleteVariable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws, neighbour := w.workspace("acme", "w"), w.workspace("acme", "n")
	v := w.variable(ws.ID, workspaces.Variable{Key: "a", Category: workspaces.Terraform})
	assert.True(t, fault.Is(w.DeleteVariable(ctx, w.member, ws.ID, v.ID), fault.Forbidden))
	assert.True(t, fault.Is(w.DeleteVariable(ctx, w.nobody, ws.ID, v.ID), fault.NotFound))
	assert.True(t, fault.Is(w.DeleteVariable(ctx, w.owner, neighbour.ID, v.ID), fault.NotFound))
	require.NoError(t, w.DeleteVariable(ctx, w.owner, ws.ID, v.ID))
	assert.True(t, fault.Is(w.DeleteVariable(ctx, w.owner, ws.ID, v.ID), fault.NotFound))
	assert.Empty(t, w.resolved(ws))
	assert.Equal(t, 1, w.audited("variable.deleted"))
}

func TestVariablesHoldTheirRules(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	for _, v := range []workspaces.Variable{
		{Key: "a-b_1", Category: workspaces.Terraform},
		{Key: "größe", Category: workspaces.Terraform},
		{Key: "1a", Category: workspaces.Terraform}, // which no configuration can declare, so no run gets it
		{Key: "A-B", Category: workspaces.Env},
		{Key: "_x", Category: workspaces.Env},
		{Key: "PATH", Category: workspaces.Terraform}, // reserved is only what tofu's environment knows
		{Key: "_x", Category: workspaces.Terraform},
	} {
		w.variable(ws.ID, v)
	}
	for name, v := range map[string]workspaces.Variable{
		"no category":      {Key: "a"},
		"unknown category": {Key: "a", Category: "policy-set"},
		"no key":           {Category: workspaces.Terraform},
		"space":            {Key: "a b", Category: workspaces.Terraform},
		"env with =":       {Key: "A=B", Category: workspaces.Env},
		"env not ASCII":    {Key: "Ä", Category: workspaces.Env},
		"long key":         {Key: strings.Repeat("a", 257), Category: workspaces.Env},
		"NUL in the key":   {Key: "a\x00", Category: workspaces.Terraform},
		"NUL in the value": {Key: "a", Value: "a\x00b", Category: workspaces.Terraform},
		"bad UTF-8":        {Key: "a", Value: "\xff", Category: workspaces.Terraform},
		"big value":        {Key: "a", Value: strings.Repeat("a", 256<<10+1), Category: workspaces.Terraform},
		"long description": {Key: "a", Description: strings.Repeat("a", 513), Category: workspaces.Terraform},
		"taken":            {Key: "_x", Category: workspaces.Env},
	} {
		_, err := w.CreateVariable(ctx, w.owner, ws.ID, v)
		assert.Truef(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	_, err := w.CreateVariable(ctx, w.member, ws.ID, workspaces.Variable{Key: "a", Category: workspaces.Env})
	assert.True(t, fault.Is(err, fault.Forbidden))
	_, err = w.CreateVariable(ctx, w.nobody, ws.ID, workspaces.Variable{Key: "a", Category: workspaces.Env})
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestReservedVariablesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace("acme", "w")
	for _, key := range []string{
		"TF_STATE_PERSIST_INTERVAL", "TF_CLI_ARGS", "TF_CLI_ARGS_plan", "TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_WORKSPACE",
		"TF_FORCE_LOCAL_BACKEND", "TF_TOKEN_app_terraform_io", "TF_CLOUD_HOSTNAME", "TFE_RUN_ID", "TFC_RUN_ID", "TF_REATTACH_PROVIDERS",
		"TF_PLUGIN_CACHE_DIR", "LD_PRELOAD", "PATH", "SSL_CERT_FILE", "HOLDFAST_TOKEN",
	} {
		assert.True(t, workspaces.Reserved(key), key)
		_, err := w.CreateVariable(ctx, w.owner, ws.ID, workspaces.Variable{Key: key, Category: workspaces.Env})
		assert.Truef(t, fault.Is(err, fault.Invalid) && fault.HasCode(err, "reserved_variable"), "%s: %v", key, err)
		assert.ErrorContains(t, err, key)
	}
	for _, key := range []string{"TF_LOG", "TF_VAR_region", "TF_IN_AUTOMATION", "TFE_TOKEN", "HOME", "AWS_REGION", "PATHS", "HTTPS_PROXY"} {
		assert.False(t, workspaces.Reserved(key), key)
	}
	assert.Empty(t, w.resolved(ws))
}
