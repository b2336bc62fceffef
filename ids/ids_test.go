package ids_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

func TestNewParsesAndIsFresh(t *testing.T) {
	seen := map[ids.Run]bool{}
	for range 1000 {
		id := ids.New[ids.Run]()
		parsed, err := ids.Parse[ids.Run](string(id))
		require.NoError(t, err)
		assert.Equal(t, id, parsed)
		assert.False(t, seen[id])
		seen[id] = true
	}
}

func TestParseRefusesWhatCannotBeAnID(t *testing.T) {
	for _, s := range []string{"", "run-", "run-short", "ws-1234567890123456", "run-0000000000000000", "run-123456789ABCDEFG1", "run-12345678/BCDEFG"} {
		_, err := ids.Parse[ids.Run](s)
		assert.Truef(t, fault.Is(err, fault.NotFound), "%q", s)
	}
}

func TestEveryKindHasItsOwnPrefix(t *testing.T) {
	all := []string{
		string(ids.New[ids.Organization]()), string(ids.New[ids.User]()), string(ids.New[ids.Token]()), string(ids.New[ids.Project]()),
		string(ids.New[ids.Workspace]()), string(ids.New[ids.Variable]()), string(ids.New[ids.ConfigurationVersion]()), string(ids.New[ids.Run]()),
		string(ids.New[ids.Plan]()), string(ids.New[ids.Apply]()), string(ids.New[ids.RunEvent]()), string(ids.New[ids.StateVersion]()),
		string(ids.New[ids.Output]()), string(ids.New[ids.Object]()), string(ids.New[ids.RunnerGroup]()), string(ids.New[ids.Runner]()),
		string(ids.New[ids.Attempt]()), string(ids.New[ids.AuditEntry]()), string(ids.New[ids.Tag]()), string(ids.New[ids.TagBinding]()),
		string(ids.New[ids.Stage]()), string(ids.New[ids.Receipt]()), string(ids.New[ids.EmergencyState]()), string(ids.New[ids.Recovery]()),
		string(ids.New[ids.PolicySet]()), string(ids.New[ids.PolicySetVersion]()), string(ids.New[ids.Policy]()),
		string(ids.New[ids.NotificationConfiguration]()), string(ids.New[ids.RunTask]()), string(ids.New[ids.WorkspaceTask]()),
		string(ids.New[ids.TaskStage]()), string(ids.New[ids.TaskResult]()), string(ids.New[ids.TaskOutcome]()), string(ids.New[ids.CostEstimate]()), string(ids.New[ids.SCIMGroup]()), string(ids.New[ids.QueryRun]()),
	}
	prefixes := map[string]bool{}
	for _, id := range all {
		prefixes[id[:len(id)-16]] = true
	}
	assert.Len(t, prefixes, len(all))
	assert.NotContains(t, prefixes, "")
}
