package archive

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/fault"
)

// stream makes a tar.gz on the fly.
func stream(write func(*tar.Writer) error) io.Reader {
	r, w := io.Pipe()
	go func() {
		zip := gzip.NewWriter(w)
		archive := tar.NewWriter(zip)
		err := write(archive)
		if err == nil {
			err = archive.Close()
		}
		if err == nil {
			err = zip.Close()
		}
		w.CloseWithError(err)
	}()
	return r
}

// entries makes a tar.gz of headers; a regular file's content is its name.
func entries(headers ...tar.Header) io.Reader {
	return stream(func(archive *tar.Writer) error {
		for _, h := range headers {
			if h.Typeflag == tar.TypeReg {
				h.Size = int64(len(h.Name))
			}
			if h.Mode == 0 && h.Typeflag != tar.TypeXGlobalHeader {
				h.Mode = 0o644
			}
			if err := archive.WriteHeader(&h); err != nil {
				return err
			}
			if h.Typeflag == tar.TypeReg {
				if _, err := archive.Write([]byte(h.Name)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

func file(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
func dir(name string) tar.Header  { return tar.Header{Name: name, Typeflag: tar.TypeDir, Mode: 0o755} }

func link(name, to string) tar.Header {
	return tar.Header{Name: name, Typeflag: tar.TypeSymlink, Linkname: to}
}

// unpack is Unpack with other limits.
func unpack(archive io.Reader, dir string, limit limits) error {
	t, err := openFolder(dir)
	if err != nil {
		return err
	}
	defer t.close()
	return walk(archive, t, limit)
}

// cage makes the folder to unpack to, with a neighbor that must stay as it is.
func cage(t *testing.T) (inside string) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "neighbor"), []byte("untouched"), 0o600))
	inside = filepath.Join(outside, "config")
	require.NoError(t, os.Mkdir(inside, 0o700))
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(outside, "neighbor"))
		assert.NoError(t, err)
		assert.Equal(t, "untouched", string(text))
		there, err := os.ReadDir(outside)
		assert.NoError(t, err)
		assert.Len(t, there, 2, "nothing was made beside the folder")
	})
	return inside
}

func TestUnpackKeeps(t *testing.T) {
	t.Parallel()
	inside := cage(t)
	suid := file("tool")
	suid.Mode = 0o6755
	first, second := file("twice"), file("twice")
	archive := func() io.Reader {
		return entries(
			tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{"comment": "x"}},
			dir("./"), dir("modules/"), file("./main.tf"), file("modules/a/b/c.tf"), suid,
			link("modules/root", "../main.tf"), link("up", "modules/.."), link("dangling", "not/there"),
			link("loop", "loop"), link("replaced", "main.tf"), link("replaced", "tool"), first, second, dir("modules/"),
		)
	}
	require.NoError(t, unpack(archive(), inside, configurationLimits))
	require.NoError(t, Check(archive()), "the server takes what the runner would")

	for name, want := range map[string]string{
		"main.tf": "./main.tf", "modules/a/b/c.tf": "modules/a/b/c.tf", "modules/root": "./main.tf",
		"up/main.tf": "./main.tf", "replaced": "tool", "twice": "twice",
	} {
		text, err := os.ReadFile(filepath.Join(inside, name))
		require.NoError(t, err, name)
		assert.Equal(t, want, string(text), name)
	}
	target, err := os.Readlink(filepath.Join(inside, "dangling"))
	require.NoError(t, err)
	assert.Equal(t, "not/there", target)
	info, err := os.Stat(filepath.Join(inside, "tool"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode(), "without setuid and setgid")
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		headers []tar.Header
		entry   string // the one named
		why     string
	}{
		"parent":                 {[]tar.Header{file("../neighbor")}, "../neighbor", `".."`},
		"parent in the middle":   {[]tar.Header{file("a/../../neighbor")}, "a/../../neighbor", `".."`},
		"parent that stays":      {[]tar.Header{file("a/../b")}, "a/../b", `".."`},
		"absolute":               {[]tar.Header{file("/etc/holdfast-test")}, "/etc/holdfast-test", "absolute"},
		"absolute link":          {[]tar.Header{link("l", "/etc/passwd")}, "l", "absolute path"},
		"link out":               {[]tar.Header{link("l", "../neighbor")}, "l", "outside"},
		"link out, from below":   {[]tar.Header{link("a/b/l", "../../../neighbor")}, "a/b/l", "outside"},
		"link to the parent":     {[]tar.Header{link("l", "..")}, "l", "outside"},
		"link out by other link": {[]tar.Header{dir("shallow"), link("p/q/r/s", "../../../shallow"), link("t", "p/q/r/s/../../neighbor")}, "t", "outside"},
		"write through a link":   {[]tar.Header{dir("real"), link("l", "real"), file("l/x")}, "l/x", `through the link "l"`},
		"folder through a link":  {[]tar.Header{dir("real"), link("l", "real"), dir("l/x/")}, "l/x/", `through the link "l"`},
		"write over a link":      {[]tar.Header{file("real"), link("l", "real"), file("l")}, "l", "through the link"},
		"folder over a link":     {[]tar.Header{dir("real"), link("l", "real"), dir("l/")}, "l/", "through the link"},
		"link through a link":    {[]tar.Header{dir("real"), link("l", "real"), link("l/x", "y")}, "l/x", "through the link"},
		"file over a folder":     {[]tar.Header{dir("d"), file("d")}, "d", "folder of the same name"},
		"link over a folder":     {[]tar.Header{dir("d"), link("d", "x")}, "d", "folder of the same name"},
		"folder over a file":     {[]tar.Header{file("f"), file("f/x")}, "f/x", `"f" is a file`},
		"hard link":              {[]tar.Header{file("f"), {Name: "h", Typeflag: tar.TypeLink, Linkname: "f"}}, "h", "hard link"},
		"character device":       {[]tar.Header{{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}}, "null", "device"},
		"block device":           {[]tar.Header{{Name: "sda", Typeflag: tar.TypeBlock, Devmajor: 8}}, "sda", "device"},
		"named pipe":             {[]tar.Header{{Name: "p", Typeflag: tar.TypeFifo}}, "p", "named pipe"},
		"other type":             {[]tar.Header{{Name: "c", Typeflag: tar.TypeCont}}, "c", "neither"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := unpack(entries(c.headers...), cage(t), configurationLimits)
			require.Error(t, err)
			assert.True(t, fault.Is(err, fault.Invalid))
			assert.Contains(t, err.Error(), fmt.Sprintf("the entry %q, which is refused", c.entry))
			assert.Contains(t, err.Error(), c.why)
			checked := Check(entries(c.headers...))
			require.Error(t, checked, "the server refuses what the runner would")
			assert.Equal(t, err.Error(), checked.Error())
		})
	}
}

func TestUnpackMillionEntries(t *testing.T) {
	t.Parallel()
	inside := cage(t)
	err := unpack(stream(func(archive *tar.Writer) error {
		for i := range 1_000_000 {
			if err := archive.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/f%d", i%100, i), Typeflag: tar.TypeReg, Mode: 0o600}); err != nil {
				return err
			}
		}
		return nil
	}), inside, limits{bytes: 1 << 30, entries: 2000, ratio: 100, ratioFloor: 10 << 20})
	require.ErrorContains(t, err, "more than 2000 entries")
	assert.ErrorContains(t, err, `"d0/f1900"`, "files and folders both count")

	// The limits of a configuration as they are, with entries that cost no disk.
	err = unpack(stream(func(archive *tar.Writer) error {
		for range 1_000_000 {
			// Random text, or the ratio would be the first limit.
			if err := archive.WriteHeader(&tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700, Uname: rand.Text()}); err != nil {
				return err
			}
		}
		return nil
	}), cage(t), configurationLimits)
	require.ErrorContains(t, err, "more than 100000 entries")
	assert.ErrorContains(t, err, `"./"`)
}

// A few long names make as many folders as they can.
func TestUnpackCountsFoldersNobodyNames(t *testing.T) {
	t.Parallel()
	err := unpack(stream(func(archive *tar.Writer) error {
		for i := range 100 {
			name := fmt.Sprintf("%d/%s/x", i, strings.Repeat("a/", 100))
			if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600}); err != nil {
				return err
			}
		}
		return nil
	}), cage(t), limits{bytes: 1 << 30, entries: 300, ratio: 100, ratioFloor: 10 << 20})
	assert.ErrorContains(t, err, "more than 300 entries")
}

func TestUnpackBombs(t *testing.T) {
	t.Parallel()
	zeros := func(size int64) io.Reader {
		return stream(func(archive *tar.Writer) error {
			if err := archive.WriteHeader(&tar.Header{Name: "zeros", Typeflag: tar.TypeReg, Mode: 0o600, Size: size}); err != nil {
				return err
			}
			block := make([]byte, 1<<20)
			for ; size > 0; size -= int64(len(block)) {
				if _, err := archive.Write(block[:min(size, int64(len(block)))]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	inside := cage(t)
	err := unpack(zeros(100<<20), inside, configurationLimits)
	require.ErrorContains(t, err, `"zeros"`)
	assert.ErrorContains(t, err, "100 times its size")
	info, err := os.Stat(filepath.Join(inside, "zeros"))
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(12<<20), "it is stopped on the way")

	require.NoError(t, unpack(zeros(9<<20), cage(t), configurationLimits), "little text may pack well")

	err = unpack(zeros(2<<30), cage(t), configurationLimits)
	assert.ErrorContains(t, err, "more than 1073741824 bytes", "it is refused by its header")

	err = unpack(zeros(3<<20), cage(t), limits{bytes: 2 << 20, entries: 10, ratio: 100, ratioFloor: 10 << 20})
	assert.ErrorContains(t, err, "more than 2097152 bytes")
}

// A file with a hole is larger than the bytes that stand for it.
func TestUnpackHole(t *testing.T) {
	t.Parallel()
	var archive bytes.Buffer
	header := make([]byte, 512)
	copy(header, "hole")
	copy(header[100:], "0000600\x00")
	copy(header[124:], "00000000000\x00") // no data
	copy(header[136:], "00000000000\x00")
	header[156] = tar.TypeGNUSparse
	copy(header[257:], "ustar  \x00")
	copy(header[386:], fmt.Sprintf("%011o\x00%011o\x00", 900<<20, 0))
	copy(header[483:], fmt.Sprintf("%011o\x00", 900<<20)) // real size
	copy(header[148:], "        ")
	sum := 0
	for _, b := range header {
		sum += int(b)
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	zip := gzip.NewWriter(&archive)
	_, err := zip.Write(append(header, make([]byte, 1024)...))
	require.NoError(t, err)
	require.NoError(t, zip.Close())

	err = unpack(&archive, cage(t), configurationLimits)
	require.ErrorContains(t, err, `"hole"`)
	assert.ErrorContains(t, err, "100 times its size")
}

func TestUnpackBroken(t *testing.T) {
	t.Parallel()
	assert.ErrorContains(t, unpack(strings.NewReader("no gzip"), cage(t), configurationLimits), "is not a tar.gz archive")
	whole, err := io.ReadAll(entries(file("a"), file("b")))
	require.NoError(t, err)
	assert.Error(t, unpack(bytes.NewReader(whole[:len(whole)-20]), cage(t), configurationLimits), "cut off")
}
