package runs

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

func TestTheSameRequestWithinTheWindowIsTheSameRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspaceWith(workspaces.Settings{AutoApply: ptr(true)})
	for name, n := range map[string]NewRun{
		"plan and apply": {Variables: []Variable{{Key: "a", Value: "1", HCL: true}, {Key: "b", Value: "2", HCL: true}}, TargetAddrs: []string{"x.y"}},
		"plan only":      {PlanOnly: true},
		"saved plan":     {SavePlan: true},
		"configuration":  {GenerateConfig: true},
	} {
		t.Run(name, func(t *testing.T) {
			n.Workspace, n.Configuration = ws, w.configuration(ws)
			first, created, err := w.runs.Create(ctx, w.owner, n)
			require.NoError(t, err)
			assert.True(t, created)
			again := n
			again.Variables = slices.Clone(n.Variables)
			slices.Reverse(again.Variables)
			second, created, err := w.runs.Create(ctx, w.owner, again)
			require.NoError(t, err)
			assert.False(t, created)
			assert.Equal(t, first.ID, second.ID)

			for _, change := range []func(*NewRun){
				func(n *NewRun) { n.Message = "another" },
				func(n *NewRun) { n.IsDestroy = true },
				func(n *NewRun) { n.Refresh = ptr(false) },
				func(n *NewRun) { n.ReplaceAddrs = []string{"x.z"} },
				func(n *NewRun) { n.Variables = []Variable{{Key: "a", Value: "other", HCL: true}} },
			} {
				other := n
				change(&other)
				d, created, err := w.runs.Create(ctx, w.owner, other)
				require.NoError(t, err)
				assert.True(t, created)
				assert.NotEqual(t, first.ID, d.ID)
			}
			w.exec("update runs set created_at = created_at - interval '61 seconds' where id = @id", postgres.Args{"id": first.ID})
			_, created, err = w.runs.Create(ctx, w.owner, n)
			require.NoError(t, err)
			assert.True(t, created, "the window is over")
		})
	}
}

func TestARunKeepsTheValuesOfItsCreation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	v, err := w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "size", Value: "before", Category: workspaces.Terraform})
	require.NoError(t, err)
	_, err = w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "AWS_REGION", Value: "eu-1", Category: workspaces.Env, Sensitive: true})
	require.NoError(t, err)
	run := w.run(ws, func(n *NewRun) { n.Variables = []Variable{{Key: "size", Value: `"mine"`, HCL: true}} })
	_, err = w.spaces.UpdateVariable(ctx, w.owner, ws, v.ID, workspaces.VariableChanges{Value: ptr("after")})
	require.NoError(t, err)

	e := w.take(run.ID)
	got, err := e.runs.InputVariables(ctx, e.actor)
	require.NoError(t, err)
	assert.ElementsMatch(t, []Variable{{Key: "size", Value: "before"}, {Key: "AWS_REGION", Value: "eu-1", Env: true, Sensitive: true}, {Key: "size", Value: `"mine"`, HCL: true}}, got)
	assert.Equal(t, Variable{Key: "size", Value: `"mine"`, HCL: true}, got[2], "the run's own come last and win")
	shown, err := w.runs.Variables(ctx, w.member, run.Run)
	require.NoError(t, err)
	assert.Equal(t, got[2:], shown)
}

func TestSecretsAreInPlainNowhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	const secret = "S3CRET42"
	_, err := w.spaces.CreateVariable(ctx, w.owner, ws, workspaces.Variable{Key: "password", Value: secret, Category: workspaces.Terraform, Sensitive: true})
	require.NoError(t, err)
	run := w.run(ws, func(n *NewRun) { n.Variables = []Variable{{Key: "token", Value: `"` + secret + `"`, HCL: true}} })
	e := w.take(run.ID)
	e.log("the log says " + secret + "\n")
	e.handOver("plan", "plan with "+secret)
	e.handOver("plan-json", `{"secret":"`+secret+`"}`)
	e.done(planned(true))
	require.NoError(t, w.runs.Confirm(ctx, w.owner, run.ID, Decision{}))
	a := w.take(run.ID)
	a.log(secret)
	a.start()
	a.publish(1)
	a.done(Done{Outcome: OutcomeFinished, TofuStarted: true, Confirmed: a.confirm()})
	w.sweep()

	var tables []string
	require.NoError(t, w.tx(func(tx postgres.Tx) (err error) {
		tables, err = postgres.Values[string](ctx, tx, "select table_name::text from information_schema.tables where table_schema = 'public' and table_type = 'BASE TABLE'", postgres.Args{})
		return err
	}))
	require.Contains(t, tables, "runs")
	for _, table := range tables {
		// A row as text shows bytea in hexadecimal.
		n := count(w, "select count(*) from "+table+" r where r::text like '%' || @secret || '%' or r::text like '%' || @hex || '%'",
			postgres.Args{"secret": secret, "hex": "533343524554" + "3432"})
		assert.Zero(t, n, table)
	}
	for _, key := range w.store.Keys() {
		assert.NotContains(t, string(w.store.Bytes(key)), secret, key)
	}
}

func TestAVersionThatNoRunnerHas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspaceWith(workspaces.Settings{TerraformVersion: ptr("1.9.0")})
	run := w.run(ws)
	d := w.wantStatus(run.ID, PlanFailed)
	assert.Equal(t, "tofu_version_unavailable", d.DurableReason)
	assert.Contains(t, d.StatusMessage, tofu)
	assert.Contains(t, d.StatusMessage, "1.9.0")
	assert.Empty(t, d.PlanAttempt)
	w.wantFree(ws)
	assert.Equal(t, []Status{Queued, PlanFailed}, run.steps())

	for _, v := range []string{"1.9.0", "1.10.0"} {
		_, _, _, err := w.runs.Poll(ctx, w.group, dispatch.RunnerHello{Name: "newer", TofuVersions: []string{v}})
		require.NoError(t, err)
	}
	assert.Equal(t, "1.9.0", w.run(ws).TerraformVersion)
	assert.Equal(t, tofu, w.run(w.workspace()).TerraformVersion, "latest is the newest by version, not by text")
}

func TestARunNeedsAnUploadedConfigurationOfItsWorkspace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	create := func(id ids.ConfigurationVersion) error {
		_, _, err := w.runs.Create(ctx, w.owner, NewRun{Workspace: ws, Configuration: id})
		return err
	}
	wantCode(t, create(""), fault.Invalid, "no_configuration")
	pending, err := w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{})
	require.NoError(t, err)
	wantCode(t, create(pending.ID), fault.Invalid, "configuration_not_uploaded")
	wantCode(t, create(""), fault.Invalid, "no_configuration")
	assert.True(t, fault.Is(create(w.configuration(w.workspace())), fault.NotFound))
	assert.True(t, fault.Is(create("cv-1111111111111111"), fault.NotFound))
	assert.Zero(t, count(w, "select count(*) from runs", postgres.Args{}))

	older, newest := w.configuration(ws), w.configuration(ws)
	w.configurationWith(ws, NewConfiguration{Speculative: true})
	_, err = w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{})
	require.NoError(t, err)
	d, _, err := w.runs.Create(ctx, w.owner, NewRun{Workspace: ws})
	require.NoError(t, err)
	assert.Equal(t, newest, d.ConfigurationVersionID)
	assert.NotEqual(t, older, newest)
	assert.False(t, d.PlanOnly)
}

func TestARunThatMakesNoSenseIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspaceWith(workspaces.Settings{AllowDestroyPlan: ptr(false)})
	for pointer, o := range map[string]func(*NewRun){
		"is-destroy": func(n *NewRun) { n.IsDestroy = true },
		"refresh":    func(n *NewRun) { n.RefreshOnly, n.Refresh = true, ptr(false) },
		"message":    func(n *NewRun) { n.Message = strings.Repeat("x", 10_001) },
		"variables":  func(n *NewRun) { n.Variables = []Variable{{Key: "a"}, {Key: "a"}} },
		"save-plan":  func(n *NewRun) { n.SavePlan, n.AutoApply = true, ptr(true) },
		"refresh-only": func(n *NewRun) {
			n.IsDestroy, n.RefreshOnly = true, true
			n.Workspace = w.workspace()
			n.Configuration = w.configuration(n.Workspace)
		},
	} {
		_, err := w.tryRun(ws, o)
		wantCode(t, err, fault.Invalid, "invalid_attribute")
		var refused *fault.Error
		require.ErrorAs(t, err, &refused)
		assert.Equal(t, "/data/attributes/"+pointer, refused.Pointer)
	}
	_, _, err := w.runs.Create(ctx, w.member, NewRun{Workspace: ws, Configuration: w.configuration(ws)})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	assert.Zero(t, count(w, "select count(*) from runs", postgres.Args{}))
}

func TestWhatARunStartsFromIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	settings := Defaults()
	settings.LaunchLimit = 400
	small := w.with(settings)
	size := int64(len(tarball("cv-1111111111111111")))
	require.Less(t, size, settings.LaunchLimit)

	c, err := w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{})
	require.NoError(t, err)
	err = small.runs.UploadConfiguration(ctx, c.ID, bytes.NewReader(tarballOf(1000)))
	wantCode(t, err, fault.TooLarge, "artifact_too_large")
	got, err := w.runs.Configuration(ctx, w.owner, c.ID)
	require.NoError(t, err)
	assert.Equal(t, "errored", got.Status)

	small.run(ws)
	require.NoError(t, w.runs.Cancel(ctx, w.owner, w.allRuns(ws)[0], ""))
	_, err = w.runs.Lock(ctx, w.owner, ws, "")
	require.NoError(t, err)
	w.publishResources(ws, 1, strings.TrimSuffix(strings.Repeat(`{"mode":"managed","type":"t","name":"n","provider":"p","instances":[]},`, 5), ","))
	_, err = small.tryRun(ws)
	wantCode(t, err, fault.TooLarge, "artifact_too_large")
	for _, part := range []string{"configuration has", "lock file 0", "current state"} {
		assert.ErrorContains(t, err, part)
	}
	w.run(ws)
}

// tarballOf is an archive of at least n bytes.
func tarballOf(n int) []byte {
	var text strings.Builder
	for i := 0; len(tarball(text.String())) < n; i++ {
		text.WriteString(sha(strings.Repeat("x", i)))
	}
	return tarball(text.String())
}

func TestAConfigurationIsReplacedUntilARunCapturesIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	c, err := w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{AutoQueueRuns: true})
	require.NoError(t, err)
	assert.Equal(t, "pending", c.Status)
	_, err = w.runs.DownloadConfiguration(ctx, w.owner, c.ID)
	wantCode(t, err, fault.NotFound, "no_bytes")
	upload := func(text string) error {
		return w.runs.UploadConfiguration(ctx, c.ID, bytes.NewReader(tarball(text)))
	}
	kept := func(status string) int {
		return count(w, "select count(*) from objects where kind = 'configuration' and status = @status", postgres.Args{"status": status})
	}
	require.NoError(t, upload("one"))
	require.NoError(t, upload("two"))
	assert.Equal(t, []int{1, 1}, []int{kept("stored"), kept("discarded")}, "what was replaced is given up")
	run, _, err := w.runs.Create(ctx, w.owner, NewRun{Workspace: ws, Configuration: c.ID})
	require.NoError(t, err)

	require.NoError(t, upload("two"), "the same bytes again")
	wantCode(t, upload("three"), fault.Conflict, "configuration_captured")
	assert.Equal(t, []int{1, 3}, []int{kept("stored"), kept("discarded")}, "and so is what nothing points to")
	body, err := w.runs.DownloadConfiguration(ctx, w.member, c.ID)
	require.NoError(t, err)
	got, err := io.ReadAll(body)
	require.NoError(t, errors.Join(err, body.Close()))
	assert.Equal(t, tarball("two"), got)
	e := w.take(run.ID)
	body, _, err = e.runs.Input(ctx, e.actor, "configuration")
	require.NoError(t, err)
	got, err = io.ReadAll(body)
	require.NoError(t, errors.Join(err, body.Close()))
	assert.Equal(t, tarball("two"), got)
	after, err := w.runs.Configuration(ctx, w.member, c.ID)
	require.NoError(t, err)
	assert.Equal(t, "uploaded", after.Status)
	assert.Equal(t, run.ConfigurationObjectID, after.ObjectID)

	list, total, err := w.runs.Configurations(ctx, w.member, ws, 10, 0)
	require.NoError(t, err)
	assert.Equal(t, 1, total)
	assert.Equal(t, []Configuration{after}, list)
	_, err = w.runs.CreateConfiguration(ctx, w.member, ws, NewConfiguration{})
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	assert.True(t, fault.Is(w.runs.UploadConfiguration(ctx, "cv-1111111111111111", strings.NewReader("")), fault.NotFound))
	other, err := w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{})
	require.NoError(t, err)
	require.True(t, fault.Is(w.runs.UploadConfiguration(ctx, other.ID, strings.NewReader("no archive")), fault.Invalid))
	assert.Equal(t, []int{1, 4}, []int{kept("stored"), kept("discarded")}, "and what is refused")
}

func TestABrokenUploadMayBeRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ws := w.workspace()
	c, err := w.runs.CreateConfiguration(ctx, w.owner, ws, NewConfiguration{})
	require.NoError(t, err)
	w.store.SetDown(true)
	err = w.runs.UploadConfiguration(ctx, c.ID, bytes.NewReader(tarball("x")))
	assert.True(t, fault.Is(err, fault.Unavailable), "%v", err)
	w.store.SetDown(false)
	got, err := w.runs.Configuration(ctx, w.owner, c.ID)
	require.NoError(t, err)
	assert.Equal(t, "pending", got.Status)
	require.NoError(t, w.runs.UploadConfiguration(ctx, c.ID, bytes.NewReader(tarball("x"))))
}
