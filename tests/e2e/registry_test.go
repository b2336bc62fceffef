package e2e

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// publishModule publishes one version of a module with one file.
func publishModule(t *testing.T, s *stack, m *tfe.RegistryModule, version, main string) {
	t.Helper()
	v, err := s.api.RegistryModules.CreateVersion(ctx, tfe.RegistryModuleID{Organization: "demo", Name: m.Name, Provider: m.Provider}, tfe.RegistryModuleCreateVersionOptions{Version: &version})
	require.NoError(t, err)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "main.tf", Mode: 0o644, Size: int64(len(main)), Typeflag: tar.TypeReg}))
	_, err = archive.Write([]byte(main))
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	require.NoError(t, s.api.RegistryModules.UploadTarGzip(ctx, v.Links["upload"].(string), &packed))
}

// put sends bytes to a link, which is all that allows it.
func (s *stack) put(t *testing.T, link any, content []byte) {
	t.Helper()
	address, ok := link.(string)
	require.True(t, ok, "no link")
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, address, bytes.NewReader(content))
	require.NoError(t, err)
	resp, err := s.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", said)
}

// testProvider builds the stand-in for hashicorp/null, once.
var testProvider = sync.OnceValues(func() (string, error) {
	mirror, err := os.MkdirTemp("", "holdfast-e2e-mirror-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(mirror)
	if out, err := exec.Command(filepath.Join("..", "provider", "build.sh"), mirror).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the test provider: %w\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(mirror, "*", "hashicorp", "null", "*", "*", "terraform-provider-null_v*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%d test providers were built: %w", len(found), err)
	}
	content, err := os.ReadFile(found[0])
	return string(content), err
})

// publishProvider publishes a version of the provider demo/null as its documentation says:
// key, version, checksums, signature, package. It gives the id of the key.
func publishProvider(t *testing.T, s *stack, version string) string {
	t.Helper()
	binary, err := testProvider()
	require.NoError(t, err)
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	header := &zip.FileHeader{Name: "terraform-provider-null_v" + version, Method: zip.Deflate}
	header.SetMode(0o755)
	file, err := archive.CreateHeader(header)
	require.NoError(t, err)
	_, err = file.Write([]byte(binary))
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	name := fmt.Sprintf("terraform-provider-null_%s_%s_%s.zip", version, runtime.GOOS, runtime.GOARCH)
	shasum := fmt.Sprintf("%x", sha256.Sum256(packed.Bytes()))
	sums := shasum + "  " + name + "\n"

	signer, err := openpgp.NewEntity("demo", "", "demo@example.com", nil)
	require.NoError(t, err)
	var public, signature bytes.Buffer
	armored, err := armor.Encode(&public, openpgp.PublicKeyType, nil)
	require.NoError(t, err)
	require.NoError(t, signer.Serialize(armored))
	require.NoError(t, armored.Close())
	require.NoError(t, openpgp.DetachSign(&signature, signer, strings.NewReader(sums), nil))

	key, err := s.api.GPGKeys.Create(ctx, tfe.PrivateRegistry, tfe.GPGKeyCreateOptions{Namespace: "demo", AsciiArmor: public.String()})
	require.NoError(t, err)
	provider := tfe.RegistryProviderID{OrganizationName: "demo", RegistryName: tfe.PrivateRegistry, Namespace: "demo", Name: "null"}
	_, err = s.api.RegistryProviders.Create(ctx, "demo", tfe.RegistryProviderCreateOptions{Name: "null", Namespace: "demo", RegistryName: tfe.PrivateRegistry})
	require.NoError(t, err)
	v, err := s.api.RegistryProviderVersions.Create(ctx, provider, tfe.RegistryProviderVersionCreateOptions{Version: version, KeyID: key.KeyID, Protocols: []string{"5.0", "6.0"}})
	require.NoError(t, err)
	platform, err := s.api.RegistryProviderPlatforms.Create(ctx, tfe.RegistryProviderVersionID{RegistryProviderID: provider, Version: version},
		tfe.RegistryProviderPlatformCreateOptions{OS: runtime.GOOS, Arch: runtime.GOARCH, Shasum: shasum, Filename: name})
	require.NoError(t, err)
	s.put(t, v.Links["shasums-upload"], []byte(sums))
	s.put(t, v.Links["shasums-sig-upload"], signature.Bytes())
	s.put(t, platform.Links["provider-binary-upload"], packed.Bytes())
	return key.KeyID
}

// TestInitInstallsFromThisServer publishes a module and a provider, and has a real tofu install
// both: on the user's machine with the user's token, and in a run with the token of its attempt.
func TestInitInstallsFromThisServer(t *testing.T) {
	t.Parallel()
	host := strings.TrimPrefix(shared.address(), "https://")
	name, system := "greeting", "null"
	module, err := shared.api.RegistryModules.Create(ctx, "demo", tfe.RegistryModuleCreateOptions{Name: &name, Provider: &system})
	require.NoError(t, err)
	for _, version := range []string{"1.9.0", "1.10.0", "2.0.0-beta"} {
		publishModule(t, shared, module, version, fmt.Sprintf(`
			variable "name" {}
			output "greeting" { value = "hello ${var.name}, from %s" }`, version))
	}
	key := publishProvider(t, shared, "1.2.3")
	configuration := fmt.Sprintf(`
		terraform {
		  required_providers {
		    null = {
		      source  = "%[1]s/demo/null"
		      version = "~> 1.2"
		    }
		  }
		}
		resource "null_resource" "r" {}
		module "greeting" {
		  source  = "localterraform.com/demo/greeting/null" # the host of the cloud block: a module's host needs a dot
		  version = "~> 1.0"
		  name    = "you"
		}
		output "greeting" { value = module.greeting.greeting }`, host)

	t.Run("local", func(t *testing.T) {
		t.Parallel()
		f := newFolder(t, shared, configuration)
		f.localWorkspace()
		said := f.ok("init")
		assert.Contains(t, said, "Downloading localterraform.com/demo/greeting/null 1.10.0 for greeting")
		assert.Regexp(t, `Installed \S+/demo/null v1\.2\.3 \(.*`+key+`.*\)`, said)
		f.ok("apply", "-auto-approve")
		assert.Equal(t, "hello you, from 1.10.0", f.output("greeting"))
	})
	t.Run("remote", func(t *testing.T) {
		t.Parallel()
		f := newFolder(t, shared, configuration)
		f.init()
		f.ok("apply", "-auto-approve") // plan and apply, each with a token of its own
		assert.Equal(t, "hello you, from 1.10.0", f.output("greeting"))
		assert.Contains(t, string(f.stateBytes()), fmt.Sprintf(`provider[\"%s/demo/null\"]`, host), "the runner used what it installed")
	})
	t.Run("nobody", func(t *testing.T) {
		t.Parallel()
		f := &folder{t: t, stack: shared, dir: t.TempDir(), environ: []string{"TF_CLI_CONFIG_FILE=/dev/null"}}
		f.write("main.tf", fmt.Sprintf("terraform {\n  required_providers {\n    null = { source = \"%s/demo/null\" }\n  }\n}\n", host))
		r := f.tofu("init")
		assert.NotEqual(t, 0, r.code)
		assert.Contains(t, r.said, "requires authentication credentials")
	})
}
