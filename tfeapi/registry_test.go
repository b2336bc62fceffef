package tfeapi

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/registry"
)

// publishModule publishes versions of a module, and gives the last one.
func (w *world) publishModule(name, system string, versions ...string) (v registry.ModuleVersion) {
	w.Helper()
	_, err := w.deps.Registry.CreateModule(w.Context(), authz.System(), "acme", registry.NewModule{Name: name, Provider: system})
	require.NoError(w, err)
	for _, version := range versions {
		v, err = w.deps.Registry.CreateModuleVersion(w.Context(), authz.System(), "acme", registry.ModuleAddress{Registry: registry.Private, Namespace: "acme", Name: name, Provider: system}, version, "")
		require.NoError(w, err)
		require.NoError(w, w.deps.Registry.UploadModule(w.Context(), v.ID, bytes.NewReader(configuration(w.T))))
	}
	return v
}

// publishProvider publishes a version of a provider for linux on amd64, with its own key.
func (w *world) publishProvider(name, version string) (id ids.RegistryProvider, keyID string) {
	w.Helper()
	ctx, system, service := w.Context(), authz.System(), w.deps.Registry
	address := registry.ProviderAddress{Registry: registry.Private, Namespace: "acme", Name: name}
	signer, err := openpgp.NewEntity("acme", "", "ops@acme.test", &packet.Config{Algorithm: packet.PubKeyAlgoEdDSA})
	require.NoError(w, err)
	var public, packed, signature bytes.Buffer
	armored, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	require.NoError(w, err)
	require.NoError(w, signer.Serialize(armored))
	require.NoError(w, armored.Close())
	key, err := service.AddKey(ctx, system, "acme", public.String())
	require.NoError(w, err)
	archive := zip.NewWriter(&packed)
	_, err = archive.Create("terraform-provider-" + name)
	require.NoError(w, err)
	require.NoError(w, archive.Close())
	file := fmt.Sprintf("terraform-provider-%s_%s_linux_amd64.zip", name, version)
	sum := fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
	sums := sum + "  " + file + "\n"
	require.NoError(w, openpgp.DetachSign(&signature, signer, strings.NewReader(sums), nil))

	p, err := service.CreateProvider(ctx, system, "acme", address)
	require.NoError(w, err)
	v, err := service.CreateProviderVersion(ctx, system, "acme", address, registry.NewProviderVersion{Version: version, KeyID: key.KeyID})
	require.NoError(w, err)
	platform, err := service.CreatePlatform(ctx, system, "acme", address, version, registry.NewPlatform{OS: "linux", Arch: "amd64", Filename: file, Shasum: sum})
	require.NoError(w, err)
	require.NoError(w, service.UploadShasums(ctx, v.ID, strings.NewReader(sums)))
	require.NoError(w, service.UploadSignature(ctx, v.ID, &signature))
	require.NoError(w, service.UploadPackage(ctx, platform.ID, &packed))
	return p.ID, key.KeyID
}

// fetch asks without a token.
func (w *world) fetch(method, path string) (*http.Response, []byte) {
	w.Helper()
	req, err := http.NewRequestWithContext(w.Context(), method, w.url+path, nil)
	require.NoError(w, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(w, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(w, err)
	return resp, content
}

// What tofu asks and gets, as the two protocols say. That it likes the answers is seen in tests/e2e.
func TestRegistryProtocols(t *testing.T) {
	w := newWorld(t)
	w.publishModule("vpc", "aws", "1.0.0", "1.10.0", "1.9.0")
	_, keyID := w.publishProvider("cloud", "2.0.0")
	var services map[string]any
	require.NoError(t, json.Unmarshal([]byte(w.ask("", get, "/.well-known/terraform.json", "").body), &services))
	at := func(service, path string) string {
		base, ok := strings.CutPrefix(services[service].(string), w.url)
		require.True(t, ok && strings.HasSuffix(base, "/"), "%v", services)
		return base + path
	}
	for _, path := range []string{at("modules.v1", "acme/vpc/aws/versions"), at("providers.v1", "acme/cloud/versions")} {
		assert.Equal(t, http.StatusUnauthorized, w.ask("", get, path, "").status, path)
	}

	versions := w.ask(w.bob, get, at("modules.v1", "acme/vpc/aws/versions"), "")
	assert.JSONEq(t, `{"modules":[{"versions":[{"version":"1.10.0"},{"version":"1.9.0"},{"version":"1.0.0"}]}]}`, versions.body)
	found, _ := w.send(get, w.url+at("modules.v1", "acme/vpc/aws/1.10.0/download"), w.bob, "")
	assert.Equal(t, http.StatusNoContent, found.StatusCode)
	link := found.Header.Get("X-Terraform-Get")
	require.True(t, strings.HasPrefix(link, "/api/v2/links/") && strings.HasSuffix(link, "?archive=tar.gz"), link)
	resp, content := w.fetch(http.MethodGet, link)
	assert.Equal(t, http.StatusOK, resp.StatusCode)
	assert.Equal(t, configuration(t), content)
	resp, content = w.fetch(http.MethodHead, link)
	assert.Equal(t, int64(len(configuration(t))), resp.ContentLength)
	assert.Empty(t, content)

	listed := w.ask(w.bob, get, at("providers.v1", "acme/cloud/versions"), "")
	assert.JSONEq(t, `{"versions":[{"version":"2.0.0","protocols":["5.0"],"platforms":[{"os":"linux","arch":"amd64"}]}]}`, listed.body)
	var p struct {
		Filename, Shasum string
		DownloadURL      string `json:"download_url"`
		ShasumsURL       string `json:"shasums_url"`
		SignatureURL     string `json:"shasums_signature_url"`
		Keys             struct {
			GPG []struct {
				ID    string `json:"key_id"`
				Armor string `json:"ascii_armor"`
			} `json:"gpg_public_keys"`
		} `json:"signing_keys"`
	}
	require.NoError(t, json.Unmarshal([]byte(w.ask(w.bob, get, at("providers.v1", "acme/cloud/2.0.0/download/linux/amd64"), "").body), &p))
	_, zipped := w.fetch(http.MethodGet, p.DownloadURL)
	assert.Equal(t, p.Shasum, fmt.Sprintf("%x", sha256.Sum256(zipped)))
	_, sums := w.fetch(http.MethodGet, p.ShasumsURL)
	assert.Equal(t, p.Shasum+"  "+p.Filename+"\n", string(sums))
	_, signature := w.fetch(http.MethodGet, p.SignatureURL)
	require.Len(t, p.Keys.GPG, 1)
	assert.Equal(t, keyID, p.Keys.GPG[0].ID)
	ring, err := openpgp.ReadArmoredKeyRing(strings.NewReader(p.Keys.GPG[0].Armor))
	require.NoError(t, err)
	_, err = openpgp.CheckDetachedSignature(ring, bytes.NewReader(sums), bytes.NewReader(signature), nil)
	require.NoError(t, err)

	for _, path := range []string{at("modules.v1", "acme/vpc/aws/9.9.9/download"), at("modules.v1", "acme/vpc/google/versions"), at("providers.v1", "acme/cloud/2.0.0/download/plan9/amd64"), at("providers.v1", "rival/cloud/versions")} {
		assert.Equal(t, http.StatusNotFound, w.ask(w.bob, get, path, "").status, path)
	}
}

// A link is good for what it was made for, and for a short time.
func TestRegistryLinksEndAndFitNothingElse(t *testing.T) {
	w := newWorld(t)
	v := w.publishModule("vpc", "aws", "1.0.0", "1.1.0")
	other, err := w.deps.Registry.ModuleVersionAt(t.Context(), authz.System(), "acme", registry.ModuleAddress{Registry: registry.Private, Namespace: "acme", Name: "vpc", Provider: "aws"}, "1.0.0")
	require.NoError(t, err)
	s := &server{Deps: w.deps}
	status := func(method, path string) int {
		resp, _ := w.fetch(method, path)
		return resp.StatusCode
	}
	at := func(kind linkKind, id ids.RegistryModuleVersion, expires time.Time) string {
		return strings.TrimPrefix(s.link(kind, string(id), expires), w.url)
	}
	soon := clock.Now().Add(installLinkLifetime)
	good := at(archiveLink, v.ID, soon)
	assert.Equal(t, http.StatusOK, status(http.MethodGet, good))
	assert.Equal(t, http.StatusNotFound, status(http.MethodGet, at(archiveLink, v.ID, clock.Now().Add(-time.Second))), "it ended")
	assert.Equal(t, http.StatusNotFound, status(http.MethodGet, strings.Replace(good, string(v.ID), string(other.ID), 1)), "another version")
	upload := at(uploadModuleLink, v.ID, soon)
	token := upload[strings.LastIndex(upload, "/")+1:]
	assert.Equal(t, http.StatusNotFound, status(http.MethodGet, good[:strings.LastIndex(good, "/")+1]+token), "who may upload may not read by that")
	assert.Equal(t, http.StatusNotFound, status(http.MethodPut, upload[:len(upload)-len(token)]+good[strings.LastIndex(good, "/")+1:]), "who may read may not upload by that")

	seen, err := w.as(w.bob).RegistryModules.ReadVersion(t.Context(), tfe.RegistryModuleID{Organization: "acme", Name: "vpc", Provider: "aws"}, "1.1.0")
	require.NoError(t, err)
	assert.Nil(t, seen.Links["upload"], "a member publishes nothing")
	seen, err = w.client.RegistryModules.ReadVersion(t.Context(), tfe.RegistryModuleID{Organization: "acme", Name: "vpc", Provider: "aws"}, "1.1.0")
	require.NoError(t, err)
	assert.Contains(t, seen.Links["upload"], "/object/")
}

// What needs version control is refused with the way that there is.
func TestModulesComeByUpload(t *testing.T) {
	w := newWorld(t)
	w.publishModule("vpc", "aws", "1.0.0")
	connected := `{"data":{"type":"registry-modules","attributes":{"vcs-repo":{"identifier":"acme/vpc"}}}}`
	for method, path := range map[string]string{post: "/api/v2/organizations/acme/registry-modules/vcs", patch: "/api/v2/organizations/acme/registry-modules/private/acme/vpc/aws"} {
		r := w.ask(w.ann, method, path, connected)
		assert.Equal(t, http.StatusUnprocessableEntity, r.status, r.body)
		assert.Contains(t, r.body, "upload its archive")
	}
	assert.Equal(t, http.StatusUnprocessableEntity, w.ask(w.ann, post, "/api/v2/registry-modules", connected).status)
	assert.Equal(t, http.StatusForbidden, w.ask(w.bob, post, "/api/v2/organizations/acme/registry-modules/vcs", connected).status)
	tests := w.ask(w.ann, patch, "/api/v2/organizations/acme/registry-modules/private/acme/vpc/aws", `{"data":{"type":"registry-modules","attributes":{"test-config":{"tests-enabled":true}}}}`)
	assert.Equal(t, http.StatusUnprocessableEntity, tests.status, tests.body)
}

// A list of providers has their versions beside when they are asked for.
func TestRegistryListsIncludeVersions(t *testing.T) {
	w := newWorld(t)
	w.publishProvider("cloud", "2.0.0")
	w.publishProvider("other", "1.0.0")
	include := []tfe.RegistryProviderIncludeOps{tfe.RegistryProviderVersionsInclude}
	list, err := w.client.RegistryProviders.List(t.Context(), "acme", &tfe.RegistryProviderListOptions{Include: &include})
	require.NoError(t, err)
	require.Len(t, list.Items, 2)
	for i, version := range []string{"2.0.0", "1.0.0"} {
		require.Len(t, list.Items[i].RegistryProviderVersions, 1)
		v := list.Items[i].RegistryProviderVersions[0]
		assert.Equal(t, version, v.Version)
		assert.Nil(t, v.Links["shasums-upload"], "it is signed")
		assert.NotEmpty(t, v.Links["shasums-download"])
	}
}

// TestAModuleIsShownAsCataloguesReadIt: a version by its name, and the newest without one; go-tfe
// reads the same.
func TestAModuleIsShownAsCataloguesReadIt(t *testing.T) {
	w := newWorld(t)
	w.publishModule("vpc", "aws", "1.0.0", "1.10.0", "1.9.0")
	address := registry.ModuleAddress{Registry: registry.Private, Namespace: "acme", Name: "vpc", Provider: "aws"}
	_, err := w.deps.Registry.CreateModuleVersion(t.Context(), authz.System(), "acme", address, "2.0.0", "") // without an archive
	require.NoError(t, err)
	const at = "/api/registry/v1/modules/acme/vpc/aws"
	for path, version := range map[string]string{at: "1.10.0", at + "/1.0.0": "1.0.0", at + "/1.9.0": "1.9.0"} {
		shown := w.ask(w.bob, get, path, "")
		require.Equal(t, http.StatusOK, shown.status, shown.body)
		document := decodeInto[map[string]any](t, shown.body)
		assert.Equal(t, []any{"acme/vpc/aws/" + version, "acme", "vpc", "aws", version, []any{"1.0.0", "1.9.0", "1.10.0"}},
			[]any{document["id"], document["namespace"], document["name"], document["provider"], document["version"], document["versions"]}, path)
		published, err := time.Parse(time.RFC3339, document["published_at"].(string))
		require.NoError(t, err)
		assert.WithinDuration(t, clock.Now(), published, time.Hour)
	}
	read, err := w.as(w.bob).RegistryModules.ReadTerraformRegistryModule(t.Context(), tfe.RegistryModuleID{Organization: "acme", Namespace: "acme", Name: "vpc", Provider: "aws", RegistryName: tfe.PrivateRegistry}, "1.9.0")
	require.NoError(t, err)
	assert.Equal(t, []string{"acme/vpc/aws/1.9.0", "1.9.0"}, []string{read.ID, read.Version})

	_, outsider := w.user(t.Context(), "eve")
	for path, token := range map[string]string{at + "/2.0.0": w.bob, at + "/3.0.0": w.bob, "/api/registry/v1/modules/acme/none/aws": w.bob, at: outsider, at + "/1.0.0": outsider, at + "/download": outsider} {
		assert.Equal(t, http.StatusNotFound, w.ask(token, get, path, "").status, path)
	}
	assert.Equal(t, http.StatusUnauthorized, w.ask("", get, at, "").status)

	// The newest is where a redirect leads, and following it is to install.
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+at+"/download", nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+w.bob)
	led, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, led.Body.Close())
	assert.Equal(t, []any{http.StatusNoContent, at + "/1.10.0/download"}, []any{led.StatusCode, led.Request.URL.Path})
	assert.NotEmpty(t, led.Header.Get("X-Terraform-Get"))
}
