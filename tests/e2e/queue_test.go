package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunsOfAWorkspaceTakeTurnsInTheirOrder(t *testing.T) {
	t.Parallel()
	at := newGate(t)
	order := filepath.Join(t.TempDir(), "order")
	w := shared.newWorkspace(t, workspaceName(t))
	numbered := func(n int, before string) string {
		return resource(fmt.Sprint("run", n), fmt.Sprintf("%s echo %d >> %s", before, n, order))
	}
	first := shared.newRun(t, w.ID, numbered(1, at.command()+";"))
	at.reached()
	second := shared.newRun(t, w.ID, numbered(2, ""))
	third := shared.newRun(t, w.ID, numbered(3, ""))
	assert.Equal(t, "applying", shared.runFacts(t, first.ID).Status)
	for _, waiting := range []*tfe.Run{second, third} {
		facts := shared.runFacts(t, waiting.ID)
		assert.Equal(t, "pending", facts.Status)
		assert.Nil(t, facts.Fence, "it has no hold on the workspace")
	}
	w, err := shared.api.Workspaces.ReadByID(ctx, w.ID)
	require.NoError(t, err)
	assert.True(t, w.Locked)
	require.NotNil(t, w.CurrentRun)
	assert.Equal(t, first.ID, w.CurrentRun.ID)

	at.open()
	for _, r := range []*tfe.Run{first, second, third} {
		facts := shared.ended(t, r.ID)
		assert.Equal(t, "applied", facts.Status, facts.StatusMessage)
	}
	assert.Equal(t, "1\n2\n3\n", readFile(t, order))
	w, err = shared.api.Workspaces.ReadByID(ctx, w.ID)
	require.NoError(t, err)
	assert.False(t, w.Locked)
}

// Case 17: nothing but unlock takes a person's lock away. Plans do not need it.
func TestAPersonsLockStopsAppliesAndNotPlans(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `resource "terraform_data" "a" {}`)
	f.init()
	w := f.current()
	_, err := shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{Reason: tfe.String("maintenance")})
	require.NoError(t, err)
	assert.Contains(t, f.ok("plan"), "Plan: 1 to add")

	apply := f.start("apply", "-auto-approve")
	eventually(t, "the run to be named", func() bool { return runURL.MatchString(apply.said.String()) })
	id := runIn(t, apply.said.String())
	eventually(t, "the client to wait", func() bool {
		return strings.Contains(apply.said.String(), "Waiting for the manually locked workspace to be unlocked")
	})
	assert.Equal(t, "pending", shared.runFacts(t, id).Status)

	assert.True(t, f.current().Locked)
	_, err = shared.api.Workspaces.Unlock(ctx, w.ID)
	require.NoError(t, err)
	assert.Equal(t, 0, apply.wait(t), apply.said)
	assert.Contains(t, apply.said.String(), "Apply complete! Resources: 1 added")
}

func TestAWaitingRunCanBeCanceled(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	_, err := shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	r := shared.newRun(t, w.ID, `resource "terraform_data" "a" {}`)
	require.Equal(t, "pending", shared.runFacts(t, r.ID).Status)
	require.NoError(t, shared.api.Runs.Cancel(ctx, r.ID, tfe.RunCancelOptions{}))
	assert.Equal(t, "canceled", shared.runFacts(t, r.ID).Status)
	_, err = shared.api.Workspaces.Unlock(ctx, w.ID)
	require.NoError(t, err)
	next := shared.newRun(t, w.ID, `resource "terraform_data" "b" {}`)
	assert.Equal(t, "applied", shared.ended(t, next.ID).Status, "the canceled one stands in nobody's way")
}

// NC-29: Ctrl-C in the client cancels the run, whether it waits or works.
func TestCtrlCCancelsTheRun(t *testing.T) {
	t.Parallel()
	at := newGate(t)
	f := newFolder(t, shared, resource("slow", at.command()))
	f.init()
	w := f.current()
	_, err := shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	waits := f.start("apply", "-auto-approve")
	eventually(t, "the client to wait", func() bool { return strings.Contains(waits.said.String(), "Waiting for") })
	waits.signal(t, syscall.SIGINT)
	waits.wait(t)
	assert.Equal(t, "canceled", shared.ended(t, runIn(t, waits.said.String())).DurableStatus, waits.said)
	_, err = shared.api.Workspaces.Unlock(ctx, w.ID)
	require.NoError(t, err)

	works := f.start("apply", "-auto-approve")
	at.reached()
	eventually(t, "the client to follow the apply", func() bool {
		return strings.Contains(works.said.String(), "terraform_data.slow: Provisioning with 'local-exec'")
	})
	works.signal(t, syscall.SIGINT)
	works.wait(t)
	assert.Equal(t, "apply_interrupted", shared.ended(t, runIn(t, works.said.String())).DurableStatus, works.said)
	assert.True(t, f.current().Locked)
}
