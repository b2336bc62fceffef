package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateBodies(t *testing.T) {
	t.Parallel()
	packed := map[string]int{}
	for _, kind := range []string{realistic, noise} {
		body := newStateBody(kind, 1<<20)
		require.InDelta(t, 1<<20, len(body.content), 4096)
		first, second := body.number(1), body.number(1234)
		require.NotEqual(t, first, second)
		var file struct{ Serial int }
		require.NoError(t, json.Unmarshal(body.content, &file))
		require.Equal(t, 1234, file.Serial)

		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		_, err := w.Write(body.content)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		packed[kind] = small.Len()
	}
	require.Greater(t, packed[noise], 700_000)
	require.Less(t, packed[realistic], 200_000)
}
