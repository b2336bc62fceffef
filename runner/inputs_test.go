package runner

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// planned gives the values of the variables of the plan that was made.
func (f *fakeServer) planned() map[string]any {
	f.t.Helper()
	var plan struct {
		Variables map[string]struct{ Value any }
	}
	require.NoError(f.t, json.Unmarshal(f.artifacts[wire.KindPlanJSON], &plan))
	values := map[string]any{}
	for key, v := range plan.Variables {
		values[key] = v.Value
	}
	return values
}

func TestVariablesReachTofu(t *testing.T) {
	t.Parallel()
	nasty := map[string]string{
		"interpolation": "${x} and %{if true} and $${y}",
		"quotes":        `"double" 'single' \back\n`,
		"lines":         "one\ntwo\r\n\tthree\n",
		"heredoc":       "<<EOT\nEOT\n",
		"unicode":       "žluťoučký 🐎 \u2028 <&>",
		"control":       "\x01\x1b[31m\x7f",
		"empty":         "",
		"number_like":   "007",
		"json_like":     `{"a": [1]}`,
	}
	f := newFakeServer(t, wire.Manifest{}, map[string]string{
		"main.tf": `
variable "interpolation" { type = string }
variable "quotes" { type = string }
variable "lines" { type = string }
variable "heredoc" { type = string }
variable "unicode" { type = string }
variable "control" { type = string }
variable "empty" { type = string }
variable "number_like" { type = string }
variable "json_like" { type = string }
variable "list" { type = list(string) }
variable "object" { type = object({ a = number, b = map(bool) }) }
variable "twice" {}
variable "twice_hcl" {}
variable "from_file" {}
`,
		"terraform.tfvars":            `from_file = "terraform.tfvars"` + "\n" + `twice = "file"`,
		"z.auto.tfvars":               `twice = "z"`,
		"~~late.auto.tfvars.json":     `{"twice": "late", "twice_hcl": "late"}`,
		"\u00fcber.auto.tfvars":       `twice = "last of all"` + "\n" + `twice_hcl = "last of all"`,
		"~holdfast.auto.tfvars":       `twice = "ours?"`,
		"not-auto.tfvars":             `from_file = "wrong"`,
		"modules/x/some.auto.tfvars":  `from_file = "wrong"`,
		"modules/x/deep/z.tf":         "",
		".hidden.auto.tfvars":         `twice = "hidden"`,
		"~holdfast.auto.tfvars.json~": "",
	})
	for key, value := range nasty {
		f.variables.Terraform = append(f.variables.Terraform, wire.Variable{Key: key, Value: value})
	}
	f.variables.Terraform = append(
		f.variables.Terraform,
		wire.Variable{Key: "list", Value: `["a", "$${b}",` + "\n" + `"c"]`, HCL: true},
		wire.Variable{Key: "object", Value: "{\n  a = 1 + 1 # comment\n  b = { x = true }\n}", HCL: true},
		wire.Variable{Key: "twice", Value: `"workspace"`, HCL: true}, wire.Variable{Key: "twice", Value: "run"},
		wire.Variable{Key: "twice_hcl", Value: "workspace"}, wire.Variable{Key: "twice_hcl", Value: "[1]", HCL: true},
	)
	start(t, f.config())
	done := f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
	values := f.planned()
	for key, want := range nasty {
		assert.Equal(t, want, values[key], key)
	}
	assert.Equal(t, []any{"a", "${b}", "c"}, values["list"])
	assert.Equal(t, map[string]any{"a": 2.0, "b": map[string]any{"x": true}}, values["object"])
	assert.Equal(t, "run", values["twice"], "a run's variable wins over all others")
	assert.Equal(t, []any{1.0}, values["twice_hcl"])
	assert.Equal(t, "terraform.tfvars", values["from_file"])

	f.next("apply")
	done = f.await()
	require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
}

func TestEnvironmentReachesTofu(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `
variable "from_env" {}
variable "list" { type = list(number) }
variable "file_wins" {}
resource "terraform_data" "a" {
  provisioner "local-exec" { command = "env | sort | sed 's/^/ENV:/'; umask; pwd" }
}`, "terraform.tfvars": `file_wins = "file"`})
	set := func(key, value string) { // of the workspace
		f.variables.Environment = append(f.variables.Environment, wire.Variable{Key: key, Value: value})
	}
	set("PLAIN", "value with ${x} and\nline")
	set("TF_VAR_from_env", "environment")
	set("TF_VAR_list", "[1,2]")
	set("TF_VAR_file_wins", "environment")
	forbidden := []string{
		"TF_CLI_ARGS_plan", "TF_CLI_CONFIG_FILE", "TF_DATA_DIR", "TF_WORKSPACE", "TF_FORCE_LOCAL_BACKEND",
		"TF_TOKEN_app_terraform_io", "TF_CLOUD_HOSTNAME", "TFE_RUN_ID", "TFC_RUN_ID", "TF_REATTACH_PROVIDERS",
		"TF_PLUGIN_CACHE_DIR", "LD_PRELOAD", "PATH", "SSL_CERT_FILE", "HOLDFAST_ADDRESS", "TF_STATE_PERSIST_INTERVAL", "TF_LOG",
	}
	for _, name := range forbidden {
		set(name, "from-the-workspace")
	}
	start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.Equal(t, map[string]any{"from_env": "environment", "list": []any{1.0, 2.0}, "file_wins": "file"}, f.planned())
	for _, name := range forbidden {
		assert.Contains(t, f.logText(), "The environment variable "+name+" is reserved and was left out.")
	}
	f.next("apply")
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	log := f.logText()
	assert.Contains(t, log, "ENV:PLAIN=value with ${x} and\n")
	assert.Contains(t, log, "ENV:PATH="+os.Getenv("PATH"))
	assert.Contains(t, log, "ENV:HOME="+os.Getenv("HOME"))
	assert.Contains(t, log, "ENV:TFE_RUN_ID=run-1")
	assert.Contains(t, log, "ENV:TF_IN_AUTOMATION=1")
	assert.Contains(t, log, "ENV:CHECKPOINT_DISABLE=1")
	assert.NotContains(t, log, "from-the-workspace")
	assert.NotContains(t, log, "TFC_RUN_ID=")
	assert.NotContains(t, log, "ENV:GOTOOLCHAIN", "the runner's own environment stays its own")
	assert.NotContains(t, log, attemptToken)
	assert.NotContains(t, log, groupToken)
}

func TestEnvironmentRefuses(t *testing.T) {
	t.Parallel()
	a := &attempt{}
	none := func(string) (string, bool) { return "", false }
	for _, v := range []wire.Variable{{Key: "A", Value: "secret\x00"}, {Key: "A=B"}, {Key: ""}, {Key: "A", Value: "secret\xff"}} {
		_, _, err := a.environment(none, []wire.Variable{v})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "secret")
	}
	env, _, err := a.environment(func(name string) (string, bool) { return "own " + name, true }, nil)
	require.NoError(t, err)
	assert.Equal(t, "own https_proxy", env["https_proxy"])
	assert.NotContains(t, env, "HOLDFAST_RUNNER_TOKEN_FILE")
}

// Whatever backend a configuration names, its state goes to the workspace of the run.
func TestStateGoesToTheServer(t *testing.T) {
	t.Parallel()
	resource := "\nresource \"terraform_data\" \"a\" { input = terraform.workspace }\n"
	block := func(inner string) string { return "terraform {\n" + inner + "\n}\n" }
	tags := block("cloud {\nworkspaces {\ntags = [\"x\"]\n}\n}")
	local := block(`backend "local" {}`)
	for name, files := range map[string]map[string]string{
		"none":         {"main.tf": ""},
		"cloud, tofu":  {"main.tf": "", "cloud.tofu": tags},
		"cloud, JSON":  {"main.tf": "", "x.tf.json": `{"terraform":{"cloud":{"hostname":"nowhere.invalid","organization":"x","workspaces":{"name":"y"}}}}`},
		"remote":       {"main.tf": block("backend \"remote\" {\nhostname = \"nowhere.invalid\"\norganization = \"x\"\nworkspaces {\nprefix = \"y-\"\n}\n}")},
		"local":        {"main.tf": block("backend \"local\" {\npath = \"mine.tfstate\"\n}")},
		"s3, partial":  {"main.tf": block(`backend "s3" {}`)},
		"override too": {"main.tf": tags, "override.tf": local, "zz_holdfast_override.tofu": local, "zzz_override.tf.json": `{"terraform":{"backend":{"local":{}}}}`},
		"leftovers": {
			"main.tf": tags, "terraform.tfstate": `{"version":4,"terraform_version":"1.6.0","serial":7,"lineage":"old","outputs":{},"resources":[{"mode":"managed","type":"terraform_data","name":"old","provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[{"schema_version":0,"attributes":{"id":"x"}}]}]}`,
			".terraform/terraform.tfstate": `{"version":3,"serial":1,"lineage":"x","backend":{"type":"local","config":{"path":null,"workspace_dir":null},"hash":1}}`,
			".terraform/environment":       "staging", "errored.tfstate": "{}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files["main.tf"] += resource
			f := newFakeServer(t, wire.Manifest{}, files)
			start(t, f.config())
			done := f.await()
			require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
			assert.Equal(t, &wire.PlanSummary{HasChanges: true, Additions: 1}, done.Plan)
			f.next("apply")
			done = f.await()
			require.Equal(t, wire.OutcomeFinished, done.Outcome, f.logText())
			assert.False(t, done.ErroredState)
			assert.Contains(t, string(f.state), `"app"`, "terraform.workspace is the workspace's name")
		})
	}
}

func TestCLIConfig(t *testing.T) {
	t.Parallel()
	box, err := newSandbox(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, box.writeCLIConfig("localhost:8443", "https://localhost:8443", attemptToken, providerSources{folder: `/mirror with "quotes" [and] *`}))
	text, err := os.ReadFile(box.cliConfig())
	require.NoError(t, err)
	assert.Contains(t, string(text), `path = "/mirror with \"quotes\" [and] *"`)
	info, err := os.Stat(box.cliConfig())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	info, err = os.Stat(box.path)
	require.NoError(t, err)
	assert.Equal(t, os.ModeDir|0o700, info.Mode())
}

// Providers make sockets in TMPDIR, whose paths the kernel keeps short.
func TestTmpIsShort(t *testing.T) {
	t.Parallel()
	for _, parent := range []string{filepath.Join(t.TempDir(), strings.Repeat("long", 25)), mustTemp(t)} {
		require.NoError(t, os.MkdirAll(parent, 0o700))
		box, err := newSandbox(parent)
		require.NoError(t, err)
		socket, err := net.Listen("unix", filepath.Join(box.tmp, "plugin4294967295"))
		require.NoError(t, err)
		require.NoError(t, socket.Close())
		require.NoError(t, removeSandbox(box.path))
		assert.NoDirExists(t, box.path)
		assert.NoDirExists(t, box.tmp)
	}
}

// mustTemp makes a folder with a short name.
func mustTemp(t *testing.T) string {
	dir, err := os.MkdirTemp("", "hf")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// A provider of the mirror is installed without asking its registry, which does not exist.
func TestProviderMirror(t *testing.T) {
	t.Parallel()
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": `
terraform {
  required_providers {
    fake = { source = "registry.invalid/x/fake" }
  }
}
resource "fake_thing" "a" {}
`})
	cfg := f.config()
	cfg.ProviderMirror = filepath.Join(t.TempDir(), "mirror [1]")
	dir := filepath.Join(cfg.ProviderMirror, "registry.invalid/x/fake/1.2.3", platform)
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "terraform-provider-fake_v1.2.3"), []byte("#!/bin/false\n"), 0o700))
	start(t, cfg)
	done := f.await()
	assert.Contains(t, f.logText(), "Installed registry.invalid/x/fake v1.2.3")
	assert.Equal(t, "tofu plan ended with exit code 1; the log says why.", done.Message, "it is no provider, but it was installed")
}

// The apply uses the lock file of the plan, not that of the configuration, and does not change it.
func TestLockFileTravels(t *testing.T) {
	t.Parallel()
	const locked = "# of the plan\n"
	f := newFakeServer(t, wire.Manifest{}, map[string]string{"main.tf": cloudConfig, lockFileName: locked})
	start(t, f.config())
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())
	assert.Equal(t, locked, string(f.artifacts[wire.KindLockFile]))

	f.mu.Lock()
	f.inputs[wire.KindConfiguration] = pack(t, map[string]string{"main.tf": cloudConfig, lockFileName: "no lock file at all"})
	f.mu.Unlock()
	f.next("apply")
	require.Equal(t, wire.OutcomeFinished, f.await().Outcome, f.logText())

	f.next("plan")
	require.Equal(t, wire.OutcomeErrored, f.await().Outcome, "the configuration's own would have failed")
	f.mu.Lock()
	f.inputs[wire.KindLockFile] = []byte("provider \"registry.opentofu.org/x/unused\" {\n  version = \"1.0.0\"\n}\n")
	f.mu.Unlock()
	f.next("apply")
	done := f.await()
	assert.Equal(t, wire.OutcomeErrored, done.Outcome)
	assert.False(t, done.TofuStarted)
	assert.Contains(t, f.logText(), "Provider dependency changes detected", "it is read-only")
}

func TestLastOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.auto.tfvars", "\xff\xfe.auto.tfvars.json", "zz.tfvars"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	name, err := lastOf(dir, "~holdfast", isAutoVariables, func(last string) string { return last + "~holdfast" })
	require.NoError(t, err)
	assert.Equal(t, "\xff\xfe.auto.tfvars.json~holdfast", name)
	assert.Equal(t, `"$${a} %%{b} \"c\""`, hclString(`${a} %{b} "c"`))
}
