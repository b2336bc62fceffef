package registry

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

func TestAProviderIsInstallableOnlyWhenItIsSignedAndWhole(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	notYet := func(why string) {
		t.Helper()
		_, err := w.InstallableProvider(ctx, w.bob, "acme", "cloud")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", why, err)
		_, err = w.Package(ctx, w.bob, "acme", "cloud", "1.0.0", "linux", "amd64")
		assert.True(t, fault.Is(err, fault.NotFound), "%s: %v", why, err)
	}
	notYet("nothing was uploaded")
	require.NoError(t, r.uploadPackage(r.zip))
	notYet("there are no checksums")
	require.NoError(t, r.uploadShasums(r.shasums))
	notYet("they are not signed")
	require.NoError(t, r.uploadSignature(r.signature))

	found, err := w.Package(ctx, w.bob, "acme", "cloud", "1.0.0", "linux", "amd64")
	require.NoError(t, err)
	assert.Equal(t, r.signer.keyID, found.Key.KeyID)
	assert.Equal(t, r.signer.public, found.Key.ASCIIArmor)
	body, size, err := w.OpenPackage(ctx, found.Platform.ID)
	require.NoError(t, err)
	content, err := io.ReadAll(body)
	require.NoError(t, err)
	assert.Equal(t, r.zip, content)
	assert.Equal(t, int64(len(r.zip)), size)
	shasums, err := w.Shasums(ctx, found.Version.ID)
	require.NoError(t, err)
	assert.Equal(t, r.shasums, string(shasums))
	signature, err := w.Signature(ctx, found.Version.ID)
	require.NoError(t, err)
	assert.Equal(t, r.signature, signature)
	versions, err := w.InstallableProvider(ctx, attempt(w.acme.ID), "acme", "cloud")
	require.NoError(t, err)
	assert.Equal(t, []InstallableVersion{{"1.0.0", []string{"5.0"}, []string{"linux/amd64"}}}, versions)

	require.NoError(t, w.DeletePlatform(ctx, w.ada, "acme", cloud, "1.0.0", "linux", "amd64"))
	notYet("the package is gone")
	assert.Zero(t, w.stored(artifacts.KindProviderPackage))
}

func TestVersionsOfAProviderAreListedTheNewestFirst(t *testing.T) {
	w := newWorld(t)
	p, err := w.CreateProvider(ctx, w.ada, "acme", cloud)
	require.NoError(t, err)
	byVersion := map[string]ids.RegistryProviderVersion{}
	for _, version := range []string{"1.9.0", "1.10.0", "2.0.0-rc.1", "1.2.0"} {
		v, err := w.CreateProviderVersion(ctx, w.ada, "acme", cloud, NewProviderVersion{Version: version, KeyID: "x"})
		require.NoError(t, err)
		byVersion[version] = v.ID
	}
	want := []string{"2.0.0-rc.1", "1.10.0", "1.9.0", "1.2.0"}
	page, total, err := w.ProviderVersions(ctx, w.bob, "acme", cloud, Page{Limit: 2, Offset: 1})
	require.NoError(t, err)
	assert.Equal(t, 4, total)
	assert.Equal(t, want[1:3], []string{page[0].Version, page[1].Version})
	shown, err := w.ShowProviderVersions(ctx, []Provider{p})
	require.NoError(t, err)
	p, err = w.Provider(ctx, w.bob, p.ID)
	require.NoError(t, err)
	for i, version := range want {
		assert.Equal(t, version, shown[i].Version)
		assert.Equal(t, byVersion[version], p.Versions[i])
	}
	page, total, err = w.ProviderVersions(ctx, w.bob, "acme", cloud, Page{Limit: 2, Offset: 100})
	require.NoError(t, err)
	assert.Empty(t, page)
	assert.Equal(t, 4, total)
}

func TestPackagesWithAnotherSumAreRefused(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	for name, c := range map[string]struct {
		content []byte
		code    string
	}{
		"another":   {append(bytes.Clone(r.zip), 0), "package_refused"},
		"empty":     {nil, "package_refused"},
		"too large": {bytes.Repeat([]byte("x"), 20_000), "artifact_too_large"},
	} {
		err := r.uploadPackage(c.content)
		assert.True(t, fault.HasCode(err, c.code), "%s: %v", name, err)
	}
	assert.Zero(t, w.stored(artifacts.KindProviderPackage))
	require.NoError(t, r.uploadPackage(r.zip))
	require.NoError(t, r.uploadPackage(r.zip), "the repeat of an upload")
	assert.Equal(t, 1, w.stored(artifacts.KindProviderPackage))

	text := []byte("this is no zip")
	_, err := w.CreatePlatform(ctx, w.ada, "acme", cloud, "1.0.0", NewPlatform{OS: "linux", Arch: "arm64", Filename: "a.zip", Shasum: "32AE41FEE85F2D0A7E1E5A0B3B8E9C5E"})
	require.NoError(t, err, "what it says is checked with the bytes")
	p, err := w.CreatePlatform(ctx, w.ada, "acme", cloud, "1.0.0", NewPlatform{OS: "darwin", Arch: "arm64", Filename: "b.zip", Shasum: strings.ToUpper(fmt.Sprintf("%x", sha256.Sum256(text)))})
	require.NoError(t, err)
	err = w.UploadPackage(ctx, p.ID, bytes.NewReader(text))
	assert.ErrorContains(t, err, "no zip")
}

func TestWrongSignaturesAreRefused(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	require.NoError(t, r.uploadShasums(r.shasums))
	stranger := newSigner(t)
	armoredSignature := armored(t, openpgp.SignatureType, func(body io.Writer) error { _, err := body.Write(r.signature); return err })
	for name, c := range map[string]struct {
		signature []byte
		says      string
	}{
		"of another text": {r.signer.sign(t, "other"), "does not fit"},
		"by another key":  {stranger.sign(t, r.shasums), "was not made with key " + r.signer.keyID},
		"armored":         {[]byte(armoredSignature), "without --armor"},
		"a key":           {[]byte(r.signer.public), "without --armor"},
		"rubbish":         {[]byte("rubbish"), "no signature by OpenPGP"},
		"nothing":         {nil, "is empty"},
		"cut off":         {r.signature[:len(r.signature)-3], "refused"},
		"too much":        {bytes.Repeat([]byte{1}, maxSignature+1), "larger than the limit"},
	} {
		err := r.uploadSignature(c.signature)
		assert.ErrorContains(t, err, c.says, name)
		kind := fault.KindOf(err)
		assert.True(t, kind == fault.Invalid || kind == fault.TooLarge, "%s: %v", name, err)
	}
	v, err := w.ProviderVersionAt(ctx, w.bob, "acme", cloud, "1.0.0")
	require.NoError(t, err)
	assert.False(t, v.HasSignature(), "nothing is kept of them")

	// The other way round: the signature comes first, and the sums are not the ones it is of.
	second, err := w.CreateProviderVersion(ctx, w.ada, "acme", cloud, NewProviderVersion{Version: "1.1.0", KeyID: "0x" + strings.ToLower(r.signer.keyID)})
	require.NoError(t, err)
	require.NoError(t, w.UploadSignature(ctx, second.ID, bytes.NewReader(r.signature)))
	err = w.UploadShasums(ctx, second.ID, strings.NewReader(strings.Repeat("0", 64)+"  x.zip\n"))
	assert.True(t, fault.HasCode(err, "signature_refused"), "%v", err)
	require.NoError(t, w.UploadShasums(ctx, second.ID, strings.NewReader(r.shasums)))

	nameless, err := w.CreateProviderVersion(ctx, w.ada, "acme", cloud, NewProviderVersion{Version: "1.2.0", KeyID: "ABCDEF"})
	require.NoError(t, err)
	require.NoError(t, w.UploadShasums(ctx, nameless.ID, strings.NewReader(r.shasums)))
	assert.ErrorContains(t, w.UploadSignature(ctx, nameless.ID, bytes.NewReader(r.signature)), "has no GPG key ABCDEF")
}

func TestSignedChecksumsDoNotChange(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	other := strings.Repeat("0", 64) + "  other.zip\n"
	require.NoError(t, r.uploadShasums(other), "nothing is signed yet")
	err := r.uploadSignature(r.signer.sign(t, other))
	assert.True(t, fault.HasCode(err, "shasum_mismatch"), "the platform says another sum: %v", err)
	r.publish()
	require.NoError(t, r.uploadShasums(r.shasums), "the repeat of an upload")
	require.NoError(t, r.uploadSignature(r.signature))
	more := r.shasums + other
	for _, err := range []error{r.uploadShasums(more), r.uploadSignature(r.signer.sign(t, more))} {
		assert.True(t, fault.HasCode(err, "provider_version_signed"), "%v", err)
	}
	_, err = w.CreatePlatform(ctx, w.ada, "acme", cloud, "1.0.0", NewPlatform{OS: "linux", Arch: "arm64", Filename: "terraform-provider-cloud_1.0.0_linux_arm64.zip", Shasum: strings.Repeat("0", 64)})
	assert.True(t, fault.HasCode(err, "shasum_mismatch"), "%v", err)
	_, total, err := w.Platforms(ctx, w.bob, "acme", cloud, "1.0.0", Page{Limit: 10})
	require.NoError(t, err)
	assert.Equal(t, 1, total)
	for _, wrong := range []string{"", "\n\n", "hello", strings.Repeat("0", 63) + "  x.zip", strings.Repeat("0", 64) + "  ", strings.Repeat("0", 64) + "  x\n" + strings.Repeat("1", 64) + "  x\n"} {
		assert.True(t, fault.HasCode(r.uploadShasums(wrong), "shasums_refused"), "%q", wrong)
	}
}

func TestAKeyInUseStays(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	keyID := r.signer.keyID
	r.publish()
	assert.True(t, fault.HasCode(w.DeleteKey(ctx, w.ada, "acme", keyID), "gpg_key_in_use"))
	_, err := w.MoveKey(ctx, w.ada, "acme", keyID, "acme")
	require.NoError(t, err, "to where it is")
	for _, there := range []string{"rival", "nowhere"} { // ada is no member of the one, and the other is not there
		_, err := w.MoveKey(ctx, w.ada, "acme", keyID, there)
		assert.ErrorContains(t, err, "namespace not authorized")
		assert.ErrorContains(t, err, there)
	}
	both := w.ada
	both.Roles = map[ids.Organization]authz.Role{w.acme.ID: authz.Owner, w.rival.ID: authz.Owner}
	_, err = w.MoveKey(ctx, both, "acme", keyID, "rival")
	assert.True(t, fault.HasCode(err, "gpg_key_in_use"), "%v", err)
	require.NoError(t, w.DeleteProviderVersion(ctx, w.ada, "acme", cloud, "1.0.0"))
	assert.Zero(t, w.stored(artifacts.KindProviderPackage))
	moved, err := w.MoveKey(ctx, both, "acme", keyID, "rival")
	require.NoError(t, err)
	assert.Equal(t, "rival", moved.OrganizationName)
	_, err = w.Key(ctx, w.ada, "acme", keyID)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	require.NoError(t, w.DeleteKey(ctx, w.eve, "rival", keyID))
}

func TestOnlyPublicKeysAreTaken(t *testing.T) {
	w := newWorld(t)
	one, two := newSigner(t), newSigner(t)
	for name, text := range map[string]string{
		"nothing":     "",
		"text":        "hello",
		"a signature": armored(t, openpgp.SignatureType, func(body io.Writer) error { _, err := body.Write(one.sign(t, "x")); return err }),
		"private":     armored(t, openpgp.PrivateKeyType, func(body io.Writer) error { return one.entity.SerializePrivate(body, nil) }),
		"in disguise": armored(t, openpgp.PublicKeyType, func(body io.Writer) error { return one.entity.SerializePrivate(body, nil) }),
		"two keys": armored(t, openpgp.PublicKeyType, func(body io.Writer) error {
			if err := one.entity.Serialize(body); err != nil {
				return err
			}
			return two.entity.Serialize(body)
		}),
		"huge": one.public + strings.Repeat("\n", maxArmor),
	} {
		_, err := w.AddKey(ctx, w.ada, "acme", text)
		assert.True(t, fault.HasCode(err, "invalid_attribute"), "%s: %v", name, err)
	}
	k, err := w.AddKey(ctx, w.ada, "acme", one.public)
	require.NoError(t, err)
	assert.Equal(t, one.keyID, k.KeyID)
	_, err = w.AddKey(ctx, w.ada, "acme", one.public)
	assert.ErrorContains(t, err, "already been added")
	_, err = w.AddKey(ctx, w.bob, "acme", two.public)
	assert.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.AddKey(ctx, w.eve, "acme", two.public)
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	_, total, err := w.Keys(ctx, w.bob, []string{"acme"}, Page{Limit: 20})
	require.NoError(t, err)
	assert.Equal(t, 1, total)
	_, _, err = w.Keys(ctx, w.eve, []string{"rival", "acme"}, Page{Limit: 20})
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	byFingerprint, err := w.Key(ctx, w.bob, "acme", fmt.Sprintf("%X", one.entity.PrimaryKey.Fingerprint))
	require.NoError(t, err)
	assert.Equal(t, k.ID, byFingerprint.ID)
}

func TestAnExpiredKeySignsNothing(t *testing.T) {
	w := newWorld(t)
	long := clock.Now().Add(-48 * time.Hour)
	entity, err := openpgp.NewEntity("old", "", "old@example.com", &packet.Config{Time: func() time.Time { return long }, KeyLifetimeSecs: 3600})
	require.NoError(t, err)
	var signature bytes.Buffer
	require.NoError(t, openpgp.DetachSign(&signature, entity, strings.NewReader("x"), &packet.Config{Time: func() time.Time { return long }}))
	k, err := w.AddKey(ctx, w.ada, "acme", armored(t, openpgp.PublicKeyType, entity.Serialize))
	require.NoError(t, err)
	assert.ErrorContains(t, checkSignature(k, []byte("x"), signature.Bytes()), "has expired")
}

func TestWhoSeesAndPublishesProviders(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	r.publish()
	p, err := w.ProviderAt(ctx, w.bob, "acme", cloud)
	require.NoError(t, err)
	for name, do := range map[string]func() error{
		"create": func() error {
			_, err := w.CreateProvider(ctx, w.bob, "acme", ProviderAddress{Private, "acme", "b"})
			return err
		},
		"version": func() error {
			_, err := w.CreateProviderVersion(ctx, w.bob, "acme", cloud, NewProviderVersion{Version: "2.0.0", KeyID: "x"})
			return err
		},
		"platform": func() error {
			_, err := w.CreatePlatform(ctx, w.bob, "acme", cloud, "1.0.0", NewPlatform{})
			return err
		},
		"unmake":   func() error { return w.DeletePlatform(ctx, w.bob, "acme", cloud, "1.0.0", "linux", "amd64") },
		"withdraw": func() error { return w.DeleteProviderVersion(ctx, w.bob, "acme", cloud, "1.0.0") },
		"delete":   func() error { return w.DeleteProvider(ctx, w.bob, "acme", cloud) },
		"key":      func() error { return w.DeleteKey(ctx, w.bob, "acme", r.signer.keyID) },
	} {
		assert.True(t, fault.Is(do(), fault.Forbidden), "a member may not %s: %v", name, do())
	}
	for name, do := range map[string]func() error{
		"read":     func() error { _, err := w.Provider(ctx, w.eve, p.ID); return err },
		"at":       func() error { _, err := w.ProviderAt(ctx, w.eve, "acme", cloud); return err },
		"by hers":  func() error { _, err := w.ProviderAt(ctx, w.eve, "rival", cloud); return err },
		"list":     func() error { _, _, err := w.Providers(ctx, w.eve, "acme", ProviderFilter{}); return err },
		"versions": func() error { _, err := w.InstallableProvider(ctx, w.eve, "acme", "cloud"); return err },
		"install":  func() error { _, err := w.Package(ctx, w.eve, "acme", "cloud", "1.0.0", "linux", "amd64"); return err },
		"a run": func() error {
			_, err := w.Package(ctx, attempt(w.rival.ID), "acme", "cloud", "1.0.0", "linux", "amd64")
			return err
		},
		"key": func() error { _, err := w.Key(ctx, w.eve, "acme", r.signer.keyID); return err },
	} {
		assert.True(t, fault.Is(do(), fault.NotFound), "a stranger may not %s: %v", name, do())
	}
	require.NoError(t, w.DeleteProvider(ctx, w.ada, "acme", cloud))
	assert.Zero(t, w.stored(artifacts.KindProviderPackage))
	assert.True(t, fault.Is(r.uploadPackage(r.zip), fault.NotFound))
	assert.True(t, fault.Is(r.uploadShasums(r.shasums), fault.NotFound))
}

// tofu writes the addresses of providers in small letters.
func TestProvidersAreFoundWhateverTheirLetters(t *testing.T) {
	w := newWorld(t)
	r := w.newRelease()
	r.publish()
	rename := func(id, name string) {
		require.NoError(t, postgres.InTx(ctx, w.db, "test", func(tx postgres.Tx) error {
			_, err := postgres.Exec(ctx, tx, "update organizations set name = @name where id = @id", postgres.Args{"id": id, "name": name})
			return err
		}))
	}
	rename(string(w.acme.ID), "AcMe")
	_, err := w.Package(ctx, w.bob, "acme", "Cloud", "1.0.0", "linux", "amd64")
	require.NoError(t, err)
	_, err = w.Package(ctx, w.eve, "acme", "cloud", "1.0.0", "linux", "amd64")
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	assert.NotContains(t, err.Error(), "AcMe")
	rename(string(w.rival.ID), "ACME")
	_, err = w.Package(ctx, w.bob, "acme", "cloud", "1.0.0", "linux", "amd64")
	assert.True(t, fault.Is(err, fault.NotFound), "which of the two is not said: %v", err)
	_, err = w.Package(ctx, w.bob, "AcMe", "cloud", "1.0.0", "linux", "amd64")
	require.NoError(t, err)
	_, err = w.CreateProvider(ctx, w.ada, "AcMe", ProviderAddress{Private, "AcMe", "CLOUD"})
	assert.ErrorContains(t, err, "already been taken")
}

func TestOtherNamespacesAreRecordsOnly(t *testing.T) {
	w := newWorld(t)
	public := ProviderAddress{Public, "hashicorp", "aws"}
	_, err := w.CreateProvider(ctx, w.ada, "acme", public)
	require.NoError(t, err)
	_, err = w.CreateProviderVersion(ctx, w.ada, "acme", public, NewProviderVersion{Version: "1.0.0", KeyID: "x"})
	assert.ErrorContains(t, err, "must be private")
	_, err = w.CreateProvider(ctx, w.ada, "acme", ProviderAddress{Private, "hashicorp", "aws"})
	assert.ErrorContains(t, err, "Namespace must be acme")
	_, err = w.InstallableProvider(ctx, w.bob, "hashicorp", "aws")
	assert.True(t, fault.Is(err, fault.NotFound), "%v", err)
	found, total, err := w.Providers(ctx, w.bob, "acme", ProviderFilter{Search: "CORP/A", Registry: Public, Page: Page{Limit: 5}})
	require.NoError(t, err)
	assert.Equal(t, 1, total)
	assert.Equal(t, "hashicorp", found[0].Namespace)
}
