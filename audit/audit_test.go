package audit_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

var ctx = context.Background()

// entry is a row as the database gives it.
type entry struct {
	Organization, ActorKind, ActorID, Action, ObjectKind, ObjectID, Reason, Details string
}

const readAll = `select coalesce(organization_id, '') as organization, actor_kind, actor_id, action, object_kind, object_id, reason, details::text as details
from audit_entries order by at`

func entries(t *testing.T, db *postgres.DB) (found []entry) {
	t.Helper()
	require.NoError(t, postgres.InSnapshot(ctx, db, "test", func(tx postgres.Tx) (err error) {
		found, err = postgres.All[entry](ctx, tx, readAll, postgres.Args{})
		return err
	}))
	return found
}

func appendEntry(db *postgres.DB, e audit.Entry) error {
	return postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error { return audit.Append(ctx, tx, e) })
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, audit.Queries)
	for name, sql := range audit.Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}

func TestAppendKeepsWhoDidWhat(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	org := ids.New[ids.Organization]()
	require.NoError(t, postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "insert into organizations (id, name) values (@id, 'acme')", postgres.Args{"id": org})
		return err
	}))
	require.NoError(t, appendEntry(db, audit.Entry{
		Organization: org, Actor: authz.Actor{Kind: authz.UserActor, User: "user-1"}, Action: "state.rolled-back",
		ObjectKind: "workspace", ObjectID: "ws-1", Reason: "a \"bad\" apply", Details: map[string]any{"serial": 7},
	}))
	require.NoError(t, appendEntry(db, audit.Entry{
		Actor: authz.Actor{Kind: authz.AttemptActor, Attempt: "att-1", User: "user-1"}, Action: "a", ObjectKind: "run", ObjectID: "run-1",
	}))
	require.NoError(t, appendEntry(db, audit.Entry{Actor: authz.System(), Action: "b", ObjectKind: "run", ObjectID: "run-1"}))
	assert.Equal(t, []entry{
		{string(org), "user", "user-1", "state.rolled-back", "workspace", "ws-1", "a \"bad\" apply", `{"serial": 7}`},
		{"", "attempt", "att-1", "a", "run", "run-1", "", "{}"},
		{"", "system", "holdfast", "b", "run", "run-1", "", "{}"},
	}, entries(t, db))
}

func TestEntriesAreNeverChangedOrRemoved(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	require.NoError(t, appendEntry(db, audit.Entry{Actor: authz.System(), Action: "a", ObjectKind: "run", ObjectID: "run-1"}))
	before := entries(t, db)
	for _, sql := range []string{"update audit_entries set action = 'b'", "update audit_entries set at = at", "delete from audit_entries"} {
		err := postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, sql, postgres.Args{})
			return err
		})
		testdb.WantViolation(t, err, "23514", "audit_is_append_only")
	}
	assert.Equal(t, before, entries(t, db))
}

func TestAnEntryGoesWithItsAction(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	stopped := errors.New("the action failed")
	err := postgres.InTx(ctx, db, "test", func(tx postgres.Tx) error {
		require.NoError(t, audit.Append(ctx, tx, audit.Entry{Actor: authz.System(), Action: "a", ObjectKind: "run", ObjectID: "run-1"}))
		return stopped
	})
	assert.ErrorIs(t, err, stopped)
	assert.Empty(t, entries(t, db))
}

func TestWhatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	err := appendEntry(db, audit.Entry{Actor: authz.System(), Action: "a", Details: map[string]any{"f": func() {}}})
	var unsupported *json.UnsupportedTypeError
	assert.ErrorAs(t, err, &unsupported)
	err = appendEntry(db, audit.Entry{Organization: "org-nobody", Actor: authz.System(), Action: "a"})
	testdb.WantViolation(t, err, "23503", "audit_entries_organization_id_fkey")
	assert.Empty(t, entries(t, db))
}
