package archive

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// limits bound what an archive may become.
type limits struct {
	bytes      int64 // unpacked, headers and holes included
	entries    int   // files, links and folders, those that no entry names included
	ratio      int64 // unpacked bytes per packed byte …
	ratioFloor int64 // … which counts from this many unpacked bytes on: small text packs well
}

var configurationLimits = limits{bytes: 1 << 30, entries: 100_000, ratio: 100, ratioFloor: 10 << 20}

// Unpack writes the archive below the existing folder dir, and nothing outside of
// it. What was written before a refusal stays, to be removed with the folder.
// Errors: Invalid "archive_refused" naming the entry and why; those of the disk.
func Unpack(archive io.Reader, dir string) error {
	t, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer t.close()
	return walk(archive, t, configurationLimits)
}

// Check reads the whole archive and answers what Unpack would, writing nothing. The
// memory used is bounded by the number of entries.
func Check(archive io.Reader) error {
	return walk(archive, names{".": node{kind: isFolder}}, configurationLimits)
}

// kind of a thing in a tree.
type kind int

const (
	isNothing kind = iota
	isFolder
	isFile
	isLink
)

// tree is where entries are made. Names are clean, relative and slash-separated.
type tree interface {
	kind(name string) (kind, error)
	mkdir(name string, mode fs.FileMode) error
	create(name string, mode fs.FileMode) (io.WriteCloser, error)
	symlink(target, name string) error
	remove(name string) error
	// staysInside follows a link through all others; one that leads nowhere is fine.
	staysInside(name string) error
}

func walk(archive io.Reader, to tree, limit limits) error {
	w := walker{tree: to, limit: limit}
	err := w.walk(archive)
	var refused *refusal
	if errors.As(err, &refused) {
		return fault.New(fault.Invalid, "archive_refused", "The configuration %s", refused.text)
	}
	return err
}

// refusal is an objection to the archive, not a failure of disk or network. It is
// to one entry, or to the whole.
type refusal struct {
	text  string
	whole bool
}

func (r *refusal) Error() string { return r.text }

func refuse(text string, args ...any) error { return &refusal{text: fmt.Sprintf(text, args...)} }

func refuseWhole(text string, args ...any) error {
	return &refusal{text: fmt.Sprintf(text, args...), whole: true}
}

// walker is the state of one walk.
type walker struct {
	tree    tree
	limit   limits
	packed  int64 // bytes read of the archive
	stream  int64 // bytes they became
	written int64 // bytes of files; more than stream where files have holes
	made    int   // things made
	links   []string
	name    string // of the entry at hand
}

func (w *walker) walk(archive io.Reader) error {
	unzipped, err := gzip.NewReader(&countingReader{from: archive, count: &w.packed})
	if err != nil {
		return w.unreadable(err)
	}
	content := &countingReader{from: unzipped, count: &w.stream, check: w.checkSize}
	entries := tar.NewReader(content)
	for {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return w.unreadable(err)
		}
		w.name = entry.Name
		if err := w.add(entry, entries); err != nil {
			var objection *refusal
			if errors.As(err, &objection) && !objection.whole {
				return refuseWhole("has the entry %q, which is refused: %s.", entry.Name, objection.text)
			}
			return w.unreadable(err)
		}
	}
	if _, err := io.Copy(io.Discard, content); err != nil { // to the checksum behind the archive's end
		return w.unreadable(err)
	}
	return w.followLinks()
}

// unreadable says where reading ended when the bytes are at fault, and passes on
// what the disk or the network said.
func (w *walker) unreadable(err error) error {
	var objection *refusal
	switch {
	case errors.As(err, &objection):
		return err
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.Is(err, tar.ErrHeader), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, io.EOF), strings.HasPrefix(err.Error(), "flate: "):
		if w.name == "" {
			return refuseWhole("is not a tar.gz archive: %v. Upload it again.", err)
		}
		return refuseWhole("cannot be read after the entry %q: %v. Upload it again.", w.name, err)
	}
	return err
}

func (w *walker) checkSize() error {
	unpacked := max(w.stream, w.written)
	if unpacked > w.limit.bytes {
		return refuseWhole("unpacks to more than %d bytes; the entry at hand was %q.", w.limit.bytes, w.name)
	}
	if unpacked > w.limit.ratioFloor && unpacked > w.limit.ratio*w.packed {
		return refuseWhole("unpacks to more than %d times its size; the entry at hand was %q.", w.limit.ratio, w.name)
	}
	return nil
}

// count holds the limit of entries, for each thing that is made.
func (w *walker) count() error {
	if w.made++; w.made > w.limit.entries {
		return refuseWhole("has more than %d entries; the entry at hand was %q.", w.limit.entries, w.name)
	}
	return nil
}

func (w *walker) add(entry *tar.Header, content io.Reader) error {
	if entry.Typeflag == tar.TypeXGlobalHeader { // what `git archive` writes first; it makes no file
		return w.count()
	}
	if path.IsAbs(entry.Name) {
		return refuse("its name is absolute")
	}
	if slices.Contains(strings.Split(entry.Name, "/"), "..") {
		return refuse(`its name has ".." in it`)
	}
	name := path.Clean(entry.Name)
	if name == "." {
		return w.count()
	}
	if err := w.addFolder(path.Dir(name), 0o700); err != nil {
		return err
	}
	switch entry.Typeflag {
	case tar.TypeDir:
		return w.addFolder(name, entry.FileInfo().Mode().Perm())
	case tar.TypeReg, tar.TypeGNUSparse:
		return w.addFile(name, entry, content)
	case tar.TypeSymlink:
		return w.addLink(name, entry.Linkname)
	case tar.TypeLink:
		return refuse("it is a hard link")
	case tar.TypeChar, tar.TypeBlock:
		return refuse("it is a device")
	case tar.TypeFifo:
		return refuse("it is a named pipe")
	default:
		return refuse("it is neither file, folder nor symbolic link (tar type %q)", entry.Typeflag)
	}
}

// addFolder makes a folder and those above it. One that is there already must be a
// real folder: a link would move what is written below it elsewhere.
func (w *walker) addFolder(name string, mode fs.FileMode) error {
	there, err := w.tree.kind(name)
	if err != nil || there == isFolder {
		return err
	}
	switch there {
	case isLink:
		return refuse("it would be written through the link %q", name)
	case isFile:
		return refuse("%q is a file already", name)
	}
	if err := w.addFolder(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := w.count(); err != nil {
		return err
	}
	return w.tree.mkdir(name, mode|0o700)
}

func (w *walker) addFile(name string, entry *tar.Header, content io.Reader) error {
	if entry.Size > w.limit.bytes-w.written {
		return refuseWhole("unpacks to more than %d bytes; the entry at hand was %q.", w.limit.bytes, w.name)
	}
	if err := w.clear(name, false); err != nil {
		return err
	}
	if err := w.count(); err != nil {
		return err
	}
	// Permission bits only: setuid, setgid and sticky are not for a configuration.
	out, err := w.tree.create(name, entry.FileInfo().Mode().Perm()|0o600)
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }()
	if _, err := io.Copy(out, &countingReader{from: content, count: &w.written, check: w.checkSize}); err != nil {
		return err
	}
	return out.Close()
}

// addLink makes a symbolic link whose target, read as text, stays inside. Whether
// it also does when followed through other links is known at the end.
func (w *walker) addLink(name, target string) error {
	if path.IsAbs(target) {
		return refuse("it links to the absolute path %q", target)
	}
	if to := path.Join(path.Dir(name), target); to == ".." || strings.HasPrefix(to, "../") {
		return refuse("it links to %q, which is outside of the configuration", target)
	}
	if err := w.clear(name, true); err != nil {
		return err
	}
	if err := w.count(); err != nil {
		return err
	}
	w.links = append(w.links, name)
	return w.tree.symlink(target, name)
}

// clear removes an earlier thing of the same name, as tar does. A link gives way
// only to another link: a file would be written through it.
func (w *walker) clear(name string, forLink bool) error {
	there, err := w.tree.kind(name)
	switch {
	case err != nil || there == isNothing:
		return err
	case there == isFolder:
		return refuse("a folder of the same name is there already")
	case there == isLink && !forLink:
		return refuse("it would be written through the link of the same name")
	}
	return w.tree.remove(name)
}

func (w *walker) followLinks() error {
	for _, name := range w.links {
		if err := w.tree.staysInside(name); err != nil {
			return refuseWhole("has the entry %q, which is refused: it links to the outside.", name)
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
