package envelope

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/holdfast-run/holdfast/fault"
)

// Wrapped is a key sealed under a version of the root key.
type Wrapped struct {
	RootVersion int
	Bytes       []byte
}

// Keyring keeps the root keys and works with them in place: they never leave it.
// A key management service fits behind it: wrap and unwrap are its encryption
// with additional data, Derive is its message authentication code over the label.
type Keyring interface {
	// Wrap seals key under the current root key; aad names what the key is for.
	Wrap(ctx context.Context, aad []byte, key Key) (Wrapped, error)
	// Unwrap gives the key back. A version that is not in the ring is
	// fault.Internal with code root_key_missing; a wrong aad or changed bytes are
	// sealed_value_corrupt.
	Unwrap(ctx context.Context, aad []byte, w Wrapped) (Key, error)
	// Has tells whether the root key of that version can be used.
	Has(ctx context.Context, rootVersion int) (bool, error)
	// Derive gives a key for the labelled purpose from each version of the root
	// key, that of the current version first. The same version and label always
	// give the same key.
	Derive(ctx context.Context, label string) ([]Derived, error)
}

// Derived is a key that was derived from one version of the root key.
type Derived struct {
	RootVersion int
	Key         Key
}

// FileKeyring is a key ring in a file that only its owner can read.
type FileKeyring struct {
	current int
	roots   map[int]Key
}

// keyringFile is the file's content. encoding/json writes the keys in base64.
type keyringFile struct {
	Current  int            `json:"current"`
	Versions map[int][]byte `json:"versions"`
}

// CreateKeyring writes a new key ring with one random root key to path, readable
// only by the owner. When path exists nothing happens. The file appears complete
// or not at all, also when two processes do this at once.
func CreateKeyring(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	root := NewKey()
	text, err := json.MarshalIndent(keyringFile{Current: 1, Versions: map[int][]byte{1: root[:]}}, "", "  ")
	if err != nil {
		return fmt.Errorf("write the key ring: %w", err)
	}
	if err := createFile(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write the key ring: %w", err)
	}
	return nil
}

// createFile makes path with content unless it exists; it is on disk afterwards.
func createFile(path string, content []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, ".keyring-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err != nil {
		return err
	}
	// A link, unlike a rename, never replaces the ring that another process made meanwhile.
	if err := os.Link(tmp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// OpenKeyring reads the key ring at path. A file that its group or others may read
// or write, and a ring without a usable current key, are fault.Invalid.
func OpenKeyring(path string) (*FileKeyring, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, badKeyring("The key ring cannot be read: %v. Create one, or name the right file.", err)
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, badKeyring("The key ring cannot be read: %v.", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, badKeyring("The key ring %s may be read by others than its owner. Run: chmod 600 %s", path, path)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, badKeyring("The key ring cannot be read: %v.", err)
	}
	var parsed keyringFile
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed); err != nil || decoder.More() {
		// The decoder's error may quote the content, so it is not passed on.
		return nil, badKeyring("The key ring %s is not a key ring file, or it is damaged. Restore it from a backup.", path)
	}
	ring := &FileKeyring{current: parsed.Current, roots: map[int]Key{}}
	for version, key := range parsed.Versions {
		if len(key) != KeySize || version < 1 {
			return nil, badKeyring("The root key of version %d in %s is not %d bytes in base64, or its version is below 1. Restore the file from a backup.", version, path, KeySize)
		}
		ring.roots[version] = Key(key)
	}
	if _, ok := ring.roots[ring.current]; !ok {
		return nil, badKeyring("The key ring %s has no root key of its current version %d. Restore it from a backup.", path, ring.current)
	}
	return ring, nil
}

func badKeyring(message string, args ...any) *fault.Error {
	return fault.New(fault.Invalid, "keyring_invalid", message, args...)
}

// Wrap implements Keyring.
func (r *FileKeyring) Wrap(_ context.Context, aad []byte, key Key) (Wrapped, error) {
	wrapping := derive(r.roots[r.current], "wrap")
	return Wrapped{RootVersion: r.current, Bytes: SealValue(wrapping, aad, key[:])}, nil
}

// Unwrap implements Keyring.
func (r *FileKeyring) Unwrap(_ context.Context, aad []byte, w Wrapped) (Key, error) {
	root, ok := r.roots[w.RootVersion]
	if !ok {
		return Key{}, fault.New(fault.Internal, "root_key_missing", "The key ring has no root key of version %d, under which stored data is sealed. Add it from a backup of the key ring.", w.RootVersion)
	}
	plain, err := OpenValue(derive(root, "wrap"), aad, w.Bytes)
	if err != nil {
		return Key{}, err
	}
	if len(plain) != KeySize {
		return Key{}, corruptValue()
	}
	return Key(plain), nil
}

// Has implements Keyring.
func (r *FileKeyring) Has(_ context.Context, rootVersion int) (bool, error) {
	_, ok := r.roots[rootVersion]
	return ok, nil
}

// Derive implements Keyring.
func (r *FileKeyring) Derive(_ context.Context, label string) ([]Derived, error) {
	all := []Derived{{RootVersion: r.current, Key: derive(r.roots[r.current], "label "+label)}}
	for version, root := range r.roots {
		if version != r.current {
			all = append(all, Derived{RootVersion: version, Key: derive(root, "label "+label)})
		}
	}
	slices.SortFunc(all[1:], func(a, b Derived) int { return b.RootVersion - a.RootVersion })
	return all, nil
}

// derive gives a key that is good for one purpose only, so that no root key is
// used in two algorithms.
func derive(root Key, purpose string) Key {
	key, err := hkdf.Key(sha256.New, root[:], nil, "holdfast root key v1 "+purpose, KeySize)
	if err != nil {
		panic(err) // only for lengths over 255 hashes
	}
	return Key(key)
}
