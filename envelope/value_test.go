package envelope_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
)

func TestSealedValueOpensOnlyInItsPlace(t *testing.T) {
	key, aad := envelope.NewKey(), []byte("variable var-1")
	sealed := envelope.SealValue(key, aad, []byte("hunter2"))
	assert.NotContains(t, string(sealed), "hunter2")
	plain, err := envelope.OpenValue(key, aad, sealed)
	require.NoError(t, err)
	assert.Equal(t, "hunter2", string(plain))
	assert.NotEqual(t, sealed, envelope.SealValue(key, aad, []byte("hunter2")), "the nonce is random")

	refused := func(name string, key envelope.Key, aad string, sealed []byte) {
		_, err := envelope.OpenValue(key, []byte(aad), sealed)
		assert.Truef(t, fault.Is(err, fault.Internal) && fault.HasCode(err, "sealed_value_corrupt"), "%s: %v", name, err)
	}
	refused("another place", key, "variable var-2", sealed)
	refused("another key", envelope.NewKey(), string(aad), sealed)
	refused("nothing", key, string(aad), nil)
	refused("another format", key, string(aad), append([]byte{2}, sealed[1:]...))
	for i := range sealed {
		flipped := bytes.Clone(sealed)
		flipped[i] ^= 0x80
		refused(fmt.Sprint("flipped byte ", i), key, string(aad), flipped)
		refused(fmt.Sprint("cut to ", i), key, string(aad), sealed[:i])
	}
}

func TestSealedEmptyValueOpens(t *testing.T) {
	key := envelope.NewKey()
	plain, err := envelope.OpenValue(key, nil, envelope.SealValue(key, nil, nil))
	require.NoError(t, err)
	assert.Empty(t, plain)
}

func TestKeysDoNotPrint(t *testing.T) {
	key := envelope.Key([]byte("0123456789abcdef0123456789abcdef"))
	var logged bytes.Buffer
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("x", "key", key, "in", struct{ K envelope.Key }{key})
	asJSON, err := json.Marshal(map[string]any{"key": key})
	require.NoError(t, err)
	for _, text := range []string{fmt.Sprintf("%v %s %q %+v %#v", key, key, key, key, key), logged.String(), string(asJSON)} {
		assert.Contains(t, text, "[secret key]")
		assert.NotContains(t, text, "0123")
		assert.NotContains(t, text, "48 49", "bytes in decimal")
		assert.NotContains(t, text, "0x30")
	}
}
