package cli

import (
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const something = "resource \"terraform_data\" \"a\" {\n  input = \"a\"\n}\n"

func TestWorkspacesByTags(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("half", tfe.WorkspaceCreateOptions{Tags: []*tfe.Tag{{Name: "app"}}})
	f := d.folder(d.inCloud(`tags = ["app", "Team:a_b-1"]`), something)
	f.okTalk([]turn{{"There are no workspaces with the configured tags", "first"}}, "init")
	assert.Contains(t, f.ok("workspace", "new", "second"), `Created and switched to workspace "second"!`)
	assert.Equal(t, []string{"Team:a_b-1", "app"}, d.workspace("second").TagNames)
	assert.Equal(t, "  first\n* second\n\n", f.ok("workspace", "list"), "one tag of two is not enough")
	assert.Equal(t, "second\n", f.ok("workspace", "show"))
	f.fails([]string{"already exists"}, "workspace", "new", "first")
	f.fails([]string{`Workspace "half" doesn't exist`}, "workspace", "select", "half")
	assert.Contains(t, f.ok("workspace", "select", "-or-create", "third"), `Created and switched to workspace "third"!`)
	f.ok("workspace", "select", "first")
	assert.Contains(t, f.ok("workspace", "delete", "second"), `Deleted workspace "second"!`)
	assert.Equal(t, "* first\n  third\n\n", f.ok("workspace", "list"))
	f.fails([]string{"is your active workspace"}, "workspace", "delete", "first")
	assert.Equal(t, "third\n", f.with("TF_WORKSPACE=third").ok("workspace", "show"))
	f.with("TF_WORKSPACE=half").fails([]string{"Invalid workspace selection"}, "workspace", "list")
	assert.Equal(t, []string{"first", "half", "third"}, d.workspaces())
}

// A workspace that manages something is deleted only with -force, by client and server.
func TestWorkspaceDeleteIsSafe(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	for _, name := range []string{"full", "other"} {
		d.newWorkspace(name, tfe.WorkspaceCreateOptions{Tags: []*tfe.Tag{{Name: "app"}}})
	}
	f := d.folder(d.inCloud(`tags = ["app"]`), something)
	f.okTalk([]turn{{missing, "1"}}, "init")
	f.ok("apply", "-auto-approve")
	f.ok("workspace", "select", "other")
	f.fails([]string{`Workspace "full" is currently tracking the following resource instances: - terraform_data.a`}, "workspace", "delete", "full")
	assert.ErrorIs(t, shared.api.Workspaces.SafeDelete(ctx, d.organization, "full"), tfe.ErrWorkspaceNotSafeToDelete)

	lock(t, d.workspace("full").ID)
	f.fails([]string{"Error acquiring the state lock", "workspace already locked"}, "workspace", "delete", "full")
	assert.ErrorIs(t, shared.api.Workspaces.SafeDelete(ctx, d.organization, "full"), tfe.ErrWorkspaceLockedCannotDelete)
	unlock(t, d.workspace("full").ID)

	assert.Contains(t, f.ok("workspace", "delete", "-force", "full"), `Deleted workspace "full"!`)
	assert.Equal(t, []string{"other"}, d.workspaces())
	f.ok("workspace", "new", "full")
	f.fails([]string{"No state file was found"}, "state", "list") // the name is free, and what is made anew is empty
}

func lock(t *testing.T, id string) {
	t.Helper()
	_, err := shared.api.Workspaces.Lock(ctx, id, tfe.WorkspaceLockOptions{Reason: tfe.String("for a test")})
	require.NoError(t, err)
}

func unlock(t *testing.T, id string) {
	t.Helper()
	_, err := shared.api.Workspaces.Unlock(ctx, id)
	require.NoError(t, err)
}

func TestWorkspacesByName(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.newWorkspace("other", tfe.WorkspaceCreateOptions{})
	f := d.folder(d.inCloud(`name = "only"`), something)
	f.ok("init")
	assert.Equal(t, "* only\n\n", f.ok("workspace", "list"))
	assert.Equal(t, "only\n", f.ok("workspace", "show"))
	f.fails([]string{"workspaces not supported"}, "workspace", "new", "x")
	f.fails([]string{`Workspace "other" doesn't exist`}, "workspace", "select", "other")
	f.fails([]string{`Workspace "other" doesn't exist`}, "workspace", "delete", "other")
	assert.Equal(t, []string{"only", "other"}, d.workspaces())
}

// Cases 77, 79 and 80: a name that cannot be an address is refused in words, by every path.
func TestNamesThatWorkspacesCannotHave(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	const rule = "Name may only contain letters, numbers, - and _, and must be 1 to 90 characters long"
	f := d.folder(d.inCloud(`tags = ["app"]`), something)
	f.okTalk([]turn{{"There are no workspaces", "first"}}, "init")
	f.fails([]string{rule}, "workspace", "new", "eu.prod")
	f.fails([]string{`The workspace name "team a/prod" is not allowed`}, "workspace", "new", "team a/prod")
	d.folder(d.inCloud(`name = "eu.prod"`), something).fails([]string{rule}, "init")

	g := d.localFolder(true, "eu.prod")
	g.backend(d.inCloud(`tags = ["moved"]`))
	g.failsTalk([]turn{{nameDefault, "eu"}, {rename, "1"}, {pattern, "app-*"}}, []string{rule}, "init")
	g.backend(local)
	assert.Equal(t, "eu.prod", g.output("val"), "nothing local is lost")
	for _, name := range []string{"team a/prod", "eu.prod"} {
		_, err := shared.api.Workspaces.Create(ctx, d.organization, tfe.WorkspaceCreateOptions{Name: &name})
		assert.Error(t, err)
	}
}

func TestProjects(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	made, err := shared.api.Projects.Create(ctx, d.organization, tfe.ProjectCreateOptions{Name: "Payments"})
	require.NoError(t, err)
	project := func(workspace string) string {
		t.Helper()
		p, err := shared.api.Projects.Read(ctx, d.workspace(workspace).Project.ID)
		require.NoError(t, err)
		return p.Name
	}
	f := d.folder(d.inCloud("name = \"one\"\nproject = \"Payments\""), something)
	f.ok("init")
	assert.Equal(t, "Payments", project("one"))

	f = d.folder(d.inCloud("tags = [\"app\"]\nproject = \"Brand new\""), something)
	f.okTalk([]turn{{"There are no workspaces", "two"}}, "init")
	assert.Equal(t, "Brand new", project("two"), "made where it was missing")
	d.newWorkspace("elsewhere", tfe.WorkspaceCreateOptions{Tags: []*tfe.Tag{{Name: "app"}}, Project: made})
	assert.Equal(t, "* two\n\n", f.ok("workspace", "list"), "only those of the project")

	f = d.folder(d.inCloud(`name = "three"`), something).with("TF_CLOUD_PROJECT=Payments")
	f.ok("init")
	assert.Equal(t, "Payments", project("three"))
	f = d.folder(d.inCloud(`name = "four"`), something)
	f.ok("init")
	assert.Equal(t, "Default Project", project("four"))
	d.folder(d.inCloud("name = \"five\"\nproject = \"a/b\""), something).fails([]string{"Name may only contain"}, "init")
	projects, err := shared.api.Projects.List(ctx, d.organization, nil)
	require.NoError(t, err)
	assert.Len(t, projects.Items, 3)
}

func TestWorkspaceNewTakesAState(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	source := d.folder(local, something, value)
	source.ok("init")
	source.ok("apply", "-auto-approve")
	f := d.folder(d.inCloud(`tags = ["app"]`), something, value)
	f.okTalk([]turn{{"There are no workspaces", "first"}}, "init")
	f.ok("workspace", "new", "-state="+source.dir+"/terraform.tfstate", "copy")
	assert.Equal(t, "terraform_data.a\n", f.ok("state", "list"))
	assert.Equal(t, "default", f.output("val"))
	assert.False(t, d.workspace("copy").Locked)
}
