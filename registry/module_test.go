package registry

import (
	"bytes"
	"io"
	"math/rand"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/fault"
)

func TestPrecedenceSortsInTheDatabaseAsSemverSays(t *testing.T) {
	w := newWorld(t)
	w.module()
	ascending := []string{ // semver 2.0.0, 11, and the numbers that texts get wrong
		"0.9.0", "1.0.0-0", "1.0.0-2", "1.0.0-10", "1.0.0--", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-alpha-1", "1.0.0-beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0",
		"1.0.1", "1.2.0", "1.10.0", "2.0.0", "10.0.0", "100000000000000000000.0.0",
	}
	for _, i := range rand.New(rand.NewSource(1)).Perm(len(ascending)) {
		w.version(ascending[i], targz(t, map[string]string{"main.tf": ""}))
	}
	newestFirst, err := w.InstallableVersions(ctx, w.bob, "acme", "vpc", "aws")
	require.NoError(t, err)
	require.Len(t, newestFirst, len(ascending))
	for i, version := range ascending {
		assert.Equal(t, version, newestFirst[len(ascending)-1-i])
	}
	for _, wrong := range []string{"", "1", "1.2", "v1.2.3", "1.2.3.4", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3+", "1.2.3 ", "1.2.3-é", "1.2.3-" + strings.Repeat("x", maxVersion)} {
		_, err := w.CreateModuleVersion(ctx, w.ada, "acme", vpc, wrong, "")
		assert.True(t, fault.HasCode(err, "invalid_attribute"), "%q: %v", wrong, err)
	}
	_, err = w.CreateModuleVersion(ctx, w.ada, "acme", vpc, "1.2.3-alpha+feature.7", "")
	require.NoError(t, err)
	_, err = w.CreateModuleVersion(ctx, w.ada, "acme", vpc, "1.0.0", "")
	assert.ErrorContains(t, err, "Version has already been taken")
}

func TestAVersionThatWasInstalledDoesNotChange(t *testing.T) {
	w := newWorld(t)
	w.module()
	first, second, third := targz(t, map[string]string{"main.tf": "# 1"}), targz(t, map[string]string{"main.tf": "# 2"}), targz(t, map[string]string{"main.tf": "# 3"})
	v := w.version("1.0.0", first)
	require.NoError(t, w.UploadModule(ctx, v.ID, bytes.NewReader(second)), "nobody has it yet")
	assert.Equal(t, 1, w.stored(artifacts.KindModule), "what was replaced is given up")

	installed, err := w.Install(ctx, w.bob, "acme", "vpc", "aws", "1.0.0")
	require.NoError(t, err)
	assert.Equal(t, v.ID, installed.ID)
	err = w.UploadModule(ctx, v.ID, bytes.NewReader(third))
	assert.True(t, fault.HasCode(err, "module_version_installed"), "%v", err)
	require.NoError(t, w.UploadModule(ctx, v.ID, bytes.NewReader(second)), "the repeat of an upload")
	assert.Equal(t, 1, w.stored(artifacts.KindModule))

	body, size, err := w.OpenModule(ctx, v.ID)
	require.NoError(t, err)
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, second, content)
	assert.Equal(t, int64(len(second)), size)
	again, err := w.ModuleVersionAt(ctx, w.ada, "acme", vpc, "1.0.0")
	require.NoError(t, err)
	assert.False(t, again.Replaceable())
}

func TestHostileArchivesAreRefused(t *testing.T) {
	w := newWorld(t)
	w.module()
	v := w.version("1.0.0", nil)
	for name, c := range map[string]struct {
		content []byte
		code    string
	}{
		"outside":    {targz(t, map[string]string{"../evil.tf": ""}), "archive_refused"},
		"absolute":   {targz(t, map[string]string{"/etc/passwd": ""}), "archive_refused"},
		"no archive": {[]byte("hello"), "archive_refused"},
		"empty":      {nil, "archive_refused"},
		"cut off":    {targz(t, map[string]string{"main.tf": "x"})[:40], "archive_refused"},
		"too large":  {targz(t, map[string]string{"main.tf": randomText(20_000)}), "artifact_too_large"},
	} {
		err := w.UploadModule(ctx, v.ID, bytes.NewReader(c.content))
		assert.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
	}
	m, err := w.ModuleAt(ctx, w.bob, "acme", vpc)
	require.NoError(t, err)
	statuses, err := m.VersionStatuses()
	require.NoError(t, err)
	require.Len(t, statuses, 1)
	assert.Equal(t, VersionFailed, statuses[0].Status)
	assert.NotEmpty(t, statuses[0].Error)
	_ = w.UploadModule(ctx, v.ID, bytes.NewReader(targz(t, map[string]string{`../"quoted"`: ""}))) // and with what JSON escapes
	m, err = w.ModuleAt(ctx, w.bob, "acme", vpc)
	require.NoError(t, err)
	statuses, err = m.VersionStatuses()
	require.NoError(t, err)
	require.Len(t, statuses, 1)
	assert.Zero(t, w.stored(artifacts.KindModule))
	_, err = w.InstallableVersions(ctx, w.bob, "acme", "vpc", "aws")
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, err = w.Install(ctx, w.bob, "acme", "vpc", "aws", "1.0.0")
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)

	require.NoError(t, w.UploadModule(ctx, v.ID, bytes.NewReader(targz(t, map[string]string{"main.tf": ""}))), "another may come")
	assert.Error(t, w.UploadModule(ctx, v.ID, strings.NewReader("hello")))
	after, err := w.ModuleVersionAt(ctx, w.bob, "acme", vpc, "1.0.0")
	require.NoError(t, err)
	assert.Equal(t, VersionOK, after.Status, "it keeps the archive that it has")
}

func randomText(n int) string {
	source, text := rand.New(rand.NewSource(2)), make([]byte, n)
	for i := range text {
		text[i] = byte('a' + source.Intn(26))
	}
	return string(text)
}

func TestDeletingModulesGivesTheirBytesUp(t *testing.T) {
	w := newWorld(t)
	w.module()
	content := targz(t, map[string]string{"main.tf": ""})
	v := w.version("1.0.0", content)
	w.version("1.1.0", targz(t, map[string]string{"main.tf": "# 1.1"}))
	w.version("1.2.0", nil)
	require.NoError(t, w.DeleteModuleVersion(ctx, w.ada, "acme", vpc, "1.0.0"))
	assert.Equal(t, 1, w.stored(artifacts.KindModule))
	assert.True(t, fault.Is(w.UploadModule(ctx, v.ID, bytes.NewReader(content)), fault.NotFound))
	_, _, err := w.OpenModule(ctx, v.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	assert.True(t, fault.Is(w.DeleteModuleVersion(ctx, w.ada, "acme", vpc, "1.0.0"), fault.NotFound))

	require.NoError(t, w.DeleteModuleVersion(ctx, w.ada, "acme", vpc, "1.1.0"))
	require.NoError(t, w.DeleteModuleVersion(ctx, w.ada, "acme", vpc, "1.2.0"), "one without bytes")
	_, err = w.ModuleAt(ctx, w.ada, "acme", vpc)
	assert.True(t, fault.Is(err, fault.NotFound), "the module goes with its last version: %v", err)

	w.module()
	w.version("1.0.0", content)
	for _, n := range []NewModule{{Name: "vpc", Provider: "google"}, {Registry: Public, Namespace: "terraform-aws-modules", Name: "vpc", Provider: "aws"}, {Name: "other", Provider: "aws"}} {
		_, err := w.CreateModule(ctx, w.ada, "acme", n)
		require.NoError(t, err)
	}
	require.NoError(t, w.DeleteModules(ctx, w.ada, "acme", ModuleAddress{Private, "acme", "vpc", ""}))
	assert.Zero(t, w.stored(artifacts.KindModule))
	left, total, err := w.Modules(ctx, w.ada, "acme", ModuleFilter{Page: Page{Limit: 10}})
	require.NoError(t, err)
	assert.Equal(t, 2, total)
	assert.Equal(t, []string{"other", "vpc"}, []string{left[0].Name, left[1].Name})
	assert.Equal(t, Public, left[1].Registry)
	require.NoError(t, w.DeleteModules(ctx, w.ada, "acme", ModuleAddress{Name: "vpc"}), "of whatever registry")
	assert.True(t, fault.Is(w.DeleteModules(ctx, w.ada, "acme", ModuleAddress{Name: "vpc"}), fault.NotFound))
}

func TestWhoSeesAndPublishesModules(t *testing.T) {
	w := newWorld(t)
	m := w.module()
	v := w.version("1.0.0", targz(t, map[string]string{"main.tf": ""}))

	for name, do := range map[string]func() error{
		"create": func() error {
			_, err := w.CreateModule(ctx, w.bob, "acme", NewModule{Name: "b", Provider: "aws"})
			return err
		},
		"version": func() error { _, err := w.CreateModuleVersion(ctx, w.bob, "acme", vpc, "2.0.0", ""); return err },
		"update":  func() error { _, err := w.UpdateModule(ctx, w.bob, "acme", vpc, ModuleChanges{}); return err },
		"delete":  func() error { return w.DeleteModules(ctx, w.bob, "acme", vpc) },
		"unmake":  func() error { return w.DeleteModuleVersion(ctx, w.bob, "acme", vpc, "1.0.0") },
	} {
		assert.True(t, fault.Is(do(), fault.Forbidden), "a member may not %s: %v", name, do())
	}
	_, err := w.Module(ctx, w.bob, m.ID)
	require.NoError(t, err)

	_, err = w.ModuleAt(ctx, w.bob, "acme", ModuleAddress{Private, "rival", "vpc", "aws"})
	assert.True(t, fault.Is(err, fault.NotFound), "its namespace is the organization's name: %v", err)

	_, foreign := w.Module(ctx, w.eve, m.ID)
	_, unknown := w.Module(ctx, w.eve, m.ID[:len(m.ID)-1]+"_")
	assert.Equal(t, fault.KindOf(unknown), fault.KindOf(foreign))
	assert.True(t, fault.Is(foreign, fault.NotFound), "%v", foreign)
	for name, do := range map[string]func() error{
		"read":     func() error { _, err := w.ModuleAt(ctx, w.eve, "acme", vpc); return err },
		"by hers":  func() error { _, err := w.ModuleAt(ctx, w.eve, "rival", vpc); return err },
		"list":     func() error { _, _, err := w.Modules(ctx, w.eve, "acme", ModuleFilter{}); return err },
		"versions": func() error { _, err := w.InstallableVersions(ctx, w.eve, "acme", "vpc", "aws"); return err },
		"install":  func() error { _, err := w.Install(ctx, w.eve, "acme", "vpc", "aws", "1.0.0"); return err },
		"a run":    func() error { _, err := w.Install(ctx, attempt(w.rival.ID), "acme", "vpc", "aws", "1.0.0"); return err },
		"bindings": func() error { _, err := w.ModuleBindings(ctx, w.eve, m.ID); return err },
	} {
		assert.True(t, fault.Is(do(), fault.NotFound), "a stranger may not %s: %v", name, do())
	}
	installed, err := w.Install(ctx, attempt(w.acme.ID), "acme", "vpc", "aws", "1.0.0")
	require.NoError(t, err, "a run of the organization installs")
	assert.Equal(t, v.ID, installed.ID)
}

func TestBindingsOfAModuleAreReplaced(t *testing.T) {
	w := newWorld(t)
	m := w.module()
	set := func(pairs ...TagBinding) error {
		_, err := w.UpdateModule(ctx, w.ada, "acme", vpc, ModuleChanges{Bindings: &pairs})
		return err
	}
	has := func() (found []string) {
		pairs, err := w.ModuleBindings(ctx, w.bob, m.ID)
		require.NoError(t, err)
		for _, b := range pairs {
			found = append(found, b.Key+"="+b.Value)
		}
		return found
	}
	require.NoError(t, set(TagBinding{Key: "env", Value: "prod"}, TagBinding{Key: "a"}))
	assert.Equal(t, []string{"a=", "env=prod"}, has())
	assert.Error(t, set(TagBinding{Key: "x"}, TagBinding{Key: "x"}))
	assert.Error(t, set(TagBinding{}))
	assert.Equal(t, []string{"a=", "env=prod"}, has())
	on := true
	changed, err := w.UpdateModule(ctx, w.ada, "acme", vpc, ModuleChanges{NoCode: &on})
	require.NoError(t, err)
	assert.True(t, changed.NoCode)
	assert.Equal(t, []string{"a=", "env=prod"}, has(), "what is not said stays")
	require.NoError(t, set())
	assert.Empty(t, has())
}
