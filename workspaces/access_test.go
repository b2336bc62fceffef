package workspaces

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
)

func said[T any](v T) *T { return &v }

// Each word of each part, and each flag, is stored as levels that give its action and
// read back as the same word.
func TestAnAccessIsReadBackFromItsLevels(t *testing.T) {
	t.Parallel()
	for _, p := range []place{inWorkspace, inProject} {
		for _, fixed := range p.fixed {
			levels, err := p.levels(Access{}, AccessChanges{Level: &fixed})
			require.NoError(t, err)
			assert.Equal(t, fixed, p.access(levels).Level)
		}
		for _, part := range parts {
			if !p.has(part.onlyProject) {
				continue
			}
			for i, word := range part.words {
				var a Access
				a.Level = custom
				*part.of(&a) = word
				levels, err := p.levels(a, AccessChanges{})
				require.NoError(t, err)
				back := p.access(levels)
				assert.Equal(t, custom, back.Level)
				assert.Equal(t, word, *part.of(&back), "%s%s", p.prefix, part.name)
				if action := part.actions[i]; action != "" {
					assert.True(t, part.levels[i].Gives(action), "%s", part.levels[i])
				}
			}
		}
		for _, f := range flags {
			if !p.has(f.onlyProject) {
				continue
			}
			a := Access{Level: custom}
			*f.of(&a) = true
			levels, err := p.levels(a, AccessChanges{})
			require.NoError(t, err)
			back := p.access(levels)
			assert.True(t, *f.of(&back), f.name)
			for _, other := range flags {
				if other.name != f.name {
					assert.False(t, *other.of(&back), "%s is not %s", other.name, f.name)
				}
			}
		}
	}
}

// Every level that can be stored has a row, and gives nothing of the organization's own.
func TestStoredLevelsAreOfTheirPlace(t *testing.T) {
	t.Parallel()
	stored := []authz.Level{}
	for _, p := range []place{inWorkspace, inProject} {
		for _, fixed := range p.fixed {
			stored = append(stored, authz.Level(p.prefix+fixed))
		}
	}
	for _, part := range parts {
		stored = append(stored, part.levels...)
	}
	for _, f := range flags {
		stored = append(stored, f.level)
	}
	for _, level := range stored {
		if level == "" {
			continue
		}
		assert.Contains(t, authz.Levels(), level)
		for _, action := range []authz.Action{authz.OrganizationUpdate, authz.OrganizationDelete, authz.OrganizationTokens, authz.MembershipManage, authz.TeamsManage, authz.TeamsAccess, authz.ProjectCreate} {
			assert.False(t, level.Gives(action), "%s gives %s", level, action)
		}
	}
}

func TestWhatAnAccessCannotBe(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]AccessChanges{
		"blank":               {},
		"unknown":             {Level: said("king")},
		"maintain":            {Level: said("maintain")}, // is of projects
		"unknown word":        {Level: said(custom), Runs: said("all")},
		"part beside a fixed": {Level: said("read"), Variables: said("write")},
		"flag beside a fixed": {Level: said("read"), Locking: said(true)},
	} {
		_, err := inWorkspace.levels(Access{}, c)
		assert.Error(t, err, name)
	}
	levels, err := inWorkspace.levels(Access{}, AccessChanges{Level: said("read"), Variables: said("read"), Locking: said(false)})
	require.NoError(t, err, "what the level means anyway may be said")
	assert.Equal(t, []authz.Level{"workspace:read"}, levels)

	admin := inWorkspace.access([]authz.Level{"workspace:admin"})
	levels, err = inWorkspace.levels(admin, AccessChanges{Level: said(custom)})
	require.NoError(t, err)
	back := inWorkspace.access(levels)
	assert.Equal(t, "apply", back.Runs)
	assert.False(t, back.RunRecover, "a client that does not know of it does not leave it behind")
	assert.False(t, back.StateRecover)
}
