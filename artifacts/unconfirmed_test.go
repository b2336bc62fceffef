package artifacts_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// An upload whose server died between the bytes and the row is found, read to its end and
// confirmed; one of something else is not found.
func TestAnUnconfirmedUploadIsFoundAndConfirmed(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	spec := f.spec(artifacts.KindState)
	var in artifacts.Intent
	require.NoError(t, f.tx(t, func(tx postgres.Tx) (err error) {
		in, err = f.Intend(ctx, tx, spec)
		return err
	}))
	object, err := f.Store(ctx, in, strings.NewReader("bytes"), 0, io.Discard)
	require.NoError(t, err)
	find := func(spec artifacts.Spec) (found []ids.Object) {
		require.NoError(t, f.tx(t, func(tx postgres.Tx) (err error) {
			found, err = f.Unconfirmed(ctx, tx, spec)
			return err
		}))
		return found
	}
	assert.Equal(t, []ids.Object{object.ID}, find(spec))
	for _, change := range []func(*artifacts.Spec){
		func(s *artifacts.Spec) { s.Serial++ }, func(s *artifacts.Spec) { s.Epoch++ }, func(s *artifacts.Spec) { s.Lineage = "l" },
		func(s *artifacts.Spec) { s.Run = ids.New[ids.Run]() }, func(s *artifacts.Spec) { s.Kind = artifacts.KindStateJSON }, func(s *artifacts.Spec) { s.Workspace = ids.New[ids.Workspace]() },
	} {
		other := spec
		change(&other)
		assert.Empty(t, find(other))
	}
	var read bytes.Buffer
	checked, err := f.Check(ctx, f.org, object.ID, &read)
	require.NoError(t, err)
	assert.Equal(t, object, checked)
	assert.Equal(t, "bytes", read.String())
	require.NoError(t, f.tx(t, func(tx postgres.Tx) error { return f.Confirm(ctx, tx, f.org, checked) }))
	assert.Empty(t, find(spec))
	_, err = f.Check(ctx, f.newOrganization(t), object.ID, io.Discard)
	assert.True(t, fault.Is(err, fault.NotFound))

	key := bodyKey(spec, object.ID)
	whole := f.store.Bytes(key)
	f.store.Replace(key, whole[:len(whole)-1])
	_, err = f.Check(ctx, f.org, object.ID, io.Discard)
	assert.True(t, fault.HasCode(err, "sealed_object_corrupt"), "%v", err)
	f.store.Replace(key, nil)
	_, err = f.Check(ctx, f.org, object.ID, io.Discard)
	assert.True(t, fault.HasCode(err, "object_missing"), "%v", err)
	f.discard(t, object.ID)
	_, err = f.Check(ctx, f.org, object.ID, io.Discard)
	assert.True(t, fault.Is(err, fault.NotFound))
}

// A held workspace forgets no upload: its recovery may need it.
func TestUploadsOfAHeldWorkspaceAreNotForgotten(t *testing.T) {
	f, ctx := newFixture(t), t.Context()
	spec := f.spec(artifacts.KindState)
	var in artifacts.Intent
	require.NoError(t, f.tx(t, func(tx postgres.Tx) (err error) {
		in, err = f.Intend(ctx, tx, spec)
		return err
	}))
	object, err := f.Store(ctx, in, strings.NewReader("bytes"), 0, io.Discard)
	require.NoError(t, err)
	f.age(t, object.ID, "created_at", 25*time.Hour)
	f.exec(t, "insert into projects (id, organization_id, name) values ('prj-1', @org, 'p')", postgres.Args{"org": f.org})
	f.exec(t, "insert into workspaces (id, organization_id, project_id, name) values (@ws, @org, 'prj-1', 'w')", postgres.Args{"ws": spec.Workspace, "org": f.org})
	f.exec(t, "insert into workspace_fences (workspace_id, organization_id, holder_kind, holder_id, acquired_at, recovery_held) values (@ws, @org, 'run', @run, clock_timestamp(), true)",
		postgres.Args{"ws": spec.Workspace, "org": f.org, "run": spec.Run})
	_, err = f.Sweep(ctx)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"pending": 1}, f.statuses(t))
	f.exec(t, "update workspace_fences set recovery_held = false", nil)
	_, err = f.Sweep(ctx)
	require.NoError(t, err)
	assert.Equal(t, map[string]int{"discarded": 1}, f.statuses(t))
}
