package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Cases 98 and 100: a dangerous archive is refused when it is uploaded, with the name of
// the entry, and no run can start from it.
func TestADangerousArchiveIsRefusedAtTheUpload(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	file := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	for name, c := range map[string]struct {
		entries []*tar.Header
		names   string
	}{
		"a parent":               {[]*tar.Header{file("fine.tf"), file("a/../../escape.tf")}, "a/../../escape.tf"},
		"an absolute name":       {[]*tar.Header{file("/etc/absolute.tf")}, "/etc/absolute.tf"},
		"a link to the outside":  {[]*tar.Header{{Typeflag: tar.TypeSymlink, Name: "out", Linkname: "../../etc"}}, "out"},
		"an absolute link":       {[]*tar.Header{{Typeflag: tar.TypeSymlink, Name: "abs", Linkname: "/etc/passwd"}}, "abs"},
		"a write through a link": {[]*tar.Header{{Typeflag: tar.TypeSymlink, Name: "x", Linkname: "y"}, file("x/pwn")}, "x/pwn"},
		"a hard link":            {[]*tar.Header{file("a"), {Typeflag: tar.TypeLink, Name: "hard", Linkname: "a"}}, "hard"},
		"a device":               {[]*tar.Header{{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}}, "null"},
		"a chain of links":       {[]*tar.Header{{Typeflag: tar.TypeDir, Name: "d", Mode: 0o755}, {Typeflag: tar.TypeSymlink, Name: "l", Linkname: "d"}, {Typeflag: tar.TypeSymlink, Name: "m", Linkname: "l/.."}, {Typeflag: tar.TypeSymlink, Name: "n", Linkname: "m/../.."}}, "n"},
	} {
		assertRefused(t, w.ID, pack(t, gzip.DefaultCompression, c.entries...), c.names, name)
	}
	whole := pack(t, gzip.DefaultCompression, file("main.tf"), file("other.tf"))
	assertRefused(t, w.ID, whole[:len(whole)/2], "", "cut in half") // case 101
	assertRefused(t, w.ID, []byte("not an archive"), "", "no archive")
}

// The dozen's 9. Stored and not compressed, so that the number of entries is what is refused.
func TestAnArchiveOfTooManyEntriesIsRefused(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	entries := make([]*tar.Header, 100_001)
	for i := range entries {
		entries[i] = &tar.Header{Typeflag: tar.TypeReg, Name: fmt.Sprintf("f%d", i), Mode: 0o644}
	}
	assertRefused(t, w.ID, pack(t, gzip.NoCompression, entries...), "f100000", "too many entries")
}

func TestAnArchiveThatUnpacksToTooMuchIsRefused(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "bomb", Mode: 0o644, Size: 64 << 20}))
	_, err := io.CopyN(archive, zeros{}, 64<<20)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	assertRefused(t, w.ID, packed.Bytes(), "bomb", "64 MiB of zeros")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func pack(t *testing.T, level int, entries ...*tar.Header) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, level)
	require.NoError(t, err)
	archive := tar.NewWriter(zip)
	for _, entry := range entries {
		require.NoError(t, archive.WriteHeader(entry))
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	return packed.Bytes()
}

func assertRefused(t *testing.T, workspace string, archive []byte, entry, name string) {
	t.Helper()
	cv := newConfiguration(t, workspace)
	refused := shared.as(t, "", http.MethodPut, cv.UploadURL, bytes.NewReader(archive)).refusal(t, http.StatusUnprocessableEntity)
	assert.Contains(t, refused.Detail, entry, name)
	assertNotUploaded(t, workspace, cv, name)
}

func newConfiguration(t *testing.T, workspace string) *tfe.ConfigurationVersion {
	t.Helper()
	cv, err := shared.api.ConfigurationVersions.Create(ctx, workspace, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
	require.NoError(t, err)
	return cv
}

func assertNotUploaded(t *testing.T, workspace string, cv *tfe.ConfigurationVersion, name string) {
	t.Helper()
	now, err := shared.api.ConfigurationVersions.Read(ctx, cv.ID)
	require.NoError(t, err)
	assert.Equal(t, tfe.ConfigurationErrored, now.Status, name)
	assert.NotEmpty(t, now.ErrorMessage, name)
	_, err = shared.api.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: &tfe.Workspace{ID: workspace}, ConfigurationVersion: cv})
	assert.Error(t, err, "a run from it: %s", name)
}

// endless is an archive with a file of random bytes that never ends. It counts what is taken.
type endless struct {
	head  io.Reader
	noise rand.ChaCha8
	taken *atomic.Int64
}

func (e *endless) Read(p []byte) (n int, err error) {
	if n, err = e.head.Read(p); errors.Is(err, io.EOF) {
		n, err = e.noise.Read(p)
	}
	e.taken.Add(int64(n))
	return n, err
}

// Cases 91 and 92.
func TestAConfigurationThatIsTooLargeIsRefusedWhileItStreams(t *testing.T) {
	t.Parallel()
	w := shared.newWorkspace(t, workspaceName(t))
	cv := newConfiguration(t, w.ID)
	var taken atomic.Int64
	var head bytes.Buffer
	archive := tar.NewWriter(&head)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "disk.img", Mode: 0o644, Size: 1 << 32}))
	stored, stream := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		zip, _ := gzip.NewWriterLevel(stream, gzip.NoCompression)
		_, err := io.Copy(zip, &endless{head: &head, taken: &taken})
		_ = stream.CloseWithError(err)
	}()
	refused := shared.as(t, "", http.MethodPut, cv.UploadURL, stored).refusal(t, http.StatusRequestEntityTooLarge)
	_ = stored.Close()
	<-done
	assert.Contains(t, strings.ReplaceAll(refused.Detail, ",", ""), "100000000", "it names the limit")
	assert.Greater(t, taken.Load(), int64(99_000_000))
	assert.Less(t, taken.Load(), int64(120_000_000), "it was refused without reading on")
	assertNotUploaded(t, w.ID, cv, "too large")
}
