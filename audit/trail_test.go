package audit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestTheTrailIsWhatWasDoneInOneOrganizationNewestFirst(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	acme, other := ids.New[ids.Organization](), ids.New[ids.Organization]()
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "insert into organizations (id, name) values (@acme, 'acme'), (@other, 'other')", postgres.Args{"acme": acme, "other": other})
		return err
	}))
	ada := authz.Actor{Kind: authz.UserActor, User: "user-1"}
	require.NoError(t, appendEntry(db, audit.Entry{Organization: acme, Actor: ada, Action: "organization.created", ObjectKind: "organization", ObjectID: string(acme)}))
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		return audit.Append(audit.InRequest(ctx, "REQ1"), tx, audit.Entry{
			Organization: acme, Actor: ada, Action: "workspace.locked", ObjectKind: "workspace", ObjectID: "ws-1", Reason: "care", Details: map[string]any{"n": "1"},
		})
	}))
	require.NoError(t, appendEntry(db, audit.Entry{Organization: other, Actor: ada, Action: "workspace.locked", ObjectKind: "workspace", ObjectID: "ws-2"}))
	require.NoError(t, appendEntry(db, audit.Entry{Organization: acme, Actor: authz.System(), Action: "workspace.unlocked", ObjectKind: "workspace", ObjectID: "ws-1"}))

	trail := func(since time.Time, limit, offset int) (list []audit.Record, total int) {
		require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) (err error) {
			list, total, err = audit.Trail(ctx, tx, acme, since, limit, offset)
			return err
		}))
		return list, total
	}
	list, total := trail(time.Time{}, 10, 0)
	require.Len(t, list, 2, "neither the other organization's, nor that this one was made")
	assert.Equal(t, 2, total)
	assert.Equal(t, "workspace.unlocked", list[0].Action)
	assert.Empty(t, list[0].Request, "the server did it by itself")
	locked := list[1]
	assert.Equal(t, []string{"workspace.locked", "user", "user-1", "workspace", "ws-1", "care", "REQ1"},
		[]string{locked.Action, locked.ActorKind, locked.ActorID, locked.ObjectKind, locked.ObjectID, locked.Reason, locked.Request})
	assert.Equal(t, map[string]any{"n": "1"}, locked.Details)

	second, total := trail(time.Time{}, 1, 1)
	assert.Equal(t, list[1:], second)
	assert.Equal(t, 2, total)
	since, total := trail(locked.At, 10, 0)
	assert.Equal(t, list[:1], since, "what happened at that instant is known already")
	assert.Equal(t, 1, total)
}
