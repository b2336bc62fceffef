package runner

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// packages is the runner's cache of provider packages. Only the runner writes there, and
// only what has the hash that an attempt's lock file names for it; attempts see of it, read-only,
// what their own lock files name by hash. It is divided: what one organization has
// installed is not there for another, nor what a speculative run has for one that applies.
type packages struct{ dir string } // "" keeps nothing

// shelf is the part of the cache for one attempt.
type shelf struct{ dir string } // "" keeps nothing

const (
	unusedFor  = 30 * 24 * time.Hour // after which a package goes, when the runner starts
	unfinished = ".new-"             // begins the name of a package that is being copied
)

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

func (p packages) shelf(organization string, speculative bool) shelf {
	if p.dir == "" || !plainName.MatchString(organization) { // a server of the old protocol names none
		return shelf{}
	}
	kind := "applying"
	if speculative {
		kind = "speculative"
	}
	return shelf{filepath.Join(p.dir, organization, kind)}
}

// speculative tells whether nothing of the attempt can ever be applied.
func speculative(m wire.Manifest) bool {
	_, applicable := find(m.Outputs, wire.KindPlan)
	return m.Phase == "plan" && !applicable
}

// clear removes what nobody has used for long, and what a killed runner left half done.
func (p packages) clear() {
	found, _ := filepath.Glob(filepath.Join(globQuoter.Replace(p.dir), "*", "*", "*"))
	half, _ := filepath.Glob(filepath.Join(globQuoter.Replace(p.dir), "*", "*", unfinished+"*"))
	for _, dir := range append(found, half...) {
		info, err := os.Stat(dir)
		if err != nil || (clock.Since(info.ModTime()) < unusedFor && !strings.HasPrefix(filepath.Base(dir), unfinished)) {
			continue
		}
		if err := removeAll(dir); err != nil {
			slog.Error("could not remove a package from the cache of providers", "folder", dir, "error", err)
		}
	}
}

// place is where the package with a hash lies, "" for what is no such hash.
func (s shelf) place(h1 string) string {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h1, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return ""
	}
	return filepath.Join(s.dir, hex.EncodeToString(sum))
}

// take copies into the cache what init has installed and is not there yet. It is called
// before anything of the configuration runs. What fails costs the next attempt a
// download, and this one nothing.
func (s shelf) take(box sandbox) {
	if s.dir == "" {
		return
	}
	locked, err := readLockFile(box)
	for _, p := range locked {
		err = errors.Join(err, s.takeOne(box, p))
	}
	if err != nil {
		slog.Warn("a provider was not kept for other attempts", "folder", box.path, "error", err)
	}
}

func (s shelf) takeOne(box sandbox, p lockedProvider) error {
	if slices.ContainsFunc(p.hashes, func(h1 string) bool { place := s.place(h1); return place != "" && isFolder(place) }) {
		return nil
	}
	root, err := os.OpenRoot(box.work) // no link leads out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	installed := filepath.Join(".terraform", "providers", filepath.FromSlash(p.address), p.version, platform)
	if info, err := root.Lstat(installed); err != nil || !info.IsDir() {
		return nil //nolint:nilerr // a link into a mirror of this machine, or not for this platform
	}
	from, err := root.OpenRoot(installed)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	return s.keep(from.FS(), p)
}

// keep copies a package and keeps the copy if it has one of the hashes.
func (s shelf) keep(from fs.FS, p lockedProvider) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(s.dir, unfinished)
	if err != nil {
		return err
	}
	defer func() { _ = removeAll(fresh) }() // nothing is there once it has its place
	if err := copyPackage(from, fresh); err != nil {
		return err
	}
	h1, err := packageHash(fresh)
	if err != nil {
		return err
	}
	if !slices.Contains(p.hashes, h1) {
		return fmt.Errorf("the package of %s %s has the hash %s, which its lock file does not name", p.address, p.version, h1)
	}
	err = os.Rename(fresh, s.place(h1))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// lay makes a mirror, in the sandbox, of those packages that the lock file names by a hash of
// which the cache has one; other providers come from where they come from without a cache.
// It gives their addresses, and the folders that the attempt must be able to read.
func (s shelf) lay(box sandbox, elsewhere []string) (addresses, folders []string, err error) {
	if s.dir == "" {
		return nil, nil, nil
	}
	locked, err := readLockFile(box)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range locked {
		folder := s.find(p)
		if folder == "" || slices.Contains(elsewhere, p.address) {
			continue
		}
		link := filepath.Join(box.mirror(), filepath.FromSlash(p.address), p.version, platform)
		if err := os.MkdirAll(filepath.Dir(link), 0o700); err != nil {
			return nil, nil, err
		}
		if err := os.Symlink(folder, link); err != nil {
			return nil, nil, err
		}
		addresses, folders = append(addresses, p.address), append(folders, folder)
	}
	return addresses, folders, nil
}

// find gives the folder of a locked package, "" when there is none. The hash is computed
// anew: bytes that changed in the cache fail nobody's run, they go.
func (s shelf) find(p lockedProvider) string {
	for _, h1 := range p.hashes {
		folder := s.place(h1)
		if folder == "" || !isFolder(folder) {
			continue
		}
		if now, err := packageHash(folder); err != nil || now != h1 {
			slog.Error("a package in the cache of providers is not what it was and is removed", "folder", folder, "error", err)
			_ = removeAll(folder)
			continue
		}
		_ = os.Chtimes(folder, clock.Now(), clock.Now()) // it was used
		return folder
	}
	return ""
}

func isFolder(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// copyPackage copies plain files and folders; a package has nothing else.
func copyPackage(from fs.FS, to string) error {
	return fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(name))
		switch {
		case name == ".":
			return nil
		case d.IsDir():
			return os.Mkdir(target, 0o700)
		case !d.Type().IsRegular():
			return fmt.Errorf("%s in a provider's package is no plain file", name)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		in, err := from.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = in.Close() }()
		out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400|info.Mode().Perm()&0o100)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, in)
		return errors.Join(err, out.Close())
	})
}

// packageHash is tofu's "h1:" hash of an unpacked package: the SHA-256 of the list of the
// SHA-256 of all its files, as the Go tools make it of a module.
func packageHash(dir string) (string, error) {
	var names []string
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		return "", err
	}
	slices.Sort(names)
	list := sha256.New()
	for _, name := range names {
		sum, err := digestOf(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(list, "%s  %s\n", sum, name)
	}
	return "h1:" + base64.StdEncoding.EncodeToString(list.Sum(nil)), nil
}

// lockedProvider is what a lock file says of a provider.
type lockedProvider struct {
	address string // HOST/NAMESPACE/TYPE
	version string
	hashes  []string // those of unpacked packages
}

var (
	lockedAddress = regexp.MustCompile(`^provider\s+"([^"]+)"\s*\{`)
	lockedVersion = regexp.MustCompile(`^\s*version\s*=\s*"([^"]+)"`)
	lockedHash    = regexp.MustCompile(`"(h1:[A-Za-z0-9+/]+=*)"`)
	addressParts  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.:-]*(/[A-Za-z0-9][A-Za-z0-9_.-]*){2}$`)
	versionParts  = regexp.MustCompile(`^[0-9][0-9A-Za-z.+-]*$`)
)

// readLockFile reads what tofu wrote; no lock file locks nothing. Lines that tofu would
// not write are passed over: whatever is taken or given for them, tofu checks by itself.
func readLockFile(box sandbox) (locked []lockedProvider, err error) {
	text, err := os.ReadFile(box.lockFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p *lockedProvider
	for line := range strings.Lines(string(text)) {
		if match := lockedAddress.FindStringSubmatch(line); match != nil {
			locked = append(locked, lockedProvider{address: match[1]})
			p = &locked[len(locked)-1]
			continue
		}
		if p == nil {
			continue
		}
		if match := lockedVersion.FindStringSubmatch(line); match != nil {
			p.version = match[1]
		}
		for _, match := range lockedHash.FindAllStringSubmatch(line, -1) {
			p.hashes = append(p.hashes, match[1])
		}
	}
	return slices.DeleteFunc(locked, func(p lockedProvider) bool {
		return !addressParts.MatchString(p.address) || path.Clean(p.address) != p.address || !versionParts.MatchString(p.version)
	}), nil
}

// fromCache lays what the cache has for the attempt, and gives the folders to show it.
func (a *attempt) fromCache() (folders []string, err error) {
	elsewhere, err := providersIn(a.providers.folder)
	if err != nil {
		return nil, err
	}
	a.providers.cached, folders, err = a.shelf.lay(a.sandbox, elsewhere)
	a.providers.cache = a.sandbox.mirror()
	return folders, err
}
