package site_test

import (
	"context"
	"crypto"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/internal/testdb"
	"github.com/holdfast-run/holdfast/postgres"
	"github.com/holdfast-run/holdfast/site"
)

var system = authz.System()

func newSite(t *testing.T) (*postgres.DB, *site.Service) {
	t.Helper()
	db := testdb.New(t)
	return db, site.New(db)
}

func ptr[T any](v T) *T { return &v }

// entry makes an entry of the catalogue with one build.
func entry(t *testing.T, s *site.Service, tool site.Tool, version string, c site.ToolVersionChanges) site.ToolVersion {
	t.Helper()
	c.Version, c.URL, c.Sha = &version, ptr("https://example.com/tool.zip"), ptr(strings.Repeat("ab", 32))
	v, err := s.CreateToolVersion(t.Context(), system, tool, c)
	require.NoError(t, err)
	return v
}

// choose asks whether the version may be chosen where before is what was chosen.
func choose(t *testing.T, db *postgres.DB, version, before string) error {
	t.Helper()
	return postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) error {
		return site.CheckChoice(t.Context(), tx, site.Terraform, "terraform-version", version, before)
	})
}

// TestTheCatalogueDecides: a disabled version is chosen by nobody, a deprecated one not anew,
// and one that nobody has decided about by anybody.
func TestTheCatalogueDecides(t *testing.T) {
	db, s := newSite(t)
	require.NoError(t, choose(t, db, "9.9.9", ""), "nobody has decided about it")
	v := entry(t, s, site.Terraform, "9.9.9", site.ToolVersionChanges{})
	require.NoError(t, choose(t, db, "9.9.9", ""))
	_, err := s.UpdateToolVersion(t.Context(), system, site.Terraform, v.ID, site.ToolVersionChanges{Deprecated: ptr(true), DeprecatedReason: ptr("Use 10.")})
	require.NoError(t, err)
	err = choose(t, db, "9.9.9", "9.9.8")
	require.ErrorContains(t, err, "deprecated on this site, so it is not chosen anew. Use 10.")
	require.NoError(t, choose(t, db, "9.9.9", "9.9.9"), "who has it keeps it")
	_, err = s.UpdateToolVersion(t.Context(), system, site.Terraform, v.ID, site.ToolVersionChanges{Enabled: ptr(false), Deprecated: ptr(false)})
	require.NoError(t, err)
	require.ErrorContains(t, choose(t, db, "9.9.9", "9.9.9"), "Version 9.9.9 is disabled on this site.")
	require.NoError(t, s.DeleteToolVersion(t.Context(), system, site.Terraform, v.ID))
	require.NoError(t, choose(t, db, "9.9.9", ""), "what was decided goes with the entry")
}

func TestLatestIsNeitherBetaNorDeprecated(t *testing.T) {
	db, s := newSite(t)
	entry(t, s, site.Terraform, "9.3.0", site.ToolVersionChanges{Beta: ptr(true)})
	entry(t, s, site.Terraform, "9.2.0", site.ToolVersionChanges{Deprecated: ptr(true)})
	entry(t, s, site.Terraform, "9.1.0", site.ToolVersionChanges{Enabled: ptr(false)})
	usable := func(versions ...string) (u site.Usable) {
		require.NoError(t, postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) (err error) {
			u, err = site.UsableVersions(t.Context(), tx, site.Terraform, versions)
			return err
		}))
		return u
	}
	assert.Equal(t, site.Usable{Exact: []string{"9.3.0", "9.2.0", "9.0.0"}, Default: []string{"9.0.0"}}, usable("9.3.0", "9.2.0", "9.1.0", "9.0.0"))
	assert.Equal(t, []string{"9.3.0", "9.2.0"}, usable("9.3.0", "9.2.0", "9.1.0").Default, "there is no other")
	assert.Empty(t, usable("9.1.0").Exact)
}

// TestABuildIsTheVersionsOwn: url and sha are those of linux on amd64, whichever way they are said.
func TestABuildIsTheVersionsOwn(t *testing.T) {
	_, s := newSite(t)
	sha, other := strings.Repeat("ab", 32), strings.Repeat("cd", 32)
	v, err := s.CreateToolVersion(t.Context(), system, site.OPA, site.ToolVersionChanges{Version: ptr("9.0.0"), Archs: &[]site.Arch{
		{URL: "https://example.com/arm", Sha: sha, OS: "linux", Arch: "arm64"}, {URL: "https://example.com/amd", Sha: other, OS: "linux", Arch: "amd64"},
	}})
	require.NoError(t, err)
	assert.Equal(t, "https://example.com/amd", v.Build().URL)
	v, err = s.UpdateToolVersion(t.Context(), system, site.OPA, v.ID, site.ToolVersionChanges{URL: ptr("https://example.com/new")})
	require.NoError(t, err)
	assert.Equal(t, []site.Arch{{URL: "https://example.com/new", Sha: other, OS: "linux", Arch: "amd64"}}, v.Archs)
	for name, c := range map[string]site.ToolVersionChanges{
		"another system": {Archs: &[]site.Arch{{URL: "https://example.com", Sha: sha, OS: "plan9", Arch: "amd64"}}}, "no address": {URL: ptr("file:///etc/passwd")},
		"a short sha": {Sha: ptr("abc")}, "a range": {Version: ptr("~> 1.0")}, "a name in use": {Version: ptr("0.59.0")},
	} {
		_, err := s.UpdateToolVersion(t.Context(), system, site.OPA, v.ID, c)
		assert.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	_, err = s.CreateToolVersion(t.Context(), system, site.OPA, site.ToolVersionChanges{Version: ptr("9.0.1")})
	require.ErrorContains(t, err, "Say where its builds are")
	_, err = s.ToolVersion(t.Context(), system, site.Terraform, v.ID)
	assert.True(t, fault.Is(err, fault.NotFound), "it is not of this tool")
}

func TestWhatARunnerBringsIsInTheCatalogue(t *testing.T) {
	db, s := newSite(t)
	_, _, err := accounts.New(db, nil).CreateRunnerGroup(t.Context(), system, "", "local")
	require.NoError(t, err)
	require.NoError(t, postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) error {
		_, err := postgres.Exec(t.Context(), tx, "insert into runner_group_versions (group_id, version) select id, '9.8.7-rc1' from runner_groups", nil)
		return err
	}))
	list, total, err := s.ToolVersions(t.Context(), system, site.Terraform, site.ToolVersionFilter{Search: "9.8.7"})
	require.NoError(t, err)
	require.Equal(t, 1, total)
	assert.Equal(t, "9.8.7-rc1", list[0].Version)
	assert.True(t, list[0].Enabled)
	_, err = s.UpdateToolVersion(t.Context(), system, site.Terraform, list[0].ID, site.ToolVersionChanges{Enabled: ptr(false)})
	require.NoError(t, err, "it can be decided about")
	list, total, err = s.ToolVersions(t.Context(), system, site.Terraform, site.ToolVersionFilter{Page: accounts.Page{Number: 1, Size: 2}})
	require.NoError(t, err)
	assert.Equal(t, []string{"9.8.7-rc1", "1.5.7"}, []string{list[0].Version, list[1].Version}, "the newest first")
	assert.Greater(t, total, 50)
}

func TestOnlySiteAdminsDecide(t *testing.T) {
	db, s := newSite(t)
	eve := authz.Actor{Kind: authz.UserActor, User: "user-eve"}
	identity := site.NewIdentity(db, nil)
	for name, do := range map[string]func(context.Context) error{
		"settings": func(ctx context.Context) error { _, err := s.Settings(ctx, eve); return err },
		"update":   func(ctx context.Context) error { _, err := s.Update(ctx, eve, site.SettingsChanges{}); return err },
		"versions": func(ctx context.Context) error {
			_, _, err := s.ToolVersions(ctx, eve, site.OPA, site.ToolVersionFilter{})
			return err
		},
		"version": func(ctx context.Context) error { _, err := s.ToolVersion(ctx, eve, site.OPA, "tool-1"); return err },
		"new": func(ctx context.Context) error {
			_, err := s.CreateToolVersion(ctx, eve, site.OPA, site.ToolVersionChanges{})
			return err
		},
		"other": func(ctx context.Context) error {
			_, err := s.UpdateToolVersion(ctx, eve, site.OPA, "tool-1", site.ToolVersionChanges{})
			return err
		},
		"without it": func(ctx context.Context) error { return s.DeleteToolVersion(ctx, eve, site.OPA, "tool-1") },
		"rotate":     func(ctx context.Context) error { return identity.Rotate(ctx, eve) },
		"trim":       func(ctx context.Context) error { return identity.Trim(ctx, eve) },
	} {
		err := do(t.Context())
		assert.True(t, fault.Is(err, fault.NotFound) && strings.Contains(err.Error(), "It is for site admins"), "%s: %v", name, err)
	}
	_, err := s.Update(t.Context(), system, site.SettingsChanges{Footer: ptr("hello"), APIRateLimit: ptr(50), PlanTimeout: ptr(time.Hour)})
	require.NoError(t, err)
	require.NoError(t, postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) error {
		said, err := postgres.Value[string](t.Context(), tx, "select details::text from audit_entries where action = 'site-settings.updated'", nil)
		assert.JSONEq(t, `{"footer":"hello","api_rate_limit":50,"plan_timeout_seconds":3600}`, said, "what was said, and nothing else")
		return err
	}))
}

func TestSettingsHaveBounds(t *testing.T) {
	_, s := newSite(t)
	before, err := s.Settings(t.Context(), system)
	require.NoError(t, err)
	assert.True(t, before.LimitUserOrganizationCreation)
	assert.Equal(t, 3*time.Hour+50*time.Minute, before.PlanTimeout())
	for name, c := range map[string]site.SettingsChanges{
		"no requests": {APIRateLimit: ptr(0)}, "a short plan": {PlanTimeout: ptr(time.Second)}, "a long apply": {ApplyTimeout: ptr(1000 * time.Hour)},
		"a negative ceiling": {WorkspacesPerOrganization: ptr(-1)}, "a long footer": {Footer: ptr(strings.Repeat("x", 5000))}, "no address": {SupportEmail: ptr("help")},
	} {
		_, err := s.Update(t.Context(), system, c)
		assert.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
	}
	after, err := s.Settings(t.Context(), system)
	require.NoError(t, err)
	assert.Equal(t, before, after)
}

// verify checks a token as a cloud would, and gives its claims.
func verify(t *testing.T, token string, keys []site.PublicKey) (claims map[string]any, ok bool) {
	t.Helper()
	parts := strings.Split(token, ".")
	require.Len(t, parts, 3)
	decode := func(text string) []byte {
		raw, err := base64.RawURLEncoding.DecodeString(text)
		require.NoError(t, err)
		return raw
	}
	var header struct{ Alg, Kid string }
	require.NoError(t, json.Unmarshal(decode(parts[0]), &header))
	require.NoError(t, json.Unmarshal(decode(parts[1]), &claims))
	assert.Equal(t, "RS256", header.Alg)
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	for _, k := range keys {
		public := &rsa.PublicKey{N: new(big.Int).SetBytes(decode(k.N)), E: int(new(big.Int).SetBytes(decode(k.E)).Int64())}
		if k.Kid == header.Kid && rsa.VerifyPKCS1v15(public, crypto.SHA256, sum[:], decode(parts[2])) == nil {
			return claims, true
		}
	}
	return claims, false
}

// TestTokensAreCheckedWithThePublishedKeys: through a rotation, and not after a trim.
func TestTokensAreCheckedWithThePublishedKeys(t *testing.T) {
	db := testdb.New(t)
	path := t.TempDir() + "/keyring"
	require.NoError(t, envelope.CreateKeyring(path))
	ring, err := envelope.OpenKeyring(path)
	require.NoError(t, err)
	identity := site.NewIdentity(db, artifacts.New(db, nil, ring))
	identity.IssueAs("https://holdfast.test")
	published := func() []site.PublicKey {
		keys, err := identity.PublicKeys(t.Context())
		require.NoError(t, err)
		return keys
	}
	assert.Empty(t, published())
	ends := clock.Now().Add(time.Hour)
	said := site.Claims{Audience: "aws", OrganizationName: "acme", ProjectName: "Default Project", WorkspaceName: "app", RunID: "run-1", Phase: "apply", ExpiresAt: ends}
	first, err := identity.Token(t.Context(), said)
	require.NoError(t, err)
	claims, ok := verify(t, first, published())
	require.True(t, ok)
	assert.Equal(t, "organization:acme:project:Default Project:workspace:app:run_phase:apply", claims["sub"])
	assert.Equal(t, "aws", claims["aud"])
	assert.Equal(t, "https://holdfast.test", claims["iss"])
	assert.InDelta(t, ends.Unix(), claims["exp"], 0)
	assert.InDelta(t, clock.Now().Add(-2*time.Minute).Unix(), claims["nbf"], 30, "who checks it may have a clock that is behind this one (case 127)")
	assert.InDelta(t, clock.Now().Unix(), claims["iat"], 30)
	require.NoError(t, identity.Rotate(t.Context(), system))
	require.Len(t, published(), 2)
	_, ok = verify(t, first, published())
	assert.True(t, ok, "the key before is still published")
	second, err := identity.Token(t.Context(), said)
	require.NoError(t, err)
	require.NoError(t, identity.Trim(t.Context(), system))
	require.Len(t, published(), 1)
	_, ok = verify(t, second, published())
	assert.True(t, ok, "the newest signs")
	_, ok = verify(t, first, published())
	assert.False(t, ok)
	require.NoError(t, postgres.InTx(t.Context(), db, "test", func(tx postgres.Tx) error {
		sealed, err := postgres.Value[[]byte](t.Context(), tx, "select private_sealed from signing_keys", nil)
		assert.NotContains(t, string(sealed), "RSA")
		return err
	}))
}
