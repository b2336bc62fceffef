package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// largeState is a state of about this many bytes, in many resources.
func largeState(serial, size int) string {
	var text strings.Builder
	fmt.Fprintf(&text, `{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"lineage-1","outputs":{},"resources":[`, serial)
	for i := 0; text.Len() < size; i++ {
		if i > 0 {
			text.WriteByte(',')
		}
		fmt.Fprintf(&text, `{"mode":"managed","type":"terraform_data","name":"r%d","provider":"provider[\"terraform.io/builtin/terraform\"]",`+
			`"instances":[{"schema_version":0,"attributes":{"id":"%d","input":%q}}]}`, i, i, strings.Repeat("0123456789abcdef", 2000))
	}
	text.WriteString("]}")
	return text.String()
}

// PL-07: what is uploaded at once is not in the server's memory at once. An upload has one part
// for the store there, of 8 MiB. make bench ONLY=uploads does the same with 90 MB each, and judges
// the figure.
func TestUploadsAtOnceNeedLittleMemory(t *testing.T) {
	t.Parallel()
	const uploads, size = 8, 30_000_000
	s := privateStack(t, t.TempDir())
	archive := bulkArchive(t, size)
	var links []string
	for i := range uploads {
		w := s.newWorkspace(t, fmt.Sprintf("w%d", i))
		cv, err := s.api.ConfigurationVersions.Create(ctx, w.ID, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
		require.NoError(t, err)
		links = append(links, cv.UploadURL)
	}
	before := s.peakMemory(t, "server")
	statuses := make([]int, uploads)
	var at sync.WaitGroup
	for i, link := range links {
		at.Go(func() { statuses[i] = s.as(t, "", http.MethodPut, link, bytes.NewReader(archive)).status })
	}
	at.Wait()
	for _, status := range statuses {
		require.Equal(t, http.StatusOK, status)
	}
	grown := s.peakMemory(t, "server") - before
	t.Logf("the server's memory grew by %d MB for %d MB", grown>>20, uploads*size/1_000_000)
	assert.Less(t, grown, uploads*size*3/4)
}

// bulkArchive is a configuration of a file of this many bytes that nothing compresses.
func bulkArchive(t *testing.T, size int64) []byte {
	t.Helper()
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.NoCompression)
	require.NoError(t, err)
	archive := tar.NewWriter(zip)
	require.NoError(t, archive.WriteHeader(&tar.Header{Name: "bulk", Mode: 0o644, Size: size}))
	_, err = io.CopyN(archive, rand.NewChaCha8([32]byte{}), size)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	return packed.Bytes()
}

// Case 89 and the dozen's 6: the size of a state is not the server's memory.
func TestALargeStateNeedsLittleMemory(t *testing.T) {
	t.Parallel()
	s := privateStack(t, t.TempDir())
	w := s.newWorkspace(t, "w")
	_, err := s.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	before := s.peakMemory(t, "server")

	content := largeState(1, 120<<20)
	_, link := uploadURL(t, s.announce(t, w.ID, content))
	r := s.as(t, "", http.MethodPut, link, strings.NewReader(content))
	require.Equal(t, http.StatusOK, r.status, r.body)
	current, err := s.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(t, err)
	back := s.get(t, current.DownloadURL)
	require.True(t, content == back.body, "it comes back as it went")
	grown := s.peakMemory(t, "server") - before
	t.Logf("the server's memory grew by %d MB", grown>>20)
	assert.Less(t, grown, 100<<20)

	// The older form, inside the document.
	content = largeState(2, 20<<20)
	sum := md5.Sum([]byte(content))
	_, err = s.api.StateVersions.Create(ctx, w.ID, tfe.StateVersionCreateOptions{
		Serial: tfe.Int64(2), Lineage: tfe.String("lineage-1"), MD5: tfe.String(hex.EncodeToString(sum[:])),
		State: tfe.String(base64.StdEncoding.EncodeToString([]byte(content))),
	})
	require.NoError(t, err)
	current, err = s.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(t, err)
	assert.EqualValues(t, 2, current.Serial)
}

var peakLine = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMemory is the most that a service has ever had resident, in bytes.
func (s *stack) peakMemory(t *testing.T, service string) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.pid(t, service)))
	require.NoError(t, err)
	found := peakLine.FindSubmatch(status)
	require.NotNil(t, found)
	kilobytes, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kilobytes << 10
}
