package gates_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
)

var (
	ctx   = context.Background()
	admin = authz.Actor{Kind: authz.UserActor, User: "user-1", SiteAdmin: true}
)

const org = ids.Organization("org-1111111111111111")

type world struct {
	*testing.T
	db *postgres.DB
	*gates.Service
}

func newWorld(t *testing.T) world {
	t.Parallel()
	db := testdb.New(t)
	w := world{T: t, db: db, Service: gates.New(db)}
	w.exec("insert into organizations (id, name) values ('org-1111111111111111', 'acme'), ('org-2222222222222222', 'beta')")
	return w
}

func (w world) exec(sql string) {
	w.Helper()
	require.NoError(w, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, sql, nil)
		return err
	}))
}

func (w world) check(organization ids.Organization, releases ...gates.Claim) (d gates.Denial, err error) {
	err = postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
		d, err = gates.Check(ctx, tx, organization, releases...)
		return err
	})
	return d, err
}

// closed demands the refusals of a closed gate, at the creation of a run and at its start.
func (w world) closed(organization ids.Organization, kind fault.Kind, code, atStart string, releases ...gates.Claim) {
	w.Helper()
	d, err := w.check(organization, releases...)
	require.NoError(w, err)
	require.True(w, d.Closed())
	wantFault(w, d.AtCreation(), kind, code)
	wantFault(w, d.AtStart(), fault.Conflict, atStart)
	assert.NotEmpty(w, d.Reason)
}

func (w world) open(organization ids.Organization, releases ...gates.Claim) {
	w.Helper()
	d, err := w.check(organization, releases...)
	require.NoError(w, err)
	assert.False(w, d.Closed(), d.Reason)
}

func wantFault(t require.TestingT, err error, kind fault.Kind, code string) {
	if h, ok := t.(interface{ Helper() }); ok {
		h.Helper()
	}
	require.Error(t, err)
	assert.True(t, fault.Is(err, kind) && fault.HasCode(err, code), "want %s %s, got %v", kind, code, err)
}

func (w world) closedOrganizations() (names []string) {
	w.Helper()
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
		names, err = postgres.Values[string](ctx, tx, "select o.name from closed_organizations c join organizations o on o.id = c.organization_id order by 1", nil)
		return err
	}))
	return names
}

func TestEveryQueryFitsTheSchema(t *testing.T) {
	w := newWorld(t)
	for name, sql := range gates.Queries {
		assert.NoError(t, postgres.Prepare(ctx, w.db, name, sql), name)
	}
}

func TestLaunchControlsCloseTheSite(t *testing.T) {
	w := newWorld(t)
	w.open(org)
	c, err := w.SetControls(ctx, admin, gates.Controls{Deny: true, Reason: "The store is being moved."})
	require.NoError(t, err)
	read, err := w.Controls(ctx, admin)
	require.NoError(t, err)
	assert.Equal(t, c, read)
	w.closed(org, fault.Unavailable, "service_unavailable", "launch_denied")
	d, _ := w.check(org)
	assert.Contains(t, d.Reason, "The store is being moved.")
	assert.Equal(t, []string{"acme", "beta"}, w.closedOrganizations())
	_, err = w.SetControls(ctx, admin, gates.Controls{})
	require.NoError(t, err)
	w.open(org)
	assert.Empty(t, w.closedOrganizations())
}

func TestARegionIsClosedForItsOrganizations(t *testing.T) {
	w := newWorld(t)
	_, err := w.SetRegion(ctx, admin, "acme", "eu-north-1")
	require.NoError(t, err)
	_, err = w.SetControls(ctx, admin, gates.Controls{ClosedRegions: []string{"us-east-1", "eu-north-1"}})
	require.NoError(t, err)
	w.closed(org, fault.Unavailable, "service_unavailable", "launch_denied")
	w.open("org-2222222222222222")
	assert.Equal(t, []string{"acme"}, w.closedOrganizations())
	_, err = w.SetRegion(ctx, admin, "acme", "Over There")
	wantFault(t, err, fault.Invalid, "invalid_attribute")
	_, err = w.SetControls(ctx, admin, gates.Controls{ClosedRegions: []string{""}})
	wantFault(t, err, fault.Invalid, "invalid_attribute")
}

func TestASuspensionIsOfOneOrganization(t *testing.T) {
	w := newWorld(t)
	first, err := w.SetSuspension(ctx, admin, "acme", true, "unpaid")
	require.NoError(t, err)
	again, err := w.SetSuspension(ctx, admin, "acme", true, "still unpaid")
	require.NoError(t, err)
	assert.Equal(t, first.SuspendedAt, again.SuspendedAt, "since the first time")
	assert.Equal(t, "still unpaid", again.SuspendedReason)
	w.closed(org, fault.Forbidden, "organization_suspended", "launch_denied")
	w.open("org-2222222222222222")
	assert.Equal(t, []string{"acme"}, w.closedOrganizations())
	st, err := w.SetSuspension(ctx, admin, "acme", false, "")
	require.NoError(t, err)
	assert.Equal(t, gates.Standing{Organization: "acme"}, st)
	w.open(org)
}

// TestAReleaseStandsInItsList: an empty list allows everything, and one with entries
// nothing else, not even what names no release.
func TestAReleaseStandsInItsList(t *testing.T) {
	w := newWorld(t)
	good := gates.Release{Version: "1.0", Digest: strings.Repeat("ab", 32)}
	rebuilt := gates.Release{Version: "1.0", Digest: strings.Repeat("cd", 32)}
	other := map[gates.List]gates.List{gates.Runner: gates.PolicyRuntime, gates.PolicyRuntime: gates.Runner}
	for _, list := range []gates.List{gates.Runner, gates.PolicyRuntime} {
		w.open(org, good.As(list), rebuilt.As(list), gates.Release{}.As(list))
		set, err := w.SetReleases(ctx, admin, list, []gates.Release{good})
		require.NoError(t, err)
		assert.Equal(t, []gates.Release{good}, set)
		w.open(org, good.As(list))
		w.open(org, rebuilt.As(other[list]))
		w.open(org)
		for _, bad := range []gates.Release{rebuilt, {Version: "1.1", Digest: good.Digest}, {}} {
			w.closed(org, fault.Conflict, "release_not_allowed", "release_not_allowed", good.As(list), bad.As(list))
			require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
				d, err := gates.CheckRelease(ctx, tx, bad.As(list))
				assert.True(t, d.Closed())
				assert.Contains(t, d.Reason, string(list))
				return err
			}))
		}
		_, err = w.SetReleases(ctx, admin, list, nil)
		require.NoError(t, err)
	}
	for _, bad := range []gates.Release{{Version: "", Digest: good.Digest}, {Version: "1", Digest: "ABC"}} {
		_, err := w.SetReleases(ctx, admin, gates.Runner, []gates.Release{bad})
		wantFault(t, err, fault.Invalid, "invalid_attribute")
	}
}

func TestControlsThatCannotBeReadDeny(t *testing.T) {
	t.Run("their row is gone", func(t *testing.T) {
		w := newWorld(t)
		w.exec("delete from launch_controls")
		w.closed(org, fault.Unavailable, "service_unavailable", "launch_denied")
		assert.Equal(t, []string{"acme", "beta"}, w.closedOrganizations())
		_, err := w.Controls(ctx, admin)
		wantFault(t, err, fault.NotFound, "launch_controls_missing")
		_, err = w.SetControls(ctx, admin, gates.Controls{})
		require.NoError(t, err)
		w.open(org)
	})
	t.Run("their table is gone", func(t *testing.T) {
		w := newWorld(t)
		w.exec("alter table launch_controls rename to elsewhere")
		_, err := w.check(org)
		wantFault(t, err, fault.Unavailable, "service_unavailable")
	})
	t.Run("the allow-lists are gone", func(t *testing.T) {
		w := newWorld(t)
		w.exec("alter table allowed_releases rename to elsewhere")
		_, err := w.check(org, gates.Release{}.As(gates.Runner))
		wantFault(t, err, fault.Unavailable, "service_unavailable")
	})
	t.Run("somebody locks them", func(t *testing.T) {
		w := newWorld(t)
		require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
			if _, err := postgres.Exec(ctx, tx, "lock table launch_controls in access exclusive mode", nil); err != nil {
				return err
			}
			_, err := w.check(org)
			wantFault(t, err, fault.Unavailable, "service_unavailable")
			return nil
		}))
		w.open(org)
	})
}

func TestGatesAreForSiteAdminsAndAudited(t *testing.T) {
	w := newWorld(t)
	owner := authz.Actor{Kind: authz.UserActor, User: "user-2", Roles: map[ids.Organization]authz.Role{org: authz.Owner}}
	calls := map[string]func(actor authz.Actor) error{
		"":                        func(a authz.Actor) error { _, err := w.Controls(ctx, a); return err },
		"launch-controls.set":     func(a authz.Actor) error { _, err := w.SetControls(ctx, a, gates.Controls{}); return err },
		"organization.suspended":  func(a authz.Actor) error { _, err := w.SetSuspension(ctx, a, "acme", true, "r"); return err },
		"organization.resumed":    func(a authz.Actor) error { _, err := w.SetSuspension(ctx, a, "acme", false, ""); return err },
		"organization.region-set": func(a authz.Actor) error { _, err := w.SetRegion(ctx, a, "acme", "eu"); return err },
		"releases.set":            func(a authz.Actor) error { _, err := w.SetReleases(ctx, a, gates.Runner, nil); return err },
	}
	written := func() (actions []string) {
		require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) (err error) {
			actions, err = postgres.Values[string](ctx, tx, "select action from audit_entries where actor_id = 'user-1'", nil)
			return err
		}))
		return actions
	}
	var want []string
	for action, call := range calls {
		wantFault(t, call(owner), fault.NotFound, "not_found")
		require.NoError(t, call(admin), action)
		if action != "" {
			want = append(want, action)
		}
	}
	assert.ElementsMatch(t, want, written())
	_, err := w.Standing(ctx, owner, "acme")
	wantFault(t, err, fault.NotFound, "not_found")
	_, err = w.Releases(ctx, owner, gates.Runner)
	wantFault(t, err, fault.NotFound, "not_found")
	_, err = w.SetSuspension(ctx, admin, "nobody", true, "")
	wantFault(t, err, fault.NotFound, "not_found")
}
