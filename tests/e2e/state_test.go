package e2e

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stateFile is a small state; marker tells two of one serial apart.
func stateFile(serial int, marker string) string {
	return fmt.Sprintf(`{"version":4,"terraform_version":"1.12.0","serial":%d,"lineage":"lineage-1","outputs":{"m":{"value":%q,"type":"string"}},"resources":[]}`, serial, marker)
}

// lockedWorkspace is a workspace that the test itself writes to.
func lockedWorkspace(t *testing.T) string {
	t.Helper()
	w := shared.newWorkspace(t, workspaceName(t))
	_, err := shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	return w.ID
}

// announce is the first half of a state upload, as tofu does it.
func (s *stack) announce(t *testing.T, workspace, content string) reply {
	t.Helper()
	var file struct{ Serial int }
	require.NoError(t, json.Unmarshal([]byte(content), &file))
	sum := md5.Sum([]byte(content))
	return s.post(t, "/api/v2/workspaces/"+workspace+"/state-versions", fmt.Sprintf(
		`{"data":{"type":"state-versions","attributes":{"serial":%d,"lineage":"lineage-1","md5":%q,"force":false}}}`, file.Serial, hex.EncodeToString(sum[:])))
}

// uploadURL reads where an announced state goes.
func uploadURL(t *testing.T, announced reply) (id, link string) {
	t.Helper()
	require.Contains(t, []int{http.StatusCreated, http.StatusOK}, announced.status, announced.body) // 200: it is known already
	var document struct {
		Data struct {
			ID         string
			Attributes struct {
				UploadURL string `json:"hosted-state-upload-url"`
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(announced.body), &document))
	return document.Data.ID, document.Data.Attributes.UploadURL
}

func put(t *testing.T, link, content string) reply {
	t.Helper()
	return shared.as(t, "", http.MethodPut, link, strings.NewReader(content))
}

// write announces and uploads, which must succeed, and gives the version's id.
func write(t *testing.T, workspace, content string) string {
	t.Helper()
	id, link := uploadURL(t, shared.announce(t, workspace, content))
	r := put(t, link, content)
	require.Equal(t, http.StatusOK, r.status, r.body)
	return id
}

func currentState(t *testing.T, workspace string) string {
	t.Helper()
	current, err := shared.api.StateVersions.ReadCurrent(ctx, workspace)
	require.NoError(t, err)
	content, err := shared.api.StateVersions.Download(ctx, current.DownloadURL)
	require.NoError(t, err)
	return string(content)
}

// Show 4 and the dozen's 2 and 4.
func TestAWriterFencedByForceUnlockIsRefused(t *testing.T) {
	t.Parallel()
	w := lockedWorkspace(t)
	write(t, w, stateFile(1, "before"))
	_, link := uploadURL(t, shared.announce(t, w, stateFile(2, "fenced")))
	_, err := shared.api.Workspaces.ForceUnlock(ctx, w)
	require.NoError(t, err)

	late := put(t, link, stateFile(2, "fenced")).refusal(t, http.StatusConflict)
	assert.NotEmpty(t, late.Detail)
	assert.Equal(t, stateFile(1, "before"), currentState(t, w))
	shared.announce(t, w, stateFile(2, "without a lock")).refusal(t, http.StatusConflict)

	// Another lock does not give the old writer its rights back.
	_, err = shared.api.Workspaces.Lock(ctx, w, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	put(t, link, stateFile(2, "fenced")).refusal(t, http.StatusConflict)
	assert.Equal(t, stateFile(1, "before"), currentState(t, w))
	write(t, w, stateFile(2, "after"))
	put(t, link, stateFile(2, "fenced")).refusal(t, http.StatusConflict)
	assert.Equal(t, stateFile(2, "after"), currentState(t, w))
}

// The dozen's 1: cases 2 and 4.
func TestASerialIsTakenOnce(t *testing.T) {
	t.Parallel()
	w := lockedWorkspace(t)
	first := write(t, w, stateFile(5, "a"))
	assert.Equal(t, first, write(t, w, stateFile(5, "a")), "the same serial and bytes are the same version")

	for _, content := range []string{stateFile(5, "b"), stateFile(4, "a")} {
		refused := shared.announce(t, w, content).refusal(t, http.StatusConflict)
		assert.Contains(t, refused.Detail, "5", "it names the serial that is known")
	}
	other := strings.Replace(stateFile(6, "c"), "lineage-1", "lineage-2", 1)
	sum := md5.Sum([]byte(other))
	_, err := shared.api.StateVersions.Upload(ctx, w, tfe.StateVersionUploadOptions{
		StateVersionCreateOptions: tfe.StateVersionCreateOptions{
			Serial: tfe.Int64(6), Lineage: tfe.String("lineage-2"), MD5: tfe.String(hex.EncodeToString(sum[:])),
		},
		RawState: []byte(other),
	})
	require.Error(t, err)
	assert.Contains(t, err.Error(), "lineage-1")
	assert.Equal(t, stateFile(5, "a"), currentState(t, w))
}

func TestOfTwoWritersOfASerialOneWins(t *testing.T) {
	t.Parallel()
	w := lockedWorkspace(t)
	for serial := 1; serial <= 20; serial++ {
		var replies [2]reply
		var both sync.WaitGroup
		for i := range replies {
			both.Go(func() {
				content := stateFile(serial, fmt.Sprint("writer ", i))
				if announced := shared.announce(t, w, content); announced.status == http.StatusCreated {
					_, link := uploadURL(t, announced)
					announced = put(t, link, content)
					replies[i] = announced
				} else {
					replies[i] = announced
				}
			})
		}
		both.Wait()
		winner := 0
		if replies[1].status == http.StatusOK {
			winner = 1
		}
		require.Equal(t, http.StatusOK, replies[winner].status, replies[winner].body)
		replies[1-winner].refusal(t, http.StatusConflict)
		require.Equal(t, stateFile(serial, fmt.Sprint("writer ", winner)), currentState(t, w))
	}
}

// Bytes that differ from what was announced never become current.
func TestAnUploadMustBeWhatWasAnnounced(t *testing.T) {
	t.Parallel()
	w := lockedWorkspace(t)
	write(t, w, stateFile(1, "a"))
	_, link := uploadURL(t, shared.announce(t, w, stateFile(2, "b")))
	r := put(t, link, stateFile(2, "c"))
	assert.Contains(t, []int{http.StatusConflict, http.StatusUnprocessableEntity}, r.status, r.body)
	assert.Equal(t, stateFile(1, "a"), currentState(t, w))
	r = put(t, link, stateFile(2, "b"))
	assert.Equal(t, http.StatusOK, r.status, r.body)
	assert.Equal(t, stateFile(2, "b"), currentState(t, w))
}

// The dozen's 5: a rollback makes a new version, after which work goes on.
func TestRollbackThenGoOn(t *testing.T) {
	t.Parallel()
	f := newFolder(t, shared, `
		variable "v" {}
		resource "terraform_data" "a" { input = var.v }
		output "a" { value = terraform_data.a.output }`)
	f.init()
	f.ok("apply", "-auto-approve", "-var", "v=one")
	w := f.current()
	old, err := shared.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(t, err)
	f.ok("apply", "-auto-approve", "-var", "v=two")

	_, err = shared.api.Workspaces.Lock(ctx, w.ID, tfe.WorkspaceLockOptions{})
	require.NoError(t, err)
	r := shared.as(t, shared.token(), http.MethodPatch, "/api/v2/workspaces/"+w.ID+"/state-versions", strings.NewReader(fmt.Sprintf(
		`{"data":{"type":"state-versions","relationships":{"rollback-state-version":{"data":{"type":"state-versions","id":%q}}}}}`, old.ID)))
	require.Less(t, r.status, 300, r.body)
	_, err = shared.api.Workspaces.Unlock(ctx, w.ID)
	require.NoError(t, err)
	now, err := shared.api.StateVersions.ReadCurrent(ctx, w.ID)
	require.NoError(t, err)
	assert.NotEqual(t, old.ID, now.ID, "a new version")
	assert.Equal(t, "one", f.output("a"))

	assert.Contains(t, f.ok("apply", "-auto-approve", "-var", "v=one"), "No changes.")
	assert.Contains(t, f.ok("apply", "-auto-approve", "-var", "v=three"), "1 changed")
	assert.Equal(t, "three", f.output("a"))
}
