package envelope_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
)

func links(t *testing.T, content string) *envelope.Links {
	t.Helper()
	ring, err := envelope.OpenKeyring(ringFile(t, content))
	require.NoError(t, err)
	l, err := envelope.NewLinks(t.Context(), ring)
	require.NoError(t, err)
	return l
}

func TestLinks(t *testing.T) {
	old := links(t, fmt.Sprintf(`{"current":1,"versions":{"1":%q}}`, rootKey("a")))
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	expires := now.Add(time.Hour)
	token := old.Mint("raw sv-1 epoch 41", expires)

	assert.Equal(t, token, old.Mint("raw sv-1 epoch 41", expires), "nothing is stored, so it must come out equal")
	assert.Equal(t, url.PathEscape(token), token)
	assert.Len(t, token, 54)
	require.NoError(t, old.Verify(token, "raw sv-1 epoch 41", now))
	require.NoError(t, old.Verify(token, "raw sv-1 epoch 41", expires.Add(-time.Second)))

	expired := old.Verify(token, "raw sv-1 epoch 41", expires)
	assert.True(t, fault.Is(expired, fault.NotFound) && fault.HasCode(expired, "link_expired"), "%v", expired)
	assert.Contains(t, expired.Error(), "2026-11-29T13:00:00Z")

	refused := func(name, token, subject string) {
		err := old.Verify(token, subject, now)
		assert.Truef(t, fault.Is(err, fault.NotFound) && fault.HasCode(err, "link_invalid"), "%s: %v", name, err)
	}
	refused("another subject", token, "raw sv-1 epoch 42")
	refused("another expiry", old.Mint("raw sv-1 epoch 41", expires.Add(time.Hour))[:10]+token[10:], "raw sv-1 epoch 41")
	refused("empty", "", "raw sv-1 epoch 41")
	refused("longer", token+"A", "raw sv-1 epoch 41")
	for i := range token {
		changed := []byte(token)
		changed[i] = map[bool]byte{true: 'B', false: 'A'}[changed[i] == 'A']
		refused(fmt.Sprint("changed at ", i), string(changed), "raw sv-1 epoch 41")
	}

	rotated := links(t, fmt.Sprintf(`{"current":2,"versions":{"1":%q,"2":%q}}`, rootKey("a"), rootKey("b")))
	require.NoError(t, rotated.Verify(token, "raw sv-1 epoch 41", now), "made under the older root key")
	assert.NotEqual(t, token, rotated.Mint("raw sv-1 epoch 41", expires))
	retired := links(t, fmt.Sprintf(`{"current":2,"versions":{"2":%q}}`, rootKey("b")))
	assert.True(t, fault.HasCode(retired.Verify(token, "raw sv-1 epoch 41", now), "link_invalid"))
}
