package policies

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/workspaces"
)

var (
	ctx    = context.Background()
	system = authz.System()
)

// TestMain lets the test's own program be the policy-runner.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == evaluator.Command {
		os.Exit(evaluator.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

var runtimeOnce = sync.OnceValues(func() (*Runtime, error) { return NewRuntime("test", DefaultLimits()) })

// world is a database with an organization, its owner ada and its member bob.
type world struct {
	*testing.T
	*Service
	db            *postgres.DB
	spaces        *workspaces.Service
	acme          accounts.Organization
	owner, member authz.Actor
	nobody        authz.Actor
	serial        int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	db := testdb.New(t)
	path := filepath.Join(t.TempDir(), "keyring")
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	objects := artifacts.New(db, nil, ring)
	who := accounts.New(db, objects)
	runtime, err := runtimeOnce()
	require.NoError(t, err)
	w := &world{T: t, db: db, Service: New(db, objects, runtime), spaces: workspaces.New(db, who, objects)}
	w.acme, err = w.spaces.CreateOrganization(ctx, system, accounts.NewOrganization{Name: "acme"})
	require.NoError(t, err)
	actor := func(name string, role authz.Role) authz.Actor {
		u, err := who.CreateUser(ctx, system, accounts.NewUser{Username: name})
		require.NoError(t, err)
		if role != "" {
			require.NoError(t, who.AddMember(ctx, system, w.acme.ID, u.ID, role))
		}
		if role == authz.Member { // who reads policies and no more
			team := "delegates"
			made, err := who.CreateTeam(ctx, system, "acme", accounts.TeamSettings{Name: &team, Access: map[string]bool{"delegate-policy-overrides": true}})
			require.NoError(t, err)
			require.NoError(t, who.AddTeamMembers(ctx, system, made.ID, accounts.TeamMembers{Usernames: []string{name}}))
		}
		token, _, err := who.CreateUserToken(ctx, system, u.ID, "", 0)
		require.NoError(t, err)
		a, err := who.Authenticate(ctx, token)
		require.NoError(t, err)
		return a
	}
	w.owner, w.member, w.nobody = actor("ada", authz.Owner), actor("bob", authz.Member), actor("eve", "")
	return w
}

func (w *world) unique(prefix string) string {
	w.serial++
	return fmt.Sprint(prefix, "-", w.serial)
}

func (w *world) workspace(project ids.Project) ids.Workspace {
	w.Helper()
	n := workspaces.NewWorkspace{Name: w.unique("ws")}
	if project != "" {
		n.Settings.Project = &project
	}
	ws, err := w.spaces.Create(ctx, w.owner, "acme", n)
	require.NoError(w, err)
	return ws.ID
}

func (w *world) project() ids.Project {
	w.Helper()
	p, err := w.spaces.CreateProject(ctx, w.owner, "acme", workspaces.NewProject{Name: w.unique("project")})
	require.NoError(w, err)
	return p.ID
}

const allows = "package p\n\ndeny := []\n"

func (w *world) policy(content string) Policy {
	w.Helper()
	p, err := w.CreatePolicy(ctx, w.owner, "acme", NewPolicy{Name: w.unique("policy"), Kind: OPA, Query: "data.p.deny", Level: "mandatory"})
	require.NoError(w, err)
	if content != "" {
		require.NoError(w, w.UploadPolicy(ctx, w.owner, p.ID, []byte(content)))
	}
	return p
}

// set makes a set of OPA with one policy.
func (w *world) set(n NewSet) Set {
	w.Helper()
	n.Name, n.Kind = w.unique("set"), OPA
	if n.Members == nil {
		n.Members = map[Relation][]string{}
	}
	if _, given := n.Members[Policies]; !given {
		n.Members[Policies] = []string{string(w.policy(allows).ID)}
	}
	set, err := w.CreateSet(ctx, w.owner, "acme", n)
	require.NoError(w, err)
	return set
}

func members[T ~string](r Relation, list ...T) map[Relation][]string {
	out := make([]string, len(list))
	for i, id := range list {
		out[i] = string(id)
	}
	return map[Relation][]string{r: out}
}

func (w *world) inScope(workspace ids.Workspace) (names []string, scope Scope) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
		sets, err := inScope(ctx, tx, workspace)
		for _, s := range sets {
			names = append(names, s.Name)
		}
		scope = scopeOf(sets)
		return err
	}))
	return names, scope
}

func wantCode(t *testing.T, err error, kind fault.Kind, code string) {
	t.Helper()
	require.Error(t, err)
	assert.True(t, fault.Is(err, kind) && fault.HasCode(err, code), "%v", err)
}

// archiveOf is a tar.gz of these files.
func archiveOf(files map[string]string) io.Reader {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		_ = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg})
		_, _ = archive.Write([]byte(files[name]))
	}
	_ = archive.Close()
	_ = zipped.Close()
	return &out
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	db := testdb.New(t)
	assert.NotEmpty(t, Queries)
	for name, sql := range Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}

// TestWhoIsInScope: global, by project, by workspace, and without what is excluded. A workspace
// that is named is in scope although its project is excluded.
func TestWhoIsInScope(t *testing.T) {
	w := newWorld(t)
	project := w.project()
	inside, outside := w.workspace(project), w.workspace("")
	check := func(set Set, want ...ids.Workspace) {
		t.Helper()
		for _, ws := range []ids.Workspace{inside, outside} {
			names, _ := w.inScope(ws)
			if contains(want, ws) {
				assert.Equal(t, []string{set.Name}, names)
			} else {
				assert.Empty(t, names)
			}
		}
		require.NoError(t, w.DeleteSet(ctx, w.owner, set.ID))
	}
	check(w.set(NewSet{}))
	check(w.set(NewSet{Global: true}), inside, outside)
	check(w.set(NewSet{Members: members(Workspaces, outside)}), outside)
	check(w.set(NewSet{Members: members(Projects, project)}), inside)
	check(w.set(NewSet{Global: true, Members: members(WorkspaceExclusions, inside)}), outside)
	check(w.set(NewSet{Global: true, Members: members(ProjectExclusions, project)}), outside)
	both := members(ProjectExclusions, project)
	both[Workspaces] = []string{string(inside)}
	check(w.set(NewSet{Members: both}), inside)
	excluded := members(Projects, project)
	excluded[WorkspaceExclusions] = []string{string(inside)}
	check(w.set(NewSet{Members: excluded}))
	_, scope := w.inScope(inside)
	assert.Equal(t, Scope{}, scope)

	set := w.set(NewSet{})
	require.NoError(t, w.AddMembers(ctx, w.owner, set.ID, Workspaces, []string{string(inside)}))
	_, first := w.inScope(inside)
	assert.Equal(t, 1, first.Sets)
	assert.Len(t, first.Digest, 64)
	require.NoError(t, w.RemoveMembers(ctx, w.owner, set.ID, Workspaces, []string{string(inside)}))
	_, scope = w.inScope(inside)
	assert.Equal(t, Scope{}, scope)
	wantCode(t, w.AddMembers(ctx, w.owner, set.ID, Workspaces, []string{"ws-1111111111111111"}), fault.NotFound, "not_found")
	wantCode(t, w.AddMembers(ctx, w.owner, set.ID, Projects, []string{"prj-1111111111111111"}), fault.NotFound, "not_found")
	wantCode(t, w.AddMembers(ctx, w.owner, set.ID, Policies, []string{"pol-1111111111111111"}), fault.NotFound, "not_found")
}

func contains[T comparable](list []T, x T) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// TestEveryChangeIsAnotherScope: of what is judged, and of nothing else.
func TestEveryChangeIsAnotherScope(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("")
	policy := w.policy(allows)
	set := w.set(NewSet{Global: true, Members: members(Policies, policy.ID)})
	_, last := w.inScope(ws)
	changes := func(what string, other bool, err error) {
		t.Helper()
		require.NoError(t, err, what)
		_, now := w.inScope(ws)
		assert.Equal(t, other, now != last, what)
		last = now
	}
	changes("the same content", false, w.UploadPolicy(ctx, w.owner, policy.ID, []byte(allows)))
	changes("other content", true, w.UploadPolicy(ctx, w.owner, policy.ID, []byte(allows+"\nx := 1\n")))
	level := "advisory"
	_, err := w.UpdatePolicy(ctx, w.owner, policy.ID, PolicyChanges{Level: &level})
	changes("the level", true, err)
	p, err := w.CreateParameter(ctx, w.owner, set.ID, Parameter{Key: "k", Value: "v"})
	changes("a parameter", true, err)
	value := "w"
	_, err = w.UpdateParameter(ctx, w.owner, set.ID, p.ID, ParameterChanges{Value: &value})
	changes("its value", true, err)
	changes("no parameter", true, w.DeleteParameter(ctx, w.owner, set.ID, p.ID))
	text := "for people"
	_, err = w.UpdateSet(ctx, w.owner, set.ID, SetChanges{Description: &text})
	changes("a description", false, err)
	changes("no policy", true, w.DeletePolicy(ctx, w.owner, policy.ID))
	assert.Equal(t, Scope{}, last, "an empty set says nothing")
}

// TestAnUploadIsPublishedOrRefused: what is refused leaves the version before it in force.
func TestAnUploadIsPublishedOrRefused(t *testing.T) {
	w := newWorld(t)
	set := w.set(NewSet{Global: true, Members: members[ids.Policy](Policies)})
	const manifest = "policy \"one\" {\n  query = \"data.p.deny\"\n  enforcement_level = \"mandatory\"\n}\n"
	upload := func(files map[string]string) (Version, error) {
		t.Helper()
		v, err := w.CreateVersion(ctx, w.owner, set.ID)
		require.NoError(t, err)
		assert.Equal(t, VersionPending, v.Status)
		uploaded := w.UploadVersion(ctx, v.ID, archiveOf(files))
		v, err = w.Version(ctx, w.member, v.ID)
		require.NoError(t, err)
		return v, uploaded
	}
	good, err := upload(map[string]string{"./policies.hcl": manifest, "p.rego": allows, "p_test.rego": "package p\n\ntest_it if deny == []\n", "README.md": "x"})
	require.NoError(t, err)
	assert.Equal(t, VersionReady, good.Status)
	assert.Equal(t, []int{1, 1}, []int{good.Policies, good.Tests})
	assert.Equal(t, w.Runtime().Release(), good.Release(), "PO-07")
	wantCode(t, w.UploadVersion(ctx, good.ID, archiveOf(nil)), fault.Conflict, "version_ready")

	for name, c := range map[string]struct {
		files map[string]string
		says  string
	}{
		"no manifest":       {map[string]string{"p.rego": allows}, "policies.hcl"},
		"a broken manifest": {map[string]string{"policies.hcl": "policy {", "p.rego": allows}, "policies.hcl"},
		"an unknown level":  {map[string]string{"policies.hcl": strings.Replace(manifest, "mandatory", "hard", 1), "p.rego": allows}, "advisory or mandatory"},
		"no policies":       {map[string]string{"policies.hcl": "", "p.rego": allows}, "lists no policy"},
		"twice the same":    {map[string]string{"policies.hcl": manifest + manifest, "p.rego": allows}, "two policies"},
		"a failing test":    {map[string]string{"policies.hcl": manifest, "p.rego": allows, "p_test.rego": "package p\n\ntest_it if count(deny) == 1\n"}, "test_it"},
		"out of reach":      {map[string]string{"policies.hcl": manifest, "p.rego": "package p\n\ndeny contains \"x\" if http.send({}).status == 1\n"}, "http.send"},
	} {
		v, err := upload(c.files)
		assert.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
		assert.Equal(t, VersionErrored, v.Status, name)
		assert.Contains(t, v.Error, c.says, name)
		now, err := w.Set(ctx, w.member, set.ID)
		require.NoError(t, err)
		assert.Equal(t, v.ID, now.NewestVersion)
		assert.Equal(t, good.ID, now.CurrentVersion, "the one before stays in force")
	}
	broken, err := w.CreateVersion(ctx, w.owner, set.ID)
	require.NoError(t, err)
	wantCode(t, w.UploadVersion(ctx, broken.ID, strings.NewReader("no archive")), fault.Invalid, "policy_bundle_refused")
	require.NoError(t, w.UploadVersion(ctx, broken.ID, archiveOf(map[string]string{"policies.hcl": manifest, "p.rego": allows})), "better bytes may follow")
	wantCode(t, w.AddMembers(ctx, w.owner, set.ID, Policies, []string{string(w.policy(allows).ID)}), fault.Invalid, "policy_set_has_versions")
	_, err = w.CreateVersion(ctx, w.owner, w.set(NewSet{}).ID)
	wantCode(t, err, fault.Invalid, "policy_set_has_policies")
}

// TestTheExamplesAreWhatTheirReadmeSays: each policy with its level, and a plan that all the mandatory ones can judge.
func TestTheExamplesAreWhatTheirReadmeSays(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	entries, err := os.ReadDir("../examples/policies/guardrails")
	require.NoError(t, err)
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join("../examples/policies/guardrails", entry.Name()))
		require.NoError(t, err)
		files[entry.Name()] = string(content)
	}
	bundle, err := readBundle(archiveOf(files), Set{Kind: OPA, Rego: evaluator.V1})
	require.NoError(t, err)
	readme, err := os.ReadFile("../examples/policies/README.md")
	require.NoError(t, err)
	assert.Equal(t, strings.Count(string(readme), "\n| "), len(bundle.Policies)+1, "a row for each policy, below the heading")
	for _, p := range bundle.Policies {
		assert.Regexp(t, "(?m)^\\|.*`"+p.Name+"` \\| "+string(p.Level)+" \\|", string(readme))
	}
	runtime, err := runtimeOnce()
	require.NoError(t, err)
	verdict, err := runtime.Publish(ctx, bundle)
	require.NoError(t, err)
	assert.Empty(t, verdict.Errors)
	assert.Greater(t, verdict.Tests, 30)
	outcomes, err := runtime.Evaluate(ctx, bundle, nil, strings.NewReader(`{"run":{"is_destroy":false},"plan":{"resource_changes":[{"address":"aws_s3_bucket.b","type":"aws_s3_bucket","mode":"managed",
		"change":{"actions":["create"],"after":{"acl":"public-read","tags":{"owner":"ops"}}}}]}}`))
	require.NoError(t, err)
	for _, o := range outcomes {
		want := evaluator.Passed
		if o.Policy == "public-buckets" {
			want = evaluator.Failed
		}
		assert.Equal(t, want, o.Status, "%s %s", o.Policy, o.Error)
	}
}

// TestAPolicyIsCompiledWhenItComes: in the syntax of the sets it is in.
func TestAPolicyIsCompiledWhenItComes(t *testing.T) {
	w := newWorld(t)
	const old = "package p\n\ndeny[msg] {\n\tmsg := \"x\"\n}\n"
	p := w.policy("")
	wantCode(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte("package p\n\ndeny := time.now_ns()\n")), fault.Invalid, "policy_refused")
	_, err := w.DownloadPolicy(ctx, w.member, p.ID)
	wantCode(t, err, fault.NotFound, "no_bytes")
	require.NoError(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte(old)), "in no set, it may be written in either")
	_, err = w.CreateSet(ctx, w.owner, "acme", NewSet{Name: "new", Kind: OPA, Members: members(Policies, p.ID)})
	wantCode(t, err, fault.Invalid, "policy_refused")
	set, err := w.CreateSet(ctx, w.owner, "acme", NewSet{Name: "old", Kind: OPA, Rego: evaluator.V0, Members: members(Policies, p.ID)})
	require.NoError(t, err)
	assert.Equal(t, 1, set.CurrentPolicies)
	content, err := w.DownloadPolicy(ctx, w.member, p.ID)
	require.NoError(t, err)
	assert.Equal(t, old, string(content))
	query := "not data.p.deny"
	_, err = w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Query: &query})
	wantCode(t, err, fault.Invalid, "policy_refused")
	modern := evaluator.V1
	_, err = w.UpdateSet(ctx, w.owner, set.ID, SetChanges{Rego: &modern})
	wantCode(t, err, fault.Invalid, "invalid_attribute")
}

// TestWhatIsKeptIsSealed: neither content nor values stand in the database in plain.
func TestWhatIsKeptIsSealed(t *testing.T) {
	w := newWorld(t)
	p := w.policy(allows + "\n# S3CRET-content\n")
	set := w.set(NewSet{Members: members(Policies, p.ID)})
	shown, err := w.CreateParameter(ctx, w.owner, set.ID, Parameter{Key: "k", Value: "S3CRET-value", Sensitive: true})
	require.NoError(t, err)
	assert.Empty(t, shown.Value)
	list, err := w.Parameters(ctx, w.owner, set.ID)
	require.NoError(t, err)
	assert.Equal(t, []Parameter{{ID: shown.ID, Set: set.ID, Key: "k", Sensitive: true}}, list)
	open := false
	_, err = w.UpdateParameter(ctx, w.owner, set.ID, shown.ID, ParameterChanges{Sensitive: &open})
	wantCode(t, err, fault.Invalid, "invalid_attribute")
	_, err = w.CreateParameter(ctx, w.owner, set.ID, Parameter{Key: "k"})
	wantCode(t, err, fault.Invalid, "invalid_attribute")
	for _, table := range []string{"policies", "policy_set_versions", "policy_set_parameters"} {
		require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
			found, err := postgres.Value[int](ctx, tx, "select count(*) from "+table+" t where t::text like '%S3CRET%' or t::text like '%533343524554%'", nil)
			assert.Zero(t, found, table)
			return err
		}))
	}
}

// TestMembersReadAndOwnersChange: nobody else sees that there is anything.
func TestMembersReadAndOwnersChange(t *testing.T) {
	w := newWorld(t)
	p := w.policy(allows)
	set := w.set(NewSet{Members: members(Policies, p.ID)})
	text := "x"
	for name, call := range map[string]func(actor authz.Actor) error{
		"create a set": func(a authz.Actor) error { _, err := w.CreateSet(ctx, a, "acme", NewSet{Name: "n"}); return err },
		"update a set": func(a authz.Actor) error {
			_, err := w.UpdateSet(ctx, a, set.ID, SetChanges{Description: &text})
			return err
		},
		"delete a set":     func(a authz.Actor) error { return w.DeleteSet(ctx, a, set.ID) },
		"create a version": func(a authz.Actor) error { _, err := w.CreateVersion(ctx, a, set.ID); return err },
		"create a parameter": func(a authz.Actor) error {
			_, err := w.CreateParameter(ctx, a, set.ID, Parameter{Key: "k"})
			return err
		},
		"upload a policy": func(a authz.Actor) error { return w.UploadPolicy(ctx, a, p.ID, []byte(allows)) },
		"delete a policy": func(a authz.Actor) error { return w.DeletePolicy(ctx, a, p.ID) },
	} {
		assert.True(t, fault.Is(call(w.member), fault.Forbidden), name)
		assert.True(t, fault.Is(call(w.nobody), fault.NotFound), name)
	}
	_, err := w.Set(ctx, w.member, set.ID)
	assert.NoError(t, err)
	_, _, err = w.Sets(ctx, w.nobody, "acme", Filter{Page: Page{Limit: 10}})
	assert.True(t, fault.Is(err, fault.NotFound))
}

// TestAPolicyRunnerThatFailsIsNoAnswer: however it ends.
func TestAPolicyRunnerThatFailsIsNoAnswer(t *testing.T) {
	t.Parallel()
	bundle := evaluator.Bundle{Rego: evaluator.V1, Modules: []evaluator.Module{{Path: "p.rego", Content: allows}}, Policies: []evaluator.Policy{{Name: "p", Query: "data.p.deny", Level: evaluator.Mandatory}}}
	for _, path := range []string{"/bin/false", "/bin/true", "/dev/null"} {
		broken, err := RuntimeAt(path, "1", DefaultLimits())
		require.NoError(t, err)
		_, err = broken.Evaluate(ctx, bundle, nil, strings.NewReader("{}"))
		wantCode(t, err, fault.Internal, "policy_crashed")
		assert.True(t, Fault(err))
	}
	runtime, err := runtimeOnce()
	require.NoError(t, err)
	_, err = runtime.Evaluate(ctx, bundle, nil, strings.NewReader("no derivative"))
	wantCode(t, err, fault.Invalid, "policy_input")
	down := fault.New(fault.Unavailable, "store_unavailable", "The store is down.")
	_, err = runtime.Evaluate(ctx, bundle, nil, io.MultiReader(strings.NewReader("{"), failing{down}))
	assert.Equal(t, error(down), err)
	assert.False(t, Fault(err), "what it was to be given failed, and not the policy-runner")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = runtime.Evaluate(ended, bundle, nil, strings.NewReader("{}"))
	assert.ErrorIs(t, err, context.Canceled)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// TestAPolicyRunnerHasNoSurroundings: PO-11. It starts without environment, and where the system
// gives namespaces, without a network.
func TestAPolicyRunnerHasNoSurroundings(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "S3CRET")
	script := filepath.Join(t.TempDir(), "runner")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\ncat >/dev/null\nPATH=/usr/bin:/bin\nprintf '['; printf '{\"policy\":\"'; tr '\\0' ' ' < /proc/$$/environ; printf '\",\"error\":\"'; cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' \\n'; printf '\"}]'\n"), 0o700))
	shell, err := RuntimeAt(script, "1", DefaultLimits())
	require.NoError(t, err)
	outcomes, err := shell.Evaluate(ctx, evaluator.Bundle{}, nil, strings.NewReader("{}"))
	require.NoError(t, err)
	assert.Empty(t, outcomes[0].Policy, "its environment")
	if shell.shared.Load() {
		t.Skip("the system gives no namespaces")
	}
	assert.Equal(t, "lo", outcomes[0].Error, "its network has a loopback and nothing else")
}

// TestOnlyWhatWasAskedAndFoundGoodIsAllowed.
func TestOnlyWhatWasAskedAndFoundGoodIsAllowed(t *testing.T) {
	t.Parallel()
	outcome := func(level evaluator.Level, status evaluator.Status) SetOutcome {
		return SetOutcome{Name: "s", Kind: OPA, Outcomes: []evaluator.Outcome{{Policy: "p", Level: level, Status: status, Error: "why", Violations: []evaluator.Violation{{Rule: "deny", Address: "a.b", Message: "m"}}}}}
	}
	for _, c := range []struct {
		sets   []SetOutcome
		status Status
		reason string
		says   string
	}{
		{[]SetOutcome{outcome(evaluator.Mandatory, evaluator.Passed)}, Allowed, "", ""},
		{[]SetOutcome{outcome(evaluator.Advisory, evaluator.Failed), outcome(evaluator.Advisory, evaluator.Errored)}, Allowed, "", ""},
		{[]SetOutcome{outcome(evaluator.Mandatory, evaluator.Passed), outcome(evaluator.Mandatory, evaluator.Failed)}, Denied, ReasonDenied, "a.b: rule deny: m"},
		{[]SetOutcome{outcome(evaluator.Mandatory, evaluator.Errored)}, Unclear, ReasonErrored, "why"},
		{[]SetOutcome{outcome(evaluator.Mandatory, evaluator.Errored), outcome(evaluator.Mandatory, evaluator.Failed)}, Denied, ReasonDenied, "m"},
		{[]SetOutcome{{Kind: OPA, Error: "too large"}, outcome(evaluator.Mandatory, evaluator.Passed)}, Unclear, ReasonErrored, "too large"},
		{[]SetOutcome{outcome(evaluator.Mandatory, evaluator.Passed), {Kind: Sentinel, Error: "not here"}}, Unclear, ReasonUnsupported, "not here"},
	} {
		e := Evaluation{Sets: c.sets}
		e.conclude()
		assert.Equal(t, c.status, e.Status)
		assert.Equal(t, c.reason, e.Reason)
		assert.Contains(t, e.Summary(), c.says)
		assert.Equal(t, c.says == "", e.Summary() == "")
	}
}
