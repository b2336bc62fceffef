package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/fence"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

var (
	ctx = context.Background()
	ada = fence.Holder{Kind: fence.User, ID: "user-ada", Name: "ada"}
	bob = fence.Holder{Kind: fence.User, ID: "user-bob", Name: "bob"}
	run = fence.Holder{Kind: fence.Run, ID: "run-1", Name: "run-1"}
)

// world is a database with one workspace and its free fence.
type world struct {
	*testing.T
	db *postgres.DB
	ws ids.Workspace
}

func newWorld(t *testing.T) world {
	w := world{T: t, db: testdb.New(t), ws: ids.New[ids.Workspace]()}
	org, project := ids.New[ids.Organization](), ids.New[ids.Project]()
	args := postgres.Args{"org": org, "project": project, "ws": w.ws}
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		for _, sql := range []string{
			"insert into organizations (id, name) values (@org, 'acme')",
			"insert into projects (id, organization_id, name) values (@project, @org, 'p')",
			"insert into workspaces (id, organization_id, project_id, name) values (@ws, @org, @project, 'w')",
		} {
			if _, err := postgres.Exec(ctx, tx, sql, args); err != nil {
				return err
			}
		}
		return fence.Create(ctx, tx, org, w.ws)
	}))
	return w
}

func (w world) tx(fn func(tx postgres.Tx) error) error {
	return postgres.InTx(ctx, w.db, "test", fn)
}

func (w world) acquire(h fence.Holder) (tok fence.Token, err error) {
	err = w.tx(func(tx postgres.Tx) (err error) {
		tok, err = fence.Acquire(ctx, tx, w.ws, h, "because")
		return err
	})
	return tok, err
}

func (w world) mustAcquire(h fence.Holder) fence.Token {
	w.Helper()
	tok, err := w.acquire(h)
	require.NoError(w, err)
	return tok
}

func (w world) guard(tok fence.Token) error {
	return w.tx(func(tx postgres.Tx) error {
		_, err := fence.Guard(ctx, tx, tok)
		return err
	})
}

func (w world) release(tok fence.Token) error {
	return w.tx(func(tx postgres.Tx) error { return fence.Release(ctx, tx, tok) })
}

func (w world) hold(tok fence.Token) error {
	return w.tx(func(tx postgres.Tx) error { return fence.HoldForRecovery(ctx, tx, tok, "no proof") })
}

func (w world) grow(tok fence.Token) (grown fence.Token, err error) {
	err = w.tx(func(tx postgres.Tx) (err error) {
		grown, err = fence.Grow(ctx, tx, tok)
		return err
	})
	return grown, err
}

func (w world) revoke() (epoch int64) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) error {
		locked, err := fence.Lock(ctx, tx, w.ws)
		if err != nil {
			return err
		}
		epoch, err = fence.Revoke(ctx, tx, locked)
		return err
	}))
	return epoch
}

func (w world) status() (s fence.Status) {
	w.Helper()
	require.NoError(w, w.tx(func(tx postgres.Tx) (err error) {
		s, err = fence.Read(ctx, tx, w.ws)
		return err
	}))
	return s
}

func wantStale(t *testing.T, err error) {
	t.Helper()
	assert.Truef(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "stale_fence"), "%v", err)
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	t.Parallel()
	db := testdb.New(t)
	assert.NotEmpty(t, fence.Queries)
	for name, sql := range fence.Queries {
		assert.NoError(t, postgres.Prepare(ctx, db, name, sql), name)
	}
}

func TestANewFenceIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	assert.Equal(t, fence.Status{Workspace: w.ws}, w.status())
	assert.False(t, w.status().Held())
}

func TestAcquireTakesAFreeFenceWithANewEpoch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.mustAcquire(ada)
	assert.Equal(t, fence.Token{Workspace: w.ws, Epoch: 1, Holder: ada}, tok)
	s := w.status()
	assert.Equal(t, ada, s.Holder)
	assert.Equal(t, "because", s.Reason)
	assert.NotNil(t, s.AcquiredAt)
	assert.True(t, s.Held())
	assert.True(t, s.HeldBy(fence.User, ada.ID))
	assert.False(t, s.HeldBy(fence.Run, ada.ID))
	assert.Equal(t, tok, s.Token())
}

func TestAHeldFenceIsLockedForEverybody(t *testing.T) {
	t.Parallel()
	for text, holder := range map[string]fence.Holder{
		"is locked by User ada":    ada,
		"is locked by Run run-1":   run,
		"is locked by Team team-1": {Kind: fence.Team, ID: "team-1"},
	} {
		t.Run(string(holder.Kind), func(t *testing.T) {
			w := newWorld(t)
			w.mustAcquire(holder)
			before := w.status()
			for _, other := range []fence.Holder{bob, holder} {
				_, err := w.acquire(other)
				assert.True(t, fault.Is(err, fault.Locked))
				assert.ErrorContains(t, err, text, "clients look for these words")
			}
			assert.Equal(t, before, w.status(), "a refusal changes nothing")
		})
	}
}

func TestGuardPassesOnlyTheCurrentHolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.mustAcquire(ada)
	assert.NoError(t, w.guard(tok))
	wantStale(t, w.guard(fence.Token{Workspace: w.ws, Epoch: tok.Epoch, Holder: bob}))
	wantStale(t, w.guard(fence.Token{Workspace: w.ws, Epoch: tok.Epoch, Holder: fence.Holder{Kind: fence.Run, ID: ada.ID}}))
	wantStale(t, w.guard(fence.Token{Workspace: w.ws, Epoch: tok.Epoch - 1, Holder: ada}))
	wantStale(t, w.guard(fence.Token{Workspace: w.ws, Epoch: tok.Epoch + 1, Holder: ada}))
	err := w.guard(fence.Token{Workspace: "ws-nobody", Epoch: 1, Holder: ada})
	assert.True(t, fault.Is(err, fault.NotFound))
}

func TestGuardRefusesWhileTheFenceIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantStale(t, w.guard(fence.Token{Workspace: w.ws}))
	wantStale(t, w.guard(w.status().Token()))
	tok := w.mustAcquire(ada)
	require.NoError(t, w.release(tok))
	wantStale(t, w.guard(tok))
	wantStale(t, w.guard(w.status().Token())) // the token of nobody
}

func TestGuardHoldsTheFenceUntilTheTransactionEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.mustAcquire(ada)
	require.NoError(t, w.tx(func(tx postgres.Tx) error {
		if _, err := fence.Guard(ctx, tx, tok); err != nil {
			return err
		}
		err := w.tx(func(other postgres.Tx) error {
			if _, err := postgres.Exec(ctx, other, "set local lock_timeout = '50ms'", postgres.Args{}); err != nil {
				return err
			}
			return fence.Release(ctx, other, tok)
		})
		sqlstate, _ := postgres.Violation(err)
		assert.Equal(t, "55P03", sqlstate, "the release waits: %v", err)
		return nil
	}))
	assert.NoError(t, w.release(tok), "and goes through afterwards")
}

func TestReleaseFreesAndOldTokensStayDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.mustAcquire(ada)
	wantStale(t, w.release(fence.Token{Workspace: w.ws, Epoch: old.Epoch, Holder: bob}))
	require.NoError(t, w.release(old))
	assert.Equal(t, fence.Status{Workspace: w.ws, Epoch: 1}, w.status(), "free, and the epoch stays")
	wantStale(t, w.guard(old))
	wantStale(t, w.release(old))

	again := w.mustAcquire(ada)
	assert.Equal(t, int64(2), again.Epoch)
	wantStale(t, w.guard(old)) // the same holder, but an older epoch
	wantStale(t, w.release(old))
	assert.NoError(t, w.guard(again))
}

func TestRevokeFencesTheOldHolderOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.mustAcquire(run)
	assert.Equal(t, int64(2), w.revoke())
	assert.Equal(t, fence.Status{Workspace: w.ws, Epoch: 2}, w.status())
	wantStale(t, w.guard(old))
	wantStale(t, w.hold(old))
	_, err := w.grow(old)
	wantStale(t, err)

	err = w.tx(func(tx postgres.Tx) error {
		_, err := fence.Revoke(ctx, tx, fence.Status{Workspace: w.ws, Epoch: 1})
		return err
	})
	assert.Error(t, err, "what was read is older than the fence")
	assert.Equal(t, int64(2), w.status().Epoch)
}

func TestGrowLeavesTheHolderAndFencesItsPast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old := w.mustAcquire(ada)
	grown, err := w.grow(old)
	require.NoError(t, err)
	assert.Equal(t, fence.Token{Workspace: w.ws, Epoch: 2, Holder: ada}, grown)
	wantStale(t, w.guard(old))
	assert.NoError(t, w.guard(grown))
	_, err = w.grow(old)
	wantStale(t, err)
	assert.NoError(t, w.release(grown))
}

func TestHeldForRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	tok := w.mustAcquire(run)
	assert.NoError(t, w.status().CheckRecovery())
	require.NoError(t, w.hold(tok))
	s := w.status()
	assert.True(t, s.RecoveryHeld)
	assert.Equal(t, "no proof", s.Reason)
	assert.Equal(t, run, s.Holder)
	assert.Equal(t, tok.Epoch, s.Epoch)

	_, err := w.acquire(ada)
	for _, err := range []error{err, s.CheckRecovery()} {
		assert.True(t, fault.Is(err, fault.RecoveryHeld))
		assert.ErrorContains(t, err, "holdfast admin recover run-1", "it names the way out")
	}
	assert.Equal(t, int64(2), w.revoke(), "recovery ends in a revocation")
	assert.Equal(t, int64(3), w.mustAcquire(ada).Epoch)
}

func TestOnlyARunIsHeldForRecovery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	wantStale(t, w.hold(w.mustAcquire(ada)))
	assert.False(t, w.status().RecoveryHeld)
	err := w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update workspace_fences set recovery_held = true", postgres.Args{})
		return err
	})
	testdb.WantViolation(t, err, "23514", "workspace_fences_held_by_run")
}

func TestTheDatabaseKeepsTheEpochGrowing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mustAcquire(ada)
	before := w.status()
	for sql, constraint := range map[string]string{
		"update workspace_fences set epoch = epoch - 1":                                       "fence_epoch_grows",
		"update workspace_fences set holder_id = 'user-bob'":                                  "fence_epoch_grows",
		"update workspace_fences set holder_kind = 'run'":                                     "fence_epoch_grows",
		"update workspace_fences set holder_kind = null, holder_id = null":                    "workspace_fences_holder_whole",
		"update workspace_fences set epoch = epoch + 1, holder_kind = 'pet'":                  "workspace_fences_holder_kind",
		"update workspace_fences set epoch = epoch + 1, holder_kind = null, acquired_at=null": "workspace_fences_holder_whole",
	} {
		err := w.tx(func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, sql, postgres.Args{})
			return err
		})
		testdb.WantViolation(t, err, "23514", constraint)
	}
	require.NoError(t, w.release(before.Token()))
	err := w.tx(func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, "update workspace_fences set holder_kind = 'user', holder_id = 'user-ada', acquired_at = clock_timestamp()", postgres.Args{})
		return err
	})
	testdb.WantViolation(t, err, "23514", "fence_epoch_grows")
}

func TestManyAcquireOneWins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const contenders = 20
	start := make(chan struct{})
	errs := make([]error, contenders)
	toks := make([]fence.Token, contenders)
	var all sync.WaitGroup
	for i := range contenders {
		all.Add(1)
		go func() {
			defer all.Done()
			<-start
			toks[i], errs[i] = w.acquire(fence.Holder{Kind: fence.User, ID: fmt.Sprint("user-", i)})
		}()
	}
	close(start)
	all.Wait()

	var winners []fence.Token
	for i, err := range errs {
		if err == nil {
			winners = append(winners, toks[i])
			continue
		}
		assert.Truef(t, fault.Is(err, fault.Locked), "%v", err)
	}
	require.Len(t, winners, 1)
	assert.Equal(t, int64(1), winners[0].Epoch)
	assert.NoError(t, w.guard(winners[0]))
}

func TestARolledBackAcquireLeavesNoTrace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	stopped := errors.New("something else failed")
	err := w.tx(func(tx postgres.Tx) error {
		_, err := fence.Acquire(ctx, tx, w.ws, ada, "")
		require.NoError(t, err)
		return stopped
	})
	assert.ErrorIs(t, err, stopped)
	assert.Equal(t, fence.Status{Workspace: w.ws}, w.status())
}

func TestAnUnknownWorkspaceIsNotFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ws = "ws-nobody"
	_, err := w.acquire(ada)
	assert.True(t, fault.Is(err, fault.NotFound))
	assert.True(t, fault.Is(w.release(fence.Token{Workspace: w.ws, Holder: ada}), fault.NotFound))
	assert.True(t, fault.Is(w.hold(fence.Token{Workspace: w.ws, Holder: run}), fault.NotFound))
	_, err = w.grow(fence.Token{Workspace: w.ws, Holder: ada})
	assert.True(t, fault.Is(err, fault.NotFound))
}
