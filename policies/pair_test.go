package policies

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/policies/evaluator"
	"github.com/holdfast-run/holdfast/postgres"
)

// inForce gives the pairs of query and content of the version of a set that is in force.
func (w *world) inForce(id ids.PolicySet) (pairs []string) {
	w.Helper()
	set, err := w.Set(ctx, w.owner, id)
	require.NoError(w, err)
	require.NoError(w, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
		v, err := loadVersion(ctx, tx, set.CurrentVersion)
		if err != nil {
			return err
		}
		encoded, err := w.objects.OpenValue(ctx, tx, v.Organization, bundleLabel(v.ID), v.BundleSealed)
		if err != nil {
			return err
		}
		var b evaluator.Bundle
		err = json.Unmarshal(encoded, &b)
		for i, p := range b.Policies {
			pairs = append(pairs, p.Query+" of "+b.Modules[i].Content)
		}
		return err
	}))
	return pairs
}

// moves is a policy of a package, which forbids nothing.
func moves(name string) string { return fmt.Sprintf("package %s\n\ndeny := []\n", name) }

// TestAQueryWaitsForContentThatAnswersIt: query and content are judged by together, before and
// after, and never one of the old with one of the new.
func TestAQueryWaitsForContentThatAnswersIt(t *testing.T) {
	w := newWorld(t)
	ws := w.workspace("")
	p := w.policy(moves("p"))
	set := w.set(NewSet{Global: true, Members: members(Policies, p.ID)})
	before := w.inForce(set.ID)
	assert.Equal(t, []string{"data.p.deny of " + moves("p")}, before)
	_, scope := w.inScope(ws)
	ask := func(query string) Policy {
		t.Helper()
		p, err := w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Query: &query})
		require.NoError(t, err)
		return p
	}

	waits := ask("data.q.deny")
	assert.Equal(t, []string{"data.q.deny", "data.p.deny"}, []string{waits.Wanted(), waits.InForce()})
	assert.Equal(t, before, w.inForce(set.ID))
	err := w.UploadPolicy(ctx, w.owner, p.ID, []byte(moves("p")+"\nx := 1\n"))
	wantCode(t, err, fault.Invalid, "policy_refused")
	assert.ErrorContains(t, err, "awaits content that answers the query data.q.deny")
	assert.ErrorContains(t, err, "set the query back to data.p.deny")
	level, text := "mandatory", "for people"
	_, err = w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Level: &level, Description: &text})
	require.NoError(t, err, "what is said of other things leaves it waiting")
	read, err := w.Policy(ctx, w.member, p.ID)
	require.NoError(t, err)
	assert.Equal(t, "data.q.deny", read.Wanted())

	other := w.set(NewSet{Members: members(Policies, p.ID)})
	assert.Equal(t, before[0], w.inForce(other.ID)[0], "a set that gets it meanwhile gets the pair in force")

	back := ask("data.p.deny")
	assert.Equal(t, []string{"data.p.deny", "data.p.deny", ""}, []string{back.Wanted(), back.InForce(), back.Awaited}, "the query in force drops what waits")
	require.NoError(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte(moves("p"))))
	_, now := w.inScope(ws)
	assert.NotEqual(t, scope, now, "the description went into the version")
	scope = now

	ask("data.r.deny")
	ask("data.q.deny")
	_, now = w.inScope(ws)
	assert.Equal(t, scope, now, "what waits is no change for whoever approved")
	require.NoError(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte(moves("q"))), "the last that was said counts")
	assert.Equal(t, []string{"data.q.deny of " + moves("q")}, w.inForce(set.ID))
	assert.Equal(t, w.inForce(set.ID), w.inForce(other.ID))
	_, now = w.inScope(ws)
	assert.NotEqual(t, scope, now)
	read, err = w.Policy(ctx, w.member, p.ID)
	require.NoError(t, err)
	assert.Equal(t, []string{"data.q.deny", "data.q.deny", ""}, []string{read.Wanted(), read.InForce(), read.Awaited})
	wantCode(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte(moves("p"))), fault.Invalid, "policy_refused")
}

// TestAQueryThatTheContentAnswersIsInForceAtOnce: and one without content is only kept.
func TestAQueryThatTheContentAnswersIsInForceAtOnce(t *testing.T) {
	w := newWorld(t)
	p := w.policy("")
	query := "data.p.warn"
	said, err := w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Query: &query})
	require.NoError(t, err)
	assert.Equal(t, []string{query, "", ""}, []string{said.Wanted(), said.InForce(), said.Awaited})
	require.NoError(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte(moves("p")+"\nwarn := []\n")))
	set := w.set(NewSet{Members: members(Policies, p.ID)})
	query = "data.p.deny"
	said, err = w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Query: &query})
	require.NoError(t, err)
	assert.Equal(t, query, said.InForce())
	assert.Contains(t, w.inForce(set.ID)[0], "data.p.deny of ")
	empty := ""
	_, err = w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Query: &empty})
	wantCode(t, err, fault.Invalid, "invalid_attribute")
}

// TestTheAuditLogHasBothQueries: the one in force and the one that waits.
func TestTheAuditLogHasBothQueries(t *testing.T) {
	w := newWorld(t)
	p := w.policy(allows)
	query := "data.q.deny"
	_, err := w.UpdatePolicy(ctx, w.owner, p.ID, PolicyChanges{Query: &query})
	require.NoError(t, err)
	require.NoError(t, w.UploadPolicy(ctx, w.owner, p.ID, []byte(moves("q"))))
	require.NoError(t, postgres.InSnapshot(ctx, w.db, "test", func(tx postgres.Tx) error {
		said, err := postgres.Values[string](ctx, tx,
			"select concat_ws(' ', action, details->>'query', details->>'query_awaited') from audit_entries where object_id = @id and action <> 'policy.created' order by at", postgres.Args{"id": p.ID})
		assert.Equal(t, []string{"policy.uploaded data.p.deny", "policy.updated data.p.deny data.q.deny", "policy.uploaded data.q.deny"}, said)
		return err
	}))
}
