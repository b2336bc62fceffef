package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/require"
)

const jsonAPI = "application/vnd.api+json"

// reply is an answer over plain HTTP.
type reply struct {
	status int
	header http.Header
	body   string
}

// errorObject is a JSON:API error as a client reads it.
type errorObject struct {
	Status, Code, Title, Detail string
	Source                      struct{ Pointer string }
}

// refusal gives the one error of a refused request.
func (r reply) refusal(t *testing.T, status int) errorObject {
	t.Helper()
	require.Equal(t, status, r.status, r.body)
	require.Equal(t, jsonAPI, r.header.Get("Content-Type"))
	var document struct{ Errors []errorObject }
	require.NoError(t, json.Unmarshal([]byte(r.body), &document), r.body)
	require.Len(t, document.Errors, 1, r.body)
	return document.Errors[0]
}

// as sends a request with a token; path is below the server's address, or absolute.
func (s *stack) as(t *testing.T, token, method, path string, body io.Reader) reply {
	t.Helper()
	if !strings.HasPrefix(path, "https://") {
		path = s.address() + path
	}
	req, err := http.NewRequestWithContext(t.Context(), method, path, body)
	require.NoError(t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", jsonAPI)
	resp, err := s.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	content, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return reply{resp.StatusCode, resp.Header, string(content)}
}

func (s *stack) get(t *testing.T, path string) reply {
	t.Helper()
	return s.as(t, s.token(), http.MethodGet, path, nil)
}

func (s *stack) post(t *testing.T, path, body string) reply {
	t.Helper()
	return s.as(t, s.token(), http.MethodPost, path, strings.NewReader(body))
}

func (s *stack) newWorkspace(t *testing.T, name string) *tfe.Workspace {
	t.Helper()
	w, err := s.api.Workspaces.Create(ctx, "demo", tfe.WorkspaceCreateOptions{Name: &name})
	require.NoError(t, err)
	return w
}

// runFacts are what the API says of a run, Holdfast's own attributes included.
type runFacts struct {
	Status        string
	DurableStatus string `json:"durable-status"`
	DurableReason string `json:"durable-reason"`
	StatusMessage string `json:"status-message"`
	Fence         *struct{ Released bool }
}

func (s *stack) runFacts(t *testing.T, id string) runFacts {
	t.Helper()
	r := s.get(t, "/api/v2/runs/"+id)
	require.Equal(t, http.StatusOK, r.status, r.body)
	var document struct{ Data struct{ Attributes runFacts } }
	require.NoError(t, json.Unmarshal([]byte(r.body), &document))
	return document.Data.Attributes
}

// finalWire are the wire statuses that a run does not leave.
var finalWire = []string{"applied", "planned_and_finished", "errored", "canceled", "discarded"}

// ended waits for the end of a run.
func (s *stack) ended(t *testing.T, id string) (facts runFacts) {
	t.Helper()
	eventually(t, "the end of "+id, func() bool {
		facts = s.runFacts(t, id)
		return slices.Contains(finalWire, facts.Status)
	})
	return facts
}

// reaches waits until a run has this durable status.
func (s *stack) reaches(t *testing.T, id, durable string) {
	t.Helper()
	var now runFacts
	require.Eventually(t, func() bool { now = s.runFacts(t, id); return now.DurableStatus == durable },
		patience, patience/2000, "%s does not become %s", id, durable)
}

// upload makes a configuration version with these files.
func (s *stack) upload(t *testing.T, workspace string, files map[string]string) *tfe.ConfigurationVersion {
	t.Helper()
	cv, err := s.api.ConfigurationVersions.Create(ctx, workspace, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
	require.NoError(t, err)
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zip)
	for name, content := range files {
		require.NoError(t, archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}))
		_, err := io.WriteString(archive, content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zip.Close())
	require.NoError(t, s.api.ConfigurationVersions.UploadTarGzip(ctx, cv.UploadURL, &packed))
	return cv
}

// newRun queues a run of one configuration file that applies by itself.
func (s *stack) newRun(t *testing.T, workspace, configuration string, variables ...*tfe.RunVariable) *tfe.Run {
	t.Helper()
	cv := s.upload(t, workspace, map[string]string{"main.tf": configuration})
	r, err := s.api.Runs.Create(ctx, tfe.RunCreateOptions{
		Workspace: &tfe.Workspace{ID: workspace}, ConfigurationVersion: cv, AutoApply: tfe.Bool(true), Variables: variables,
	})
	require.NoError(t, err)
	return r
}

// outputs gives the values of the current outputs that are not sensitive.
func (s *stack) outputs(t *testing.T, workspace string) map[string]any {
	t.Helper()
	list, err := s.api.StateVersionOutputs.ReadCurrent(ctx, workspace)
	require.NoError(t, err)
	values := map[string]any{}
	for _, o := range list.Items {
		values[o.Name] = o.Value
	}
	return values
}
