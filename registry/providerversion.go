package registry

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// ProviderVersion is one version of a provider.
type ProviderVersion struct {
	ID              ids.RegistryProviderVersion
	Organization    ids.Organization
	Provider        ids.RegistryProvider
	Version         string
	KeyID           string
	Protocols       []string
	ShasumsSealed   []byte // nil before they came
	SignatureSealed []byte // nil before it came
	GPGKeyID        ids.GPGKey
	CreatedAt       time.Time
	UpdatedAt       time.Time
	Platforms       []ids.RegistryProviderPlatform
}

// HasShasums tells whether SHA256SUMS was uploaded, HasSignature its signature.
func (v ProviderVersion) HasShasums() bool { return v.ShasumsSealed != nil }

// HasSignature tells whether the signature of SHA256SUMS was uploaded.
func (v ProviderVersion) HasSignature() bool { return v.SignatureSealed != nil }

// Signed tells whether the signature was found good. Neither file changes after that.
func (v ProviderVersion) Signed() bool { return v.GPGKeyID != "" }

func shasumsLabel(id ids.RegistryProviderVersion) string { return "provider-shasums/" + string(id) }
func signatureLabel(id ids.RegistryProviderVersion) string {
	return "provider-signature/" + string(id)
}

// NewProviderVersion is what a client asks for. Without Protocols it is 5.0.
type NewProviderVersion struct {
	Version, KeyID string
	Protocols      []string
}

const (
	maxKeyID     = 64
	maxProtocols = 10
)

var protocol = regexp.MustCompile(`^[0-9]{1,3}\.[0-9]{1,3}$`)

func (n NewProviderVersion) check() error {
	if n.KeyID == "" {
		return accounts.Invalid("key-id", "Key can't be blank")
	}
	if len(n.Protocols) > maxProtocols {
		return accounts.Invalid("protocols", "Protocols are at most %d", maxProtocols)
	}
	for _, p := range n.Protocols {
		if !protocol.MatchString(p) {
			return accounts.Invalid("protocols", "Protocols are versions such as 5.0 and 6.0, not %q", p)
		}
	}
	return accounts.CheckText("key-id", "Key", n.KeyID, maxKeyID)
}

// CreateProviderVersion announces a version of a provider of the private registry. SHA256SUMS,
// its signature and packages follow. That there is a key with the id is asked when the
// signature has come.
func (s *Service) CreateProviderVersion(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, n NewProviderVersion) (v ProviderVersion, err error) {
	err = postgres.InTx(ctx, s.db, "registry.create-provider-version", func(tx postgres.Tx) error {
		p, err := s.lockedProvider(ctx, tx, actor, organization, a)
		if err != nil {
			return err
		}
		if p.Registry != Private {
			return accounts.Invalid("registry-name", "Registry name must be private: the versions of a public provider are in the public registry")
		}
		sorted, err := precedence(n.Version)
		if err != nil {
			return err
		}
		if len(n.Protocols) == 0 {
			n.Protocols = []string{"5.0"}
		}
		if err := n.check(); err != nil {
			return err
		}
		id := ids.New[ids.RegistryProviderVersion]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("ProviderVersionInsert"), postgres.Args{
			"id": id, "organization_id": p.Organization, "provider_id": p.ID, "version": n.Version, "precedence": sorted, "key_id": n.KeyID, "protocols": n.Protocols,
		})
		if _, constraint := postgres.Violation(err); constraint == "registry_provider_versions_version" {
			return accounts.Taken("version", "Version")
		}
		if err != nil {
			return err
		}
		if v, err = loadProviderVersion(ctx, tx, id); err != nil {
			return err
		}
		return record(ctx, tx, actor, p.Organization, "registry-provider-version.created", "registry-provider-version", string(id),
			map[string]any{"provider": a.String(), "version": n.Version, "key_id": n.KeyID})
	})
	return v, err
}

func loadProviderVersion(ctx context.Context, tx postgres.Tx, id ids.RegistryProviderVersion) (ProviderVersion, error) {
	v, err := postgres.One[ProviderVersion](ctx, tx, Queries.Get("ProviderVersionGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return ProviderVersion{}, fault.Missing("registry provider version", string(id))
	}
	return v, err
}

// lockProviderVersion gives a version and keeps others from changing it or its platforms.
func lockProviderVersion(ctx context.Context, tx postgres.Tx, id ids.RegistryProviderVersion) (ProviderVersion, error) {
	_, err := postgres.Value[ids.RegistryProviderVersion](ctx, tx, Queries.Get("ProviderVersionLock"), postgres.Args{"id": id})
	if err != nil && !postgres.NoRow(err) {
		return ProviderVersion{}, err
	}
	return loadProviderVersion(ctx, tx, id)
}

func providerVersionOf(ctx context.Context, tx postgres.Tx, p Provider, version string) (ProviderVersion, error) {
	v, err := postgres.One[ProviderVersion](ctx, tx, Queries.Get("ProviderVersionOf"), postgres.Args{"provider_id": p.ID, "version": version})
	if postgres.NoRow(err) {
		return ProviderVersion{}, fault.Missing("registry provider version", version)
	}
	return v, err
}

// providerVersionAt finds a version by the address of its provider.
func providerVersionAt(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, organization string, a ProviderAddress, version string) (ProviderVersion, error) {
	p, err := providerAt(ctx, tx, actor, action, organization, a)
	if err != nil {
		return ProviderVersion{}, err
	}
	return providerVersionOf(ctx, tx, p, version)
}

// ProviderVersionAt gives one version of a provider.
func (s *Service) ProviderVersionAt(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, version string) (v ProviderVersion, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.provider-version", func(tx postgres.Tx) error {
		v, err = providerVersionAt(ctx, tx, actor, authz.OrganizationRead, organization, a, version)
		return err
	})
	return v, err
}

// ProviderVersions gives a page of a provider's versions, the newest first, and counts all.
func (s *Service) ProviderVersions(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, page Page) (found []ProviderVersion, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.provider-versions", func(tx postgres.Tx) error {
		p, err := providerAt(ctx, tx, actor, authz.OrganizationRead, organization, a)
		if err != nil {
			return err
		}
		found, total, err = list[ProviderVersion](ctx, tx, "ProviderVersionList", "ProviderVersionCount", postgres.Args{"provider_id": p.ID, "limit": page.Limit, "offset": page.Offset})
		return err
	})
	return found, total, err
}

// ShowProviderVersions gives all versions of providers that the actor sees, for showing them
// beside.
func (s *Service) ShowProviderVersions(ctx context.Context, of []Provider) (found []ProviderVersion, err error) {
	which := make([]string, len(of))
	for i, p := range of {
		which[i] = string(p.ID)
	}
	err = postgres.InOneStatement(ctx, s.db, "registry.show-provider-versions", func(tx postgres.Tx) error {
		found, err = postgres.All[ProviderVersion](ctx, tx, Queries.Get("ProviderVersionsOf"), postgres.Args{"providers": which})
		return err
	})
	return found, err
}

// DeleteProviderVersion removes a version with its packages.
func (s *Service) DeleteProviderVersion(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, version string) error {
	return postgres.InTx(ctx, s.db, "registry.delete-provider-version", func(tx postgres.Tx) error {
		v, err := providerVersionAt(ctx, tx, actor, authz.ProvidersManage, organization, a, version)
		if err != nil {
			return err
		}
		if v, err = lockProviderVersion(ctx, tx, v.ID); err != nil {
			return err
		}
		if err := s.discardAll(ctx, tx, v.Organization, "ProviderVersionObjects", postgres.Args{"version_id": v.ID}); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ProviderVersionDelete"), postgres.Args{"id": v.ID}); err != nil {
			return err
		}
		return record(ctx, tx, actor, v.Organization, "registry-provider-version.deleted", "registry-provider-version", string(v.ID), map[string]any{"provider": a.String(), "version": version})
	})
}

// UploadShasums takes SHA256SUMS of a version; UploadSignature its detached signature. The
// caller has proved by a link that it may. The one that comes second is checked against the
// first: a signature that does not fit, or is not by the key that the version names, is Invalid
// "signature_refused" and not kept; sums other than those of the version's platforms are
// Invalid "shasum_mismatch". Once the signature was found good the same bytes are welcome, and
// others are Conflict "provider_version_signed".
func (s *Service) UploadShasums(ctx context.Context, id ids.RegistryProviderVersion, body io.Reader) error {
	content, err := readSmall("file SHA256SUMS", body, maxShasums)
	if err != nil {
		return err
	}
	if _, err := readChecksums(content); err != nil {
		return err
	}
	return s.uploadBeside(ctx, id, func(f *signedFiles) *[]byte { return &f.shasums }, content)
}

// UploadSignature takes the signature of SHA256SUMS, as UploadShasums says.
func (s *Service) UploadSignature(ctx context.Context, id ids.RegistryProviderVersion, body io.Reader) error {
	content, err := readSmall("signature", body, maxSignature)
	if err != nil {
		return err
	}
	if len(content) == 0 {
		return fault.New(fault.Invalid, "signature_refused", "The signature of SHA256SUMS is empty.")
	}
	return s.uploadBeside(ctx, id, func(f *signedFiles) *[]byte { return &f.signature }, content)
}

// signedFiles are what stands beside the packages of a version; nil is what has not come.
type signedFiles struct{ shasums, signature []byte }

func (s *Service) signedFiles(ctx context.Context, tx postgres.Tx, v ProviderVersion) (f signedFiles, err error) {
	if v.HasShasums() {
		if f.shasums, err = s.objects.OpenValue(ctx, tx, v.Organization, shasumsLabel(v.ID), v.ShasumsSealed); err != nil {
			return f, err
		}
	}
	if v.HasSignature() {
		f.signature, err = s.objects.OpenValue(ctx, tx, v.Organization, signatureLabel(v.ID), v.SignatureSealed)
	}
	return f, err
}

func (s *Service) uploadBeside(ctx context.Context, id ids.RegistryProviderVersion, which func(*signedFiles) *[]byte, content []byte) error {
	return postgres.InTx(context.WithoutCancel(ctx), s.db, "registry.upload-beside", func(tx postgres.Tx) error {
		v, err := lockProviderVersion(ctx, tx, id)
		if err != nil {
			return err
		}
		files, err := s.signedFiles(ctx, tx, v)
		if err != nil {
			return err
		}
		had := which(&files)
		if v.Signed() {
			if bytes.Equal(*had, content) {
				return nil
			}
			return fault.New(fault.Conflict, "provider_version_signed", "Version %s is signed, so SHA256SUMS and its signature do not change any more. Delete the version, or publish a new one.", v.Version)
		}
		*had = content
		return s.keepBeside(ctx, tx, v, files)
	})
}

// keepBeside stores the files of a version and, when both are there, checks them.
func (s *Service) keepBeside(ctx context.Context, tx postgres.Tx, v ProviderVersion, files signedFiles) (err error) {
	args := postgres.Args{"id": v.ID, "shasums_sealed": nil, "signature_sealed": nil, "gpg_key_id": nil}
	if files.shasums != nil {
		if args["shasums_sealed"], err = s.objects.SealValue(ctx, tx, v.Organization, shasumsLabel(v.ID), files.shasums); err != nil {
			return err
		}
	}
	if files.signature != nil {
		if args["signature_sealed"], err = s.objects.SealValue(ctx, tx, v.Organization, signatureLabel(v.ID), files.signature); err != nil {
			return err
		}
	}
	details := map[string]any{"version": v.Version, "shasums": files.shasums != nil, "signature": files.signature != nil}
	if files.shasums != nil && files.signature != nil {
		key, err := s.signedBy(ctx, tx, v, files)
		if err != nil {
			return err
		}
		args["gpg_key_id"], details["signed_by"] = key.ID, key.KeyID
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("ProviderVersionFiles"), args)
	if err != nil {
		return err
	}
	if n == 0 {
		return fault.Missing("registry provider version", string(v.ID))
	}
	return record(ctx, tx, authz.System(), v.Organization, "registry-provider-version.uploaded", "registry-provider-version", string(v.ID), details)
}

// signedBy gives the key by which the files are signed, as the version and its platforms say.
func (s *Service) signedBy(ctx context.Context, tx postgres.Tx, v ProviderVersion, files signedFiles) (GPGKey, error) {
	key, err := postgres.One[GPGKey](ctx, tx, Queries.Get("KeyHold"), postgres.Args{"organization_id": v.Organization, "key_id": normalKeyID(v.KeyID)})
	if postgres.NoRow(err) {
		return GPGKey{}, fault.New(fault.Invalid, "signature_refused", "The signature of SHA256SUMS is refused: the organization has no GPG key %s, which this version names. Add it first.", v.KeyID)
	}
	if err != nil {
		return GPGKey{}, err
	}
	if err := checkSignature(key, files.shasums, files.signature); err != nil {
		return GPGKey{}, err
	}
	sums, err := readChecksums(files.shasums)
	if err != nil {
		return GPGKey{}, err
	}
	platforms, err := postgres.All[Platform](ctx, tx, Queries.Get("PlatformsOf"), postgres.Args{"version_id": v.ID})
	if err != nil {
		return GPGKey{}, err
	}
	for _, p := range platforms {
		if err := sums.check(p); err != nil {
			return GPGKey{}, err
		}
	}
	return key, nil
}

// Shasums gives SHA256SUMS of a version, Signature its signature. The caller has proved by a
// link that it may.
func (s *Service) Shasums(ctx context.Context, id ids.RegistryProviderVersion) ([]byte, error) {
	return s.beside(ctx, id, func(f signedFiles) []byte { return f.shasums })
}

// Signature gives the signature of SHA256SUMS.
func (s *Service) Signature(ctx context.Context, id ids.RegistryProviderVersion) ([]byte, error) {
	return s.beside(ctx, id, func(f signedFiles) []byte { return f.signature })
}

func (s *Service) beside(ctx context.Context, id ids.RegistryProviderVersion, which func(signedFiles) []byte) (content []byte, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.beside", func(tx postgres.Tx) error {
		v, err := loadProviderVersion(ctx, tx, id)
		if err != nil {
			return err
		}
		files, err := s.signedFiles(ctx, tx, v)
		if err != nil {
			return err
		}
		if content = which(files); content == nil {
			return fault.Missing("registry provider version", string(id))
		}
		return nil
	})
	return content, err
}
