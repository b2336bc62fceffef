package archive

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// disk is a real folder. os.Root keeps every operation inside of it, whatever links
// there are.
type disk struct {
	root    *os.Root
	folders map[string]bool // real folders, known not to be links
}

func openFolder(dir string) (*disk, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &disk{root: root, folders: map[string]bool{".": true}}, nil
}

func (d *disk) close() { _ = d.root.Close() }

func (d *disk) kind(name string) (kind, error) {
	if d.folders[name] {
		return isFolder, nil
	}
	there, err := d.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return isNothing, nil
	case errors.Is(err, syscall.ENOTDIR):
		return isNothing, nil // something above it is a file, which is found when that is made a folder
	case err != nil:
		return isNothing, err
	case there.IsDir():
		d.folders[name] = true
		return isFolder, nil
	case there.Mode()&fs.ModeSymlink != 0:
		return isLink, nil
	}
	return isFile, nil
}

func (d *disk) mkdir(name string, mode fs.FileMode) error { return d.root.Mkdir(name, mode) }

func (d *disk) create(name string, mode fs.FileMode) (io.WriteCloser, error) {
	return d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
}

func (d *disk) symlink(target, name string) error { return d.root.Symlink(target, name) }
func (d *disk) remove(name string) error          { return d.root.Remove(name) }

func (d *disk) staysInside(name string) error {
	_, err := d.root.Stat(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		return nil
	}
	return err
}

// names is a tree of names only.
type names map[string]node

type node struct {
	kind   kind
	target string // of a link
}

func (n names) kind(name string) (kind, error) { return n[name].kind, nil }

func (n names) mkdir(name string, _ fs.FileMode) error {
	n[name] = node{kind: isFolder}
	return nil
}

func (n names) create(name string, _ fs.FileMode) (io.WriteCloser, error) {
	n[name] = node{kind: isFile}
	return nowhere{}, nil
}

func (n names) symlink(target, name string) error {
	n[name] = node{kind: isLink, target: target}
	return nil
}

func (n names) remove(name string) error {
	delete(n, name)
	return nil
}

type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) Close() error                { return nil }

// maxLinks is how many links are followed before a chain counts as a loop, which
// leads nowhere and so not outside.
const maxLinks = 255

var errOutside = errors.New("the link leads outside")

func (n names) staysInside(name string) error {
	todo, at := strings.Split(name, "/"), "."
	for followed := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			if at == "." {
				return errOutside
			}
			at = path.Dir(at)
			continue
		}
		next := path.Join(at, part)
		switch found := n[next]; found.kind {
		case isLink:
			if followed++; followed > maxLinks {
				return nil
			}
			todo = append(strings.Split(found.target, "/"), todo...)
		case isFolder:
			at = next
		default:
			return nil // a file, or nothing: the way ends here, inside
		}
	}
	return nil
}
