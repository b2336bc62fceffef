package registry

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Platform is a provider's version for one operating system and processor.
type Platform struct {
	ID           ids.RegistryProviderPlatform
	Organization ids.Organization
	Version      ids.RegistryProviderVersion
	OS           string
	Arch         string
	Filename     string
	Shasum       string     // as it was said
	ObjectID     ids.Object // of its package; empty before that came
	CreatedAt    time.Time
}

// NewPlatform is what a client asks for.
type NewPlatform struct{ OS, Arch, Filename, Shasum string }

var (
	platformPart = regexp.MustCompile(`^[a-z0-9_]{1,32}$`)
	fileName     = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._+~-]{0,254}$`)
)

func (n NewPlatform) check() error {
	if !platformPart.MatchString(n.OS) {
		return accounts.Invalid("os", "Os must be small letters and digits, such as linux")
	}
	if !platformPart.MatchString(n.Arch) {
		return accounts.Invalid("arch", "Arch must be small letters and digits, such as amd64")
	}
	if !fileName.MatchString(n.Filename) {
		return accounts.Invalid("filename", "Filename must be the name of a file without its folder, such as terraform-provider-x_1.2.3_linux_amd64.zip")
	}
	if n.Shasum == "" {
		return accounts.Invalid("shasum", "Shasum can't be blank")
	}
	return accounts.CheckText("shasum", "Shasum", n.Shasum, 2*64)
}

// CreatePlatform announces the package of a version for a platform; its bytes follow by
// UploadPackage. Invalid "shasum_mismatch" when the version is signed and its checksums say
// something else.
func (s *Service) CreatePlatform(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, version string, n NewPlatform) (p Platform, err error) {
	err = postgres.InTx(ctx, s.db, "registry.create-platform", func(tx postgres.Tx) error {
		v, err := providerVersionAt(ctx, tx, actor, authz.ProvidersManage, organization, a, version)
		if err != nil {
			return err
		}
		if v, err = lockProviderVersion(ctx, tx, v.ID); err != nil {
			return err
		}
		if err := n.check(); err != nil {
			return err
		}
		id := ids.New[ids.RegistryProviderPlatform]()
		_, err = postgres.Exec(ctx, tx, Queries.Get("PlatformInsert"), postgres.Args{
			"id": id, "organization_id": v.Organization, "version_id": v.ID, "os": n.OS, "arch": n.Arch, "filename": n.Filename, "shasum": n.Shasum,
		})
		if _, constraint := postgres.Violation(err); constraint == "registry_provider_platforms_platform" {
			return accounts.Taken("os", "Platform")
		}
		if err != nil {
			return err
		}
		if p, err = loadPlatform(ctx, tx, id); err != nil {
			return err
		}
		if v.Signed() {
			files, err := s.signedFiles(ctx, tx, v)
			if err != nil {
				return err
			}
			sums, err := readChecksums(files.shasums)
			if err != nil {
				return err
			}
			if err := sums.check(p); err != nil {
				return err
			}
		}
		return record(ctx, tx, actor, v.Organization, "registry-provider-platform.created", "registry-provider-platform", string(id),
			map[string]any{"provider": a.String(), "version": version, "os": n.OS, "arch": n.Arch, "shasum": n.Shasum})
	})
	return p, err
}

func loadPlatform(ctx context.Context, tx postgres.Tx, id ids.RegistryProviderPlatform) (Platform, error) {
	p, err := postgres.One[Platform](ctx, tx, Queries.Get("PlatformGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Platform{}, fault.Missing("registry provider platform", string(id))
	}
	return p, err
}

func platformOf(ctx context.Context, tx postgres.Tx, v ProviderVersion, os, arch string) (Platform, error) {
	p, err := postgres.One[Platform](ctx, tx, Queries.Get("PlatformOf"), postgres.Args{"version_id": v.ID, "os": os, "arch": arch})
	if postgres.NoRow(err) {
		return Platform{}, fault.Missing("registry provider platform", os+"_"+arch)
	}
	return p, err
}

// PlatformAt gives one platform of a version.
func (s *Service) PlatformAt(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, version, os, arch string) (p Platform, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.platform", func(tx postgres.Tx) error {
		v, err := providerVersionAt(ctx, tx, actor, authz.OrganizationRead, organization, a, version)
		if err != nil {
			return err
		}
		p, err = platformOf(ctx, tx, v, os, arch)
		return err
	})
	return p, err
}

// Platforms gives a page of the platforms of a version, and counts all.
func (s *Service) Platforms(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, version string, page Page) (found []Platform, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.platforms", func(tx postgres.Tx) error {
		v, err := providerVersionAt(ctx, tx, actor, authz.OrganizationRead, organization, a, version)
		if err != nil {
			return err
		}
		found, total, err = list[Platform](ctx, tx, "PlatformList", "PlatformCount", postgres.Args{"version_id": v.ID, "limit": page.Limit, "offset": page.Offset})
		return err
	})
	return found, total, err
}

// DeletePlatform removes a platform with its package.
func (s *Service) DeletePlatform(ctx context.Context, actor authz.Actor, organization string, a ProviderAddress, version, os, arch string) error {
	return postgres.InTx(ctx, s.db, "registry.delete-platform", func(tx postgres.Tx) error {
		v, err := providerVersionAt(ctx, tx, actor, authz.ProvidersManage, organization, a, version)
		if err != nil {
			return err
		}
		if v, err = lockProviderVersion(ctx, tx, v.ID); err != nil {
			return err
		}
		p, err := platformOf(ctx, tx, v, os, arch)
		if err != nil {
			return err
		}
		if p.ObjectID != "" {
			if err := s.objects.Discard(ctx, tx, p.Organization, p.ObjectID); err != nil {
				return err
			}
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("PlatformDelete"), postgres.Args{"id": p.ID}); err != nil {
			return err
		}
		return record(ctx, tx, actor, v.Organization, "registry-provider-platform.deleted", "registry-provider-platform", string(p.ID),
			map[string]any{"provider": a.String(), "version": version, "os": os, "arch": arch})
	})
}

// zipMagic is how a zip with something in it begins.
var zipMagic = []byte("PK\x03\x04")

// UploadPackage takes the zip of a platform. The caller has proved by a link that it may. Bytes
// whose SHA-256 is another than the platform says are Invalid "package_refused", and so is what
// is no zip; nothing is kept of them. Repeating an upload changes nothing.
func (s *Service) UploadPackage(ctx context.Context, id ids.RegistryProviderPlatform, body io.Reader) error {
	var p Platform
	var in artifacts.Intent
	err := postgres.InTx(ctx, s.db, "registry.intend-package", func(tx postgres.Tx) (err error) {
		if p, err = loadPlatform(ctx, tx, id); err != nil {
			return err
		}
		in, err = s.objects.Intend(ctx, tx, artifacts.Spec{Organization: p.Organization, Kind: artifacts.KindProviderPackage})
		return err
	})
	if err != nil {
		return err
	}
	head := &beginning{left: len(zipMagic)}
	object, err := s.objects.Store(ctx, in, body, s.limits.Provider, head)
	if err != nil {
		return err
	}
	used := false
	switch {
	case !strings.EqualFold(object.SHA256, p.Shasum):
		err = fault.New(fault.Invalid, "package_refused", "The upload has the SHA-256 %s, and the platform %s_%s says %s. Upload the zip that the sum was made of, or create the platform anew.", object.SHA256, p.OS, p.Arch, p.Shasum)
	case !bytes.Equal(head.seen, zipMagic):
		err = fault.New(fault.Invalid, "package_refused", "The upload is no zip, which the package of a provider must be.")
	default:
		err = postgres.InTx(context.WithoutCancel(ctx), s.db, "registry.package-uploaded", func(tx postgres.Tx) (err error) {
			used, err = s.publishPackage(ctx, tx, p, object)
			return err
		})
	}
	if err != nil || !used {
		s.objects.GiveUp(ctx, in)
	}
	return err
}

// beginning keeps the first bytes of what is written to it.
type beginning struct {
	left int
	seen []byte
}

func (b *beginning) Write(p []byte) (int, error) {
	n := min(b.left, len(p))
	b.seen, b.left = append(b.seen, p[:n]...), b.left-n
	return len(p), nil
}

// publishPackage makes stored bytes the package of a platform. They are not used when it has one.
func (s *Service) publishPackage(ctx context.Context, tx postgres.Tx, p Platform, object artifacts.Object) (used bool, err error) {
	if _, err := lockProviderVersion(ctx, tx, p.Version); err != nil {
		return false, err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("PlatformUploaded"), postgres.Args{"id": p.ID, "object_id": object.ID})
	if err != nil {
		return false, err
	}
	if n == 0 {
		_, err := loadPlatform(ctx, tx, p.ID)
		return false, err // nil: the repeat of an upload, for the sum is the same
	}
	if err := s.objects.Confirm(ctx, tx, p.Organization, object); err != nil {
		return false, err
	}
	return true, record(ctx, tx, authz.System(), p.Organization, "registry-provider-platform.uploaded", "registry-provider-platform", string(p.ID),
		map[string]any{"os": p.OS, "arch": p.Arch, "sha256": object.SHA256, "bytes": object.Size})
}

// InstallableVersion is a version of a provider that tofu may choose.
type InstallableVersion struct {
	Version   string
	Protocols []string
	Platforms []string // OS/ARCH of each package
}

// InstallableProvider gives the versions of a private provider that tofu may choose from, the
// newest first. A provider without any is NotFound, like no provider.
func (s *Service) InstallableProvider(ctx context.Context, actor authz.Actor, namespace, name string) (versions []InstallableVersion, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.installable-provider", func(tx postgres.Tx) error {
		p, err := providerFor(ctx, tx, actor, namespace, name)
		if err != nil {
			return err
		}
		versions, err = postgres.All[InstallableVersion](ctx, tx, Queries.Get("ProviderVersionsInstallable"), postgres.Args{"provider_id": p.ID})
		if err == nil && len(versions) == 0 {
			err = fault.Missing("registry provider", namespace+"/"+name)
		}
		return err
	})
	return versions, err
}

// providerFor finds the provider that a configuration means.
func providerFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, namespace, name string) (Provider, error) {
	org, err := organizationAs(ctx, tx, actor, namespace)
	if err != nil {
		return Provider{}, err
	}
	p, err := providerIn(ctx, tx, org, ProviderAddress{Private, org.Name, name})
	if fault.Is(err, fault.NotFound) {
		err = fault.Missing("registry provider", namespace+"/"+name)
	}
	return p, err
}

// Package is what tofu needs to install a provider on a platform.
type Package struct {
	Version  ProviderVersion
	Platform Platform
	Key      GPGKey
}

// Package gives the installable package of a private provider for a platform.
func (s *Service) Package(ctx context.Context, actor authz.Actor, namespace, name, version, os, arch string) (found Package, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.package", func(tx postgres.Tx) error {
		p, err := providerFor(ctx, tx, actor, namespace, name)
		if err != nil {
			return err
		}
		if found.Version, err = providerVersionOf(ctx, tx, p, version); err != nil {
			return err
		}
		if found.Platform, err = platformOf(ctx, tx, found.Version, os, arch); err != nil {
			return err
		}
		if !found.Version.Signed() || found.Platform.ObjectID == "" {
			return fault.Missing("registry provider platform", os+"_"+arch)
		}
		found.Key, err = postgres.One[GPGKey](ctx, tx, Queries.Get("KeyByID"), postgres.Args{"id": found.Version.GPGKeyID})
		return err
	})
	return found, err
}

// OpenPackage gives the zip of a platform as it was uploaded, and its size in bytes. The caller
// has proved by a link that it may, and closes the reader.
func (s *Service) OpenPackage(ctx context.Context, id ids.RegistryProviderPlatform) (io.ReadCloser, int64, error) {
	var p Platform
	err := postgres.InOneStatement(ctx, s.db, "registry.open-package", func(tx postgres.Tx) (err error) {
		p, err = loadPlatform(ctx, tx, id)
		return err
	})
	if err == nil && p.ObjectID == "" {
		err = fault.Missing("registry provider platform", string(id))
	}
	if err != nil {
		return nil, 0, err
	}
	body, object, err := s.objects.Open(ctx, p.Organization, p.ObjectID)
	return body, object.Size, err
}
