package terminal

import (
	"bytes"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecretsAskNothingOfAPipe(t *testing.T) {
	in, feed, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	_, err = feed.WriteString("s3cret words \r\n123456\nthe last")
	require.NoError(t, err)
	require.NoError(t, feed.Close())
	var asked bytes.Buffer
	secrets := NewSecrets(in, &asked)
	for _, want := range []string{"s3cret words ", "123456", "the last", ""} {
		secret, err := secrets.Read("Password: ")
		require.NoError(t, err)
		assert.Equal(t, want, secret)
	}
	assert.Empty(t, asked.String())
	assert.False(t, secrets.Interactive())
}
