package registry

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/archive"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// The statuses of a module's version.
const (
	VersionPending = "pending" // its archive is to come
	VersionOK      = "ok"
	VersionFailed  = "failed" // its archive was refused; another may come
)

// ModuleVersion is one version of a module.
type ModuleVersion struct {
	ID           ids.RegistryModuleVersion
	Organization ids.Organization
	Module       ids.RegistryModule
	Version      string
	CommitSHA    string
	Status       string
	Error        string
	ObjectID     ids.Object // empty before its archive came
	InstalledAt  *time.Time
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Replaceable tells whether its archive may come, or come anew.
func (v ModuleVersion) Replaceable() bool { return v.InstalledAt == nil }

const maxCommit = 64

// CreateModuleVersion announces a version of a module of the private registry; its archive
// follows by UploadModule.
func (s *Service) CreateModuleVersion(ctx context.Context, actor authz.Actor, organization string, a ModuleAddress, version, commit string) (v ModuleVersion, err error) {
	err = postgres.InTx(ctx, s.db, "registry.create-module-version", func(tx postgres.Tx) error {
		m, err := moduleAt(ctx, tx, actor, authz.ModulesManage, organization, a)
		if err != nil {
			return err
		}
		sorted, err := precedence(version)
		if err != nil {
			return err
		}
		if err := accounts.CheckText("commit-sha", "Commit SHA", commit, maxCommit); err != nil {
			return err
		}
		id := ids.New[ids.RegistryModuleVersion]()
		n, err := postgres.Exec(ctx, tx, Queries.Get("ModuleVersionInsert"), postgres.Args{"id": id, "module_id": m.ID, "version": version, "precedence": sorted, "commit_sha": commit})
		if _, constraint := postgres.Violation(err); constraint == "registry_module_versions_version" {
			return accounts.Taken("version", "Version")
		}
		if err != nil {
			return err
		}
		if n == 0 { // deleted since it was read
			return fault.Missing("registry module", a.String())
		}
		if v, err = loadModuleVersion(ctx, tx, id); err != nil {
			return err
		}
		return record(ctx, tx, actor, m.Organization, "registry-module-version.created", "registry-module-version", string(id), map[string]any{"module": a.String(), "version": version})
	})
	return v, err
}

func loadModuleVersion(ctx context.Context, tx postgres.Tx, id ids.RegistryModuleVersion) (ModuleVersion, error) {
	v, err := postgres.One[ModuleVersion](ctx, tx, Queries.Get("ModuleVersionGet"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return ModuleVersion{}, fault.Missing("registry module version", string(id))
	}
	return v, err
}

// moduleVersionOf gives a version of a module by what it is called.
func moduleVersionOf(ctx context.Context, tx postgres.Tx, m Module, version string) (ModuleVersion, error) {
	v, err := postgres.One[ModuleVersion](ctx, tx, Queries.Get("ModuleVersionOf"), postgres.Args{"module_id": m.ID, "version": version})
	if postgres.NoRow(err) {
		return ModuleVersion{}, fault.Missing("registry module version", version)
	}
	return v, err
}

// ModuleVersionAt gives one version of a module.
func (s *Service) ModuleVersionAt(ctx context.Context, actor authz.Actor, organization string, a ModuleAddress, version string) (v ModuleVersion, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.module-version", func(tx postgres.Tx) error {
		m, err := moduleAt(ctx, tx, actor, authz.OrganizationRead, organization, a)
		if err != nil {
			return err
		}
		v, err = moduleVersionOf(ctx, tx, m, version)
		return err
	})
	return v, err
}

// UploadModule takes the archive of an announced version, a tar.gz. The caller has proved by a
// link that it may. An archive that is refused (Invalid "archive_refused", TooLarge) leaves the
// version failed, unless it has one. Until somebody installs the version another archive takes
// the place of the one before; after that the same bytes are welcome, and others are Conflict
// "module_version_installed".
func (s *Service) UploadModule(ctx context.Context, id ids.RegistryModuleVersion, body io.Reader) error {
	var v ModuleVersion
	var in artifacts.Intent
	err := postgres.InTx(ctx, s.db, "registry.intend-module", func(tx postgres.Tx) (err error) {
		if v, err = loadModuleVersion(ctx, tx, id); err != nil {
			return err
		}
		in, err = s.objects.Intend(ctx, tx, artifacts.Spec{Organization: v.Organization, Kind: artifacts.KindModule})
		return err
	})
	if err != nil {
		return err
	}
	object, err := s.storeArchive(ctx, in, body)
	if err != nil {
		s.objects.GiveUp(ctx, in)
		s.noteFailed(ctx, v, err)
		return err
	}
	used := false
	err = postgres.InTx(context.WithoutCancel(ctx), s.db, "registry.module-uploaded", func(tx postgres.Tx) (err error) {
		used, err = s.publish(ctx, tx, id, object)
		return err
	})
	if err != nil || !used {
		s.objects.GiveUp(ctx, in)
	}
	return err
}

// storeArchive seals the bytes while checking that they are an archive which can be unpacked.
func (s *Service) storeArchive(ctx context.Context, in artifacts.Intent, body io.Reader) (object artifacts.Object, err error) {
	err = archive.CheckBeside(body, func(body io.Reader) (err error) {
		object, err = s.objects.Store(ctx, in, body, s.limits.Module, io.Discard)
		return err
	})
	return object, err
}

// publish makes stored bytes those of a version. They are not used when it has the same already.
func (s *Service) publish(ctx context.Context, tx postgres.Tx, id ids.RegistryModuleVersion, object artifacts.Object) (used bool, err error) {
	if _, err := postgres.Value[ids.RegistryModuleVersion](ctx, tx, Queries.Get("ModuleVersionLock"), postgres.Args{"id": id}); err != nil && !postgres.NoRow(err) {
		return false, err
	}
	v, err := loadModuleVersion(ctx, tx, id) // it may be gone by now
	if err != nil {
		return false, err
	}
	if v.ObjectID != "" {
		had, err := s.objects.Info(ctx, tx, v.Organization, v.ObjectID)
		if err != nil || had.SHA256 == object.SHA256 {
			return false, err
		}
	}
	if err := s.objects.Confirm(ctx, tx, v.Organization, object); err != nil {
		return false, err
	}
	n, err := postgres.Exec(ctx, tx, Queries.Get("ModuleVersionUploaded"), postgres.Args{"id": id, "object_id": object.ID})
	if err != nil {
		return false, err
	}
	if n == 0 {
		return false, fault.New(fault.Conflict, "module_version_installed", "Version %s is in use, so its archive does not change any more. Publish a new version.", v.Version)
	}
	if v.ObjectID != "" {
		if err := s.objects.Discard(ctx, tx, v.Organization, v.ObjectID); err != nil {
			return false, err
		}
	}
	return true, record(ctx, tx, authz.System(), v.Organization, "registry-module-version.uploaded", "registry-module-version", string(id),
		map[string]any{"module": v.Module, "version": v.Version, "sha256": object.SHA256, "bytes": object.Size})
}

// noteFailed writes down why an archive was refused.
func (s *Service) noteFailed(ctx context.Context, v ModuleVersion, cause error) {
	var why *fault.Error
	if !errors.As(cause, &why) || (why.Kind != fault.Invalid && why.Kind != fault.TooLarge) {
		return // it may be repeated
	}
	ctx = context.WithoutCancel(ctx)
	_ = postgres.InTx(ctx, s.db, "registry.module-failed", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("ModuleVersionFailed"), postgres.Args{"id": v.ID, "error": why.Message})
		return err
	})
}

// DeleteModuleVersion removes a version, and its module with the last one.
func (s *Service) DeleteModuleVersion(ctx context.Context, actor authz.Actor, organization string, a ModuleAddress, version string) error {
	return postgres.InTx(ctx, s.db, "registry.delete-module-version", func(tx postgres.Tx) error {
		m, err := moduleAt(ctx, tx, actor, authz.ModulesManage, organization, a)
		if err != nil {
			return err
		}
		if _, err := postgres.Value[ids.RegistryModule](ctx, tx, Queries.Get("ModuleLock"), postgres.Args{"id": m.ID}); err != nil && !postgres.NoRow(err) {
			return err
		}
		v, err := moduleVersionOf(ctx, tx, m, version)
		if err != nil {
			return err
		}
		if err := s.discardAll(ctx, tx, m.Organization, "ModuleVersionObjects", postgres.Args{"id": v.ID}); err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ModuleVersionDelete"), postgres.Args{"id": v.ID}); err != nil {
			return err
		}
		err = record(ctx, tx, actor, m.Organization, "registry-module-version.deleted", "registry-module-version", string(v.ID), map[string]any{"module": a.String(), "version": version})
		if err != nil {
			return err
		}
		left, err := postgres.Value[int](ctx, tx, Queries.Get("ModuleVersionCount"), postgres.Args{"module_id": m.ID})
		if err != nil || left > 0 {
			return err
		}
		return s.deleteModule(ctx, tx, actor, m)
	})
}

// InstallableVersions gives the versions of a private module that tofu may choose from, the
// newest first. A module without any is NotFound, like no module.
func (s *Service) InstallableVersions(ctx context.Context, actor authz.Actor, namespace, name, provider string) (versions []string, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.module-versions", func(tx postgres.Tx) error {
		m, err := moduleFor(ctx, tx, actor, namespace, name, provider)
		if err != nil {
			return err
		}
		versions, err = postgres.Values[string](ctx, tx, Queries.Get("ModuleVersionsInstallable"), postgres.Args{"module_id": m.ID})
		if err == nil && len(versions) == 0 {
			err = fault.Missing("registry module", m.address().String())
		}
		return err
	})
	return versions, err
}

// Published gives a version of a private module as a catalogue shows it, the newest where version is
// empty, with all versions that tofu may choose from, the newest first. What cannot be installed
// is NotFound. It is no installing: the archive may still be replaced.
func (s *Service) Published(ctx context.Context, actor authz.Actor, namespace, name, provider, version string) (m Module, v ModuleVersion, versions []string, err error) {
	err = postgres.InSnapshot(ctx, s.db, "registry.published-module", func(tx postgres.Tx) error {
		if m, err = moduleFor(ctx, tx, actor, namespace, name, provider); err != nil {
			return err
		}
		if versions, err = postgres.Values[string](ctx, tx, Queries.Get("ModuleVersionsInstallable"), postgres.Args{"module_id": m.ID}); err != nil {
			return err
		}
		if len(versions) == 0 {
			return fault.Missing("registry module", m.address().String())
		}
		if version == "" {
			version = versions[0]
		}
		if v, err = moduleVersionOf(ctx, tx, m, version); err == nil && v.Status != VersionOK {
			err = fault.Missing("registry module version", version)
		}
		return err
	})
	return m, v, versions, err
}

// moduleFor finds the module that a configuration means, also one that another organization shares.
func moduleFor(ctx context.Context, tx postgres.Tx, actor authz.Actor, namespace, name, provider string) (Module, error) {
	org, err := accounts.SourceOf(ctx, tx, actor, accounts.SharedModules, namespace)
	if err != nil {
		return Module{}, err
	}
	return moduleIn(ctx, tx, org, ModuleAddress{Private, namespace, name, provider})
}

// Install gives a version of a private module to somebody who is about to install it: from now
// on its archive stays as it is.
func (s *Service) Install(ctx context.Context, actor authz.Actor, namespace, name, provider, version string) (v ModuleVersion, err error) {
	find := func(tx postgres.Tx) error {
		m, err := moduleFor(ctx, tx, actor, namespace, name, provider)
		if err != nil {
			return err
		}
		if v, err = moduleVersionOf(ctx, tx, m, version); err == nil && v.Status != VersionOK {
			err = fault.Missing("registry module version", version)
		}
		return err
	}
	if err = postgres.InSnapshot(ctx, s.db, "registry.install", find); err != nil || v.InstalledAt != nil {
		return v, err
	}
	err = postgres.InTx(ctx, s.db, "registry.first-install", func(tx postgres.Tx) error {
		if err := find(tx); err != nil {
			return err
		}
		_, err := postgres.Exec(ctx, tx, Queries.Get("ModuleVersionInstalled"), postgres.Args{"id": v.ID}) // zero rows: another was first
		return err
	})
	return v, err
}

// OpenModule gives the archive of a version as it was uploaded, and its size in bytes. The
// caller has proved by a link that it may, and closes the reader.
func (s *Service) OpenModule(ctx context.Context, id ids.RegistryModuleVersion) (io.ReadCloser, int64, error) {
	var v ModuleVersion
	err := postgres.InOneStatement(ctx, s.db, "registry.open-module", func(tx postgres.Tx) (err error) {
		v, err = loadModuleVersion(ctx, tx, id)
		return err
	})
	if err == nil && v.ObjectID == "" {
		err = fault.Missing("registry module version", string(id))
	}
	if err != nil {
		return nil, 0, err
	}
	body, object, err := s.objects.Open(ctx, v.Organization, v.ObjectID)
	return body, object.Size, err
}
