package cli

import (
	"slices"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	copyState   = "Should OpenTofu migrate your existing state?"
	copyCurrent = "Do you want to copy only your current workspace?"
	nameDefault = "Cloud backend requires all workspaces to be given an explicit name."
	rename      = "rename your workspaces? Enter 1 or 2."
	pattern     = "Enter a pattern with an asterisk"
	missing     = "The currently selected workspace (default) does not exist."
)

// localFolder is a folder with local state: of the default workspace if wanted, and of
// the named ones, the last of which is current.
func (d *desk) localFolder(withDefault bool, names ...string) *folder {
	d.t.Helper()
	f := d.folder(local, value)
	f.ok("init")
	if withDefault {
		f.ok("apply", "-auto-approve")
	}
	for _, name := range names {
		f.ok("workspace", "new", name)
		f.ok("apply", "-auto-approve")
	}
	return f
}

func (d *desk) tagged(tag string) (names []string) {
	d.t.Helper()
	list, err := shared.api.Workspaces.List(ctx, d.organization, &tfe.WorkspaceListOptions{Tags: tag})
	require.NoError(d.t, err)
	for _, w := range list.Items {
		names = append(names, w.Name)
	}
	slices.Sort(names)
	return names
}

func Test_migrate_single_to_tfc(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.localFolder(true)
	f.backend(d.inCloud(`name = "new-workspace"`))
	assert.Contains(t, f.okTalk([]turn{{copyState, "yes"}}, "init"), initialized)
	assert.Equal(t, "* new-workspace\n\n", f.ok("workspace", "list"))
	assert.Equal(t, "default", f.output("val"), "the state came along")
	assert.Equal(t, []string{"new-workspace"}, d.workspaces())
	f.ok("init") // and stays

	f = d.localFolder(true)
	f.backend(d.inCloud(`tags = ["app"]`))
	f.okTalk([]turn{{copyState, "yes"}, {nameDefault, "tagged-workspace"}}, "init")
	assert.Equal(t, "* tagged-workspace\n\n", f.ok("workspace", "list"))
	assert.Equal(t, []string{"tagged-workspace"}, d.tagged("app"))
	assert.Equal(t, "default", f.output("val"))

	f = d.localFolder(true)
	f.backend(d.inCloud(`name = "empty"`))
	f.okTalk([]turn{{copyState, "no"}}, "init")
	assert.Contains(t, f.ok("output"), "No outputs found")
}

func Test_migrate_multi_to_tfc_cloud_name_strategy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		withDefault bool
		locals      []string
		current     string
	}{
		"current workspace is default":   {true, []string{"prod"}, "default"},
		"current workspace is prod":      {true, []string{"prod"}, ""},
		"the default workspace is empty": {false, []string{"workspace1", "workspace2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			f := d.localFolder(c.withDefault, c.locals...)
			current := c.locals[len(c.locals)-1]
			if c.current != "" {
				current = c.current
				f.ok("workspace", "select", current)
			}
			f.backend(d.inCloud(`name = "new-workspace"`))
			assert.Contains(t, f.okTalk([]turn{{copyCurrent, "yes"}}, "init"), initialized)
			assert.Equal(t, "new-workspace\n", f.ok("workspace", "show"))
			assert.Equal(t, current, f.output("val"), "the state of the workspace that was current")
			f.fails([]string{`Workspace "default" doesn't exist`}, "workspace", "select", "default")
			assert.Equal(t, []string{"new-workspace"}, d.workspaces())
		})
	}
}

func Test_migrate_multi_to_tfc_cloud_tags_strategy(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	f := d.localFolder(true, "prod")
	f.backend(d.inCloud(`tags = ["app"]`))
	said := f.okTalk([]turn{{nameDefault, "dev"}, {rename, "1"}, {pattern, "app-*"}}, "init")
	assert.Contains(t, said, initialized)
	for name, val := range map[string]string{"app-dev": "default", "app-prod": "prod"} {
		f.ok("workspace", "select", name)
		assert.Equal(t, val, f.output("val"))
	}
	assert.Equal(t, []string{"app-dev", "app-prod"}, d.tagged("app"))

	d = newDesk(t)
	f = d.localFolder(true, "identity", "billing")
	for _, name := range []string{"identity", "billing"} {
		d.newWorkspace(name, tfe.WorkspaceCreateOptions{})
	}
	f.ok("workspace", "select", "default")
	f.backend(d.inCloud(`tags = ["app"]`))
	f.okTalk([]turn{{nameDefault, "dev"}, {rename, "1"}, {pattern, "app-*"}}, "init")
	for name, val := range map[string]string{"app-dev": "default", "app-identity": "identity", "app-billing": "billing"} {
		f.ok("workspace", "select", name)
		assert.Equal(t, val, f.output("val"))
	}
	assert.Equal(t, []string{"app-billing", "app-dev", "app-identity"}, d.tagged("app"))
	assert.Len(t, d.workspaces(), 5, "those that were there are left alone")
}

func Test_migrate_remote_backend_single_org(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before   []string // workspaces there from the start
		backend  string
		first    []turn // of the first init
		commands [][]string
		cloud    string
		dialogue []turn // of the init that migrates
		shown    string // the workspace in the end
		val      string // its output
		list     []string
	}{
		"name to name":      {nil, `name = "remote-workspace"`, nil, nil, `name = "cloud-workspace"`, []turn{{copyState, "yes"}}, "cloud-workspace", "remote-workspace", []string{"cloud-workspace", "remote-workspace"}},
		"name to same name": {nil, `name = "remote-workspace"`, nil, nil, `name = "remote-workspace"`, []turn{{copyState, "yes"}}, "remote-workspace", "remote-workspace", []string{"remote-workspace"}},
		"name to tags":      {nil, `name = "remote-workspace"`, nil, nil, `tags = ["app"]`, []turn{{copyState, "yes"}, {nameDefault, "cloud-workspace"}}, "cloud-workspace", "remote-workspace", []string{"cloud-workspace", "remote-workspace"}},
		"prefix to name, one workspace": {[]string{"app-one"}, `prefix = "app-"`, nil, nil, `name = "cloud-workspace"`, []turn{{copyState, "yes"}},
			"cloud-workspace", "app-one", []string{"app-one", "cloud-workspace"}},
		"prefix to name, several workspaces": {[]string{"app-one", "app-two"}, `prefix = "app-"`, []turn{{missing, "1"}}, [][]string{{"workspace", "select", "two"}, {"apply", "-auto-approve"}},
			`name = "cloud-workspace"`, []turn{{copyCurrent, "yes"}}, "cloud-workspace", "app-two", []string{"app-one", "app-two", "cloud-workspace"}},
		"prefix to tags, one workspace": {[]string{"app-one"}, `prefix = "app-"`, nil, nil, `tags = ["app"]`, []turn{{copyState, "yes"}, {nameDefault, "cloud-workspace"}},
			"cloud-workspace", "app-one", []string{"app-one", "cloud-workspace"}},
		"prefix to tags, several workspaces": {[]string{"app-one", "app-two"}, `prefix = "app-"`, []turn{{missing, "1"}}, [][]string{{"workspace", "select", "two"}, {"apply", "-auto-approve"}},
			`tags = ["app"]`, []turn{{"Do you wish to proceed?", "yes"}}, "app-two", "app-two", []string{"app-one", "app-two"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			for _, w := range c.before {
				d.newWorkspace(w, remote(t))
			}
			f := d.folder(d.onRemote(c.backend), value)
			f.okTalk(c.first, "init")
			f.ok("apply", "-auto-approve")
			for _, command := range c.commands {
				f.ok(command...)
			}
			f.backend(d.inCloud(c.cloud))
			assert.Contains(t, f.okTalk(c.dialogue, "init", "-ignore-remote-version"), initialized)
			assert.Equal(t, c.shown+"\n", f.ok("workspace", "show"))
			assert.Equal(t, c.val, f.output("val"))
			assert.Equal(t, c.list, d.workspaces())
			if c.cloud == `tags = ["app"]` {
				assert.Contains(t, d.tagged("app"), c.shown)
			}
			for _, w := range d.workspaces() {
				assert.False(t, d.workspace(w).Locked, "no lock is left behind")
			}
		})
	}
}

func Test_migrate_remote_backend_multi_org(t *testing.T) {
	t.Parallel()
	from, to := newDesk(t), newDesk(t)
	f := from.folder(from.onRemote(`name = "remote-workspace"`), value)
	assert.Contains(t, f.ok("init"), `Successfully configured the backend "remote"!`)
	f.ok("apply", "-auto-approve")
	f.backend(to.inCloud(`name = "remote-workspace"`))
	f.okTalk([]turn{{copyState, "yes"}}, "init", "-ignore-remote-version")
	assert.Equal(t, "remote-workspace\n", f.ok("workspace", "show"))
	assert.Equal(t, "remote-workspace", f.output("val"))
	for _, d := range []*desk{from, to} {
		assert.False(t, d.workspace("remote-workspace").Locked)
	}
}

func Test_migrate_tfc_to_tfc_single_workspace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("prod", remote(t))
	f := d.folder(d.inCloud(`name = "prod"`), value)
	f.ok("init")
	f.ok("apply", "-auto-approve")
	assert.Equal(t, "prod", f.output("val"))

	d.newWorkspace("dev", remote(t))
	f.backend(d.inCloud(`name = "dev"`))
	assert.Contains(t, f.ok("init", "-ignore-remote-version"), initialized)
	assert.Equal(t, "dev\n", f.ok("workspace", "show"))
	assert.Contains(t, f.ok("output"), "No outputs found", "nothing is copied from one to another")

	f.backend(d.inCloud(`tags = ["app"]`))
	f.okTalk([]turn{{"There are no workspaces with the configured tags (app)", "new-workspace"}}, "init", "-ignore-remote-version")
	assert.Equal(t, "new-workspace\n", f.ok("workspace", "show"))
	assert.Equal(t, []string{"new-workspace"}, d.tagged("app"))

	d.newWorkspace("untagged", remote(t))
	f.backend(d.inCloud(`tags = ["other"]`))
	f.okTalk([]turn{{"There are no workspaces with the configured tags (other)", "untagged"}}, "init")
	w := d.workspace("untagged")
	assert.Nil(t, w.CurrentRun)
	assert.Equal(t, []string{"other"}, w.TagNames, "one that was there gets the tag")
}

func Test_migrate_tfc_to_tfc_multiple_workspace(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{"app-prod", "app-staging"} {
		options := remote(t)
		options.Tags = []*tfe.Tag{{Name: "app"}}
		d.newWorkspace(name, options)
	}
	f := d.folder(d.inCloud(`tags = ["app"]`), `output "tag_val" { value = "app" }`)
	f.okTalk([]turn{{missing, "1"}}, "init")
	f.okTalk([]turn{{`Do you want to perform these actions in workspace "app-prod"?`, "yes"}}, "apply")
	assert.Contains(t, f.ok("workspace", "select", "app-staging"), `Switched to workspace "app-staging".`)
	f.ok("apply", "-auto-approve")
	assert.Contains(t, f.ok("output"), `tag_val = "app"`)

	d.newWorkspace("service", remote(t))
	f.backend(d.inCloud(`name = "service"`))
	f.ok("init", "-ignore-remote-version")
	assert.Equal(t, "service\n", f.ok("workspace", "show"))

	f.backend(d.inCloud(`tags = ["billing"]`))
	f.okTalk([]turn{{"There are no workspaces with the configured tags (billing)", "new-app-prod"}}, "init", "-ignore-remote-version")
	assert.Equal(t, []string{"new-app-prod"}, d.tagged("billing"))
}
