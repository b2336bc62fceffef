package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

func TestPack(t *testing.T) {
	t.Parallel()
	packed, err := pack(everChanging)
	require.NoError(t, err)
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	require.NoError(t, err)
	archive := tar.NewReader(plain)
	header, err := archive.Next()
	require.NoError(t, err)
	require.Equal(t, "main.tf", header.Name)
	content, err := io.ReadAll(archive)
	require.NoError(t, err)
	require.Equal(t, everChanging, string(content))
}

// TestAPlayerNeverTakesARefusalForAnAnswer: what a section measures must have worked.
func TestAPlayerNeverTakesARefusalForAnAnswer(t *testing.T) {
	t.Parallel()
	status := http.StatusNoContent
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != wire.PathPoll || r.Header.Get("Authorization") != "Bearer secret" {
			status = http.StatusBadRequest
		}
		w.WriteHeader(status)
		if status == http.StatusOK {
			_, _ = w.Write([]byte(`{"attempt_id":"att-1","phase":"plan"}`))
		}
	}))
	defer server.Close()
	p := &player{http: server.Client(), address: server.URL, id: "agent-1", token: "secret"}
	work, err := p.poll(context.Background(), 0)
	require.NoError(t, err)
	require.Nil(t, work)
	status = http.StatusOK
	work, err = p.poll(context.Background(), 0)
	require.NoError(t, err)
	require.Equal(t, "att-1", work.AttemptID)
	status = http.StatusServiceUnavailable
	_, err = p.poll(context.Background(), 0)
	require.ErrorContains(t, err, "503")
}
