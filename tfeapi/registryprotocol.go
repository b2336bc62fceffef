package tfeapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/ids"
)

// The protocols by which tofu installs modules and providers: modules.v1 and providers.v1. It
// shows its token when it asks where something is, and none when it fetches it from there. So
// the answers are links for a short time, and relative, because runs ask through their runner.

// installLinkLifetime is how long a link to something that is about to be installed is good. A
// download that has begun may take longer.
const installLinkLifetime = 15 * time.Minute

var (
	uploadModuleLink    = linkKind{"upload module", "/api/v2/links/registry-module-versions/", "/object/"}
	uploadShasumsLink   = linkKind{"upload provider shasums", "/api/v2/links/registry-provider-versions/", "/upload-shasums/"}
	uploadSignatureLink = linkKind{"upload provider signature", "/api/v2/links/registry-provider-versions/", "/upload-signature/"}
	uploadPackageLink   = linkKind{"upload provider package", "/api/v2/links/registry-provider-platforms/", "/upload/"}
	archiveLink         = linkKind{"install module", "/api/v2/links/registry-module-versions/", "/archive/"}
	shasumsLink         = linkKind{"install provider shasums", "/api/v2/links/registry-provider-versions/", "/shasums/"}
	signatureLink       = linkKind{"install provider signature", "/api/v2/links/registry-provider-versions/", "/signature/"}
	packageLink         = linkKind{"install provider", "/api/v2/links/registry-provider-platforms/", "/package/"}
)

// installLink gives the path of a link that is good from now for a short time.
func (s *server) installLink(kind linkKind, id string) string {
	return strings.TrimPrefix(s.link(kind, id, clock.Now().Add(installLinkLifetime)), s.Address)
}

func (s *server) moduleVersionsV1(r *request) (answer, error) {
	versions, err := s.Registry.InstallableVersions(r.ctx, r.actor, r.vars["namespace"], r.vars["module"], r.vars["system"])
	if err != nil {
		return answer{}, err
	}
	listed := make([]map[string]string, 0, len(versions))
	for _, v := range versions {
		listed = append(listed, map[string]string{"version": v})
	}
	return answer{status: http.StatusOK, json: map[string]any{"modules": []any{map[string]any{"versions": listed}}}}, nil
}

// moduleV1 shows a version of a module as catalogues and scripts read it, the newest where the
// address names none. What is in the archive is not read, so nothing is said of it.
func (s *server) moduleV1(r *request) (answer, error) {
	m, v, versions, err := s.Registry.Published(r.ctx, r.actor, r.vars["namespace"], r.vars["module"], r.vars["system"], r.vars["version"])
	if err != nil {
		return answer{}, err
	}
	slices.Reverse(versions) // as the protocol has them here
	return answer{status: http.StatusOK, json: map[string]any{
		"id": strings.Join([]string{m.OrganizationName, m.Name, m.Provider, v.Version}, "/"), "owner": m.OrganizationName, "namespace": m.OrganizationName,
		"name": m.Name, "provider": m.Provider, "version": v.Version, "published_at": v.UpdatedAt, "providers": []string{m.Provider}, "versions": versions,
	}}, nil
}

// newestModuleV1 leads to where the newest version of a module is installed from.
func (s *server) newestModuleV1(r *request) (answer, error) {
	_, v, _, err := s.Registry.Published(r.ctx, r.actor, r.vars["namespace"], r.vars["module"], r.vars["system"], "")
	if err != nil {
		return answer{}, err
	}
	r.header.Set("Location", url.PathEscape(v.Version)+"/download")
	return answer{status: http.StatusFound}, nil
}

// moduleDownloadV1 tells in a header where the archive is. The query says to tofu what it is.
func (s *server) moduleDownloadV1(r *request) (answer, error) {
	v, err := s.Registry.Install(r.ctx, r.actor, r.vars["namespace"], r.vars["module"], r.vars["system"], r.vars["version"])
	if err != nil {
		return answer{}, err
	}
	r.header.Set("X-Terraform-Get", s.installLink(archiveLink, string(v.ID))+"?archive=tar.gz")
	return noContent(), nil
}

func (s *server) providerVersionsV1(r *request) (answer, error) {
	versions, err := s.Registry.InstallableProvider(r.ctx, r.actor, r.vars["namespace"], r.vars["provider"])
	if err != nil {
		return answer{}, err
	}
	type platform struct {
		OS   string `json:"os"`
		Arch string `json:"arch"`
	}
	type version struct {
		Version   string     `json:"version"`
		Protocols []string   `json:"protocols"`
		Platforms []platform `json:"platforms"`
	}
	listed := make([]version, 0, len(versions))
	for _, v := range versions {
		one := version{Version: v.Version, Protocols: v.Protocols, Platforms: []platform{}}
		for _, p := range v.Platforms {
			os, arch, _ := strings.Cut(p, "/")
			one.Platforms = append(one.Platforms, platform{os, arch})
		}
		listed = append(listed, one)
	}
	return answer{status: http.StatusOK, json: map[string]any{"versions": listed}}, nil
}

func (s *server) providerDownloadV1(r *request) (answer, error) {
	p, err := s.Registry.Package(r.ctx, r.actor, r.vars["namespace"], r.vars["provider"], r.vars["version"], r.vars["os"], r.vars["arch"])
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, json: map[string]any{
		"protocols": p.Version.Protocols, "os": p.Platform.OS, "arch": p.Platform.Arch, "filename": p.Platform.Filename, "shasum": strings.ToLower(p.Platform.Shasum),
		"download_url":          s.installLink(packageLink, string(p.Platform.ID)),
		"shasums_url":           s.installLink(shasumsLink, string(p.Version.ID)),
		"shasums_signature_url": s.installLink(signatureLink, string(p.Version.ID)),
		"signing_keys": map[string]any{"gpg_public_keys": []any{map[string]any{
			"key_id": p.Key.KeyID, "ascii_armor": p.Key.ASCIIArmor, "trust_signature": "", "source": p.Key.OrganizationName, "source_url": "",
		}}},
	}}, nil
}

// uploadTo takes the body of a request that a link allows.
func uploadTo[T ids.Any](s *server, kind linkKind, r *request, take func(context.Context, T, io.Reader) error) (answer, error) {
	if err := s.checkLink(kind, r); err != nil {
		return answer{}, err
	}
	thing, err := id[T](r)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK}, take(r.ctx, thing, r.upload())
}

func (s *server) uploadModule(r *request) (answer, error) {
	return uploadTo(s, uploadModuleLink, r, s.Registry.UploadModule)
}

func (s *server) uploadShasums(r *request) (answer, error) {
	return uploadTo(s, uploadShasumsLink, r, s.Registry.UploadShasums)
}

func (s *server) uploadSignature(r *request) (answer, error) {
	return uploadTo(s, uploadSignatureLink, r, s.Registry.UploadSignature)
}

func (s *server) uploadPackage(r *request) (answer, error) {
	return uploadTo(s, uploadPackageLink, r, s.Registry.UploadPackage)
}

// downloadFrom answers with the bytes that a link is for.
func downloadFrom[T ids.Any](s *server, kind linkKind, r *request, open func(context.Context, T) (io.ReadCloser, int64, error)) (answer, error) {
	if err := s.checkLink(kind, r); err != nil {
		return answer{}, err
	}
	thing, err := id[T](r)
	if err != nil {
		return answer{}, err
	}
	body, size, err := open(r.ctx, thing)
	if err != nil {
		return answer{}, err
	}
	if r.http.Method == http.MethodHead { // tofu asks so before it fetches an archive
		_ = body.Close()
		r.header.Set("Content-Length", strconv.FormatInt(size, 10))
		return answer{status: http.StatusOK}, nil
	}
	return download(body, size), nil
}

func (s *server) downloadModule(r *request) (answer, error) {
	return downloadFrom(s, archiveLink, r, s.Registry.OpenModule)
}

func (s *server) downloadPackage(r *request) (answer, error) {
	return downloadFrom(s, packageLink, r, s.Registry.OpenPackage)
}

// inMemory makes bytes of what was read into memory.
func inMemory[T any](read func(context.Context, T) ([]byte, error)) func(context.Context, T) (io.ReadCloser, int64, error) {
	return func(ctx context.Context, thing T) (io.ReadCloser, int64, error) {
		content, err := read(ctx, thing)
		return io.NopCloser(bytes.NewReader(content)), int64(len(content)), err
	}
}

func (s *server) downloadShasums(r *request) (answer, error) {
	return downloadFrom(s, shasumsLink, r, inMemory(s.Registry.Shasums))
}

func (s *server) downloadSignature(r *request) (answer, error) {
	return downloadFrom(s, signatureLink, r, inMemory(s.Registry.Signature))
}
