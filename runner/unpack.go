package runner

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// limits bound what an archive may become.
type limits struct {
	bytes      int64 // unpacked, headers and holes included
	entries    int   // files, links and folders, those that no entry names included
	ratio      int64 // unpacked bytes per packed byte …
	ratioFloor int64 // … which counts from this many unpacked bytes on: small text packs well
}

// configurationLimits are those of a configuration.
var configurationLimits = limits{bytes: 1 << 30, entries: 100_000, ratio: 100, ratioFloor: 10 << 20}

// unpack writes a tar.gz below the existing folder dir, and nothing outside of it.
// Entries that would leave the folder, are written through a link, or are neither
// file, folder nor symbolic link are refused, and so is an archive over a limit; the
// error names the entry. What was written before stays, to be removed with the folder.
func unpack(archive io.Reader, dir string, limit limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()

	u := unpacker{root: root, limit: limit, folders: map[string]bool{".": true}}
	packed := &countingReader{from: archive, count: &u.packed}
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		return fmt.Errorf("the configuration is not a gzip file: %w", err)
	}
	entries := tar.NewReader(&countingReader{from: unzipped, count: &u.stream, check: u.check})
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return u.checkLinks()
		}
		if err != nil {
			return fmt.Errorf("the configuration cannot be read after the entry %q: %w", u.name, err)
		}
		u.name = entry.Name
		if err := u.add(entry, entries); err != nil {
			return fmt.Errorf("the configuration's entry %q was refused: %w", entry.Name, err)
		}
	}
}

// unpacker is the state of one unpacking.
type unpacker struct {
	root    *os.Root
	limit   limits
	packed  int64           // bytes read of the archive
	stream  int64           // bytes they became
	written int64           // bytes of files; more than stream where files have holes
	made    int             // things made
	folders map[string]bool // real folders, known not to be links
	links   []string
	name    string // of the entry at hand
}

// check holds the limits of size.
func (u *unpacker) check() error {
	unpacked := max(u.stream, u.written)
	if unpacked > u.limit.bytes {
		return fmt.Errorf("the configuration unpacks to more than %d bytes", u.limit.bytes)
	}
	if unpacked > u.limit.ratioFloor && unpacked > u.limit.ratio*u.packed {
		return fmt.Errorf("the configuration unpacks to more than %d times its size", u.limit.ratio)
	}
	return nil
}

// count holds the limit of entries, for each thing that is made.
func (u *unpacker) count() error {
	if u.made++; u.made > u.limit.entries {
		return fmt.Errorf("the configuration has more than %d entries", u.limit.entries)
	}
	return nil
}

func (u *unpacker) add(entry *tar.Header, content io.Reader) error {
	if entry.Typeflag == tar.TypeXGlobalHeader { // what `git archive` writes first; it makes no file
		return u.count()
	}
	if path.IsAbs(entry.Name) {
		return errors.New("its name is absolute")
	}
	if slices.Contains(strings.Split(entry.Name, "/"), "..") {
		return errors.New(`its name has ".." in it`)
	}
	name := path.Clean(entry.Name)
	if name == "." {
		return u.count()
	}
	if err := u.makeFolder(path.Dir(name), 0o700); err != nil {
		return err
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return u.makeFolder(name, entry.FileInfo().Mode().Perm())
	case tar.TypeReg, tar.TypeGNUSparse:
		return u.makeFile(name, entry, content)
	case tar.TypeSymlink:
		return u.makeLink(name, entry.Linkname)
	case tar.TypeLink:
		return errors.New("it is a hard link")
	case tar.TypeChar, tar.TypeBlock:
		return errors.New("it is a device")
	case tar.TypeFifo:
		return errors.New("it is a named pipe")
	default:
		return fmt.Errorf("it is neither file, folder nor symbolic link (tar type %q)", entry.Typeflag)
	}
}

// makeFolder makes a folder and those above it. One that is there already must be a
// real folder: a link would move what is written below it elsewhere.
func (u *unpacker) makeFolder(name string, mode fs.FileMode) error {
	if u.folders[name] {
		return nil
	}
	if err := u.makeFolder(path.Dir(name), 0o700); err != nil {
		return err
	}
	switch there, err := u.root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		if err := u.count(); err != nil {
			return err
		}
		if err := u.root.Mkdir(name, mode|0o700); err != nil {
			return err
		}
	case err != nil:
		return err
	case there.Mode()&fs.ModeSymlink != 0:
		return fmt.Errorf("it would be written through the link %q", name)
	case !there.IsDir():
		return fmt.Errorf("%q is a file already", name)
	}
	u.folders[name] = true
	return nil
}

func (u *unpacker) makeFile(name string, entry *tar.Header, content io.Reader) error {
	if entry.Size > u.limit.bytes-u.written {
		return fmt.Errorf("the configuration unpacks to more than %d bytes", u.limit.bytes)
	}
	if err := u.clear(name); err != nil {
		return err
	}
	if err := u.count(); err != nil {
		return err
	}
	// Permission bits only: setuid, setgid and sticky are not for a configuration.
	mode := entry.FileInfo().Mode().Perm() | 0o600
	file, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(file, &countingReader{from: content, count: &u.written, check: u.check}); err != nil {
		return err
	}
	return file.Close()
}

// makeLink makes a symbolic link whose target, read as text, stays inside. Whether
// it also does when followed through other links is known at the end.
func (u *unpacker) makeLink(name, target string) error {
	if path.IsAbs(target) {
		return fmt.Errorf("it links to the absolute path %q", target)
	}
	if to := path.Join(path.Dir(name), target); to == ".." || strings.HasPrefix(to, "../") {
		return fmt.Errorf("it links to %q, which is outside of the configuration", target)
	}
	if there, err := u.root.Lstat(name); err == nil && there.Mode()&fs.ModeSymlink != 0 {
		if err := u.root.Remove(name); err != nil {
			return err
		}
	} else if err := u.clear(name); err != nil {
		return err
	}
	if err := u.count(); err != nil {
		return err
	}
	u.links = append(u.links, name)
	return u.root.Symlink(target, name)
}

// clear removes an earlier file of the same name, as tar does.
func (u *unpacker) clear(name string) error {
	there, err := u.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.Mode()&fs.ModeSymlink != 0:
		return errors.New("it would be written through the link of the same name")
	case there.IsDir():
		return errors.New("a folder of the same name is there already")
	}
	return u.root.Remove(name)
}

// checkLinks follows every link, now that all are made. os.Root does not leave the
// folder; a link that wants to is told from one that leads nowhere.
func (u *unpacker) checkLinks() error {
	for _, name := range u.links {
		_, err := u.root.Stat(name)
		switch {
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		default:
			return fmt.Errorf("the configuration's entry %q was refused: it links to the outside: %w", name, err)
		}
	}
	return nil
}

// countingReader counts what is read, and may object.
type countingReader struct {
	from  io.Reader
	count *int64
	check func() error
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	*r.count += int64(n)
	if r.check != nil {
		if objection := r.check(); objection != nil {
			return 0, objection
		}
	}
	return n, err
}
