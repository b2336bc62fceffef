package envelope_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

func stateContext() envelope.Context {
	return envelope.Context{
		Kind: "state", Object: ids.New[ids.Object](), Organization: ids.New[ids.Organization](), Workspace: ids.New[ids.Workspace](),
		Serial: 0, Lineage: "a b=c\n→ \x00 free text", Run: ids.New[ids.Run](), Epoch: 41,
	}
}

func seal(t testing.TB, dek envelope.Key, c envelope.Context, plain []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := envelope.Seal(&out, dek, c)
	require.NoError(t, err)
	_, err = w.Write(plain)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func open(sealed []byte, dek envelope.Key, c envelope.Context) ([]byte, error) {
	r, err := envelope.Open(bytes.NewReader(sealed), dek, c)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

func TestSealedStreamOpens(t *testing.T) {
	for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300_000} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			dek, c := envelope.NewKey(), stateContext()
			plain := bytes.Repeat([]byte("s"), size)
			sealed := seal(t, dek, c, plain)
			assert.NotContains(t, string(sealed), "ssss")
			got, err := open(sealed, dek, c)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(plain, got))
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dek, c := envelope.NewKey(), stateContext()
	plain := bytes.Repeat([]byte("plain "), 50_000) // five chunks
	sealed := seal(t, dek, c, plain)
	header := bytes.Index(sealed, []byte("\n--- ")) + 5

	damaged := map[string][]byte{
		"nothing":         {},
		"half a header":   sealed[:header/2],
		"header only":     sealed[:header],
		"cut in a chunk":  sealed[:len(sealed)-1],
		"cut at a chunk":  sealed[:len(sealed)-(len(plain)%(64<<10))-16],
		"appended byte":   append(bytes.Clone(sealed), 0),
		"two joined":      append(bytes.Clone(sealed), sealed...),
		"another serial":  bytes.Replace(sealed, []byte(" serial=0 "), []byte(" serial=1 "), 1),
		"serial left out": bytes.Replace(sealed, []byte(" serial=0 "), []byte(" "), 1),
		"not ours":        []byte("age-encryption.org/v1\n-> X25519 abc\nAAAA\n--- AAAA\n"),
	}
	for i := 0; i < len(sealed); i += 1 + len(sealed)/200 {
		flipped := bytes.Clone(sealed)
		flipped[i] ^= 1
		damaged[fmt.Sprintf("bit flipped at %d", i)] = flipped
	}
	for name, bad := range damaged {
		_, err := open(bad, dek, c)
		assert.Truef(t, fault.Is(err, fault.Internal) && fault.HasCode(err, "sealed_object_corrupt"), "%s: %v", name, err)
	}

	_, err := open(sealed, envelope.NewKey(), c)
	assert.True(t, fault.HasCode(err, "sealed_object_corrupt"), "another key: %v", err)
}

func TestOpenRefusesAnotherContext(t *testing.T) {
	dek, c := envelope.NewKey(), stateContext()
	sealed := seal(t, dek, c, []byte("secret"))
	for name, change := range map[string]func(*envelope.Context){
		"kind":         func(c *envelope.Context) { c.Kind = "plan" },
		"object":       func(c *envelope.Context) { c.Object = ids.New[ids.Object]() },
		"organization": func(c *envelope.Context) { c.Organization = ids.New[ids.Organization]() },
		"workspace":    func(c *envelope.Context) { c.Workspace = ids.New[ids.Workspace]() },
		"serial":       func(c *envelope.Context) { c.Serial = 1 },
		"no serial":    func(c *envelope.Context) { c.Serial = envelope.NoSerial },
		"lineage":      func(c *envelope.Context) { c.Lineage = "other" },
		"run":          func(c *envelope.Context) { c.Run = "" },
		"epoch":        func(c *envelope.Context) { c.Epoch++ },
	} {
		other := c
		change(&other)
		_, err := open(sealed, dek, other)
		assert.Truef(t, fault.HasCode(err, "sealed_object_corrupt"), "%s: %v", name, err)
	}
}

func TestReadHeaderNeedsNoKey(t *testing.T) {
	c := stateContext()
	sealed := seal(t, envelope.NewKey(), c, []byte("secret"))
	got, err := envelope.ReadHeader(bytes.NewReader(sealed))
	require.NoError(t, err)
	assert.Equal(t, c, got)

	small := envelope.Context{Kind: "configuration", Object: c.Object, Organization: c.Organization, Serial: envelope.NoSerial}
	got, err = envelope.ReadHeader(bytes.NewReader(seal(t, envelope.NewKey(), small, nil)))
	require.NoError(t, err)
	assert.Equal(t, small, got)

	_, err = envelope.ReadHeader(strings.NewReader("something else"))
	assert.True(t, fault.HasCode(err, "sealed_object_corrupt"))
}

func TestSealRefusesAContextThatCannotBeWritten(t *testing.T) {
	c := stateContext()
	for name, change := range map[string]func(*envelope.Context){
		"no kind":           func(c *envelope.Context) { c.Kind = "" },
		"no object":         func(c *envelope.Context) { c.Object = "" },
		"no organization":   func(c *envelope.Context) { c.Organization = "" },
		"space in the kind": func(c *envelope.Context) { c.Kind = "state serial=4" },
		"newline in the id": func(c *envelope.Context) { c.Workspace = "ws-1\n---" },
	} {
		bad := c
		change(&bad)
		_, err := envelope.Seal(io.Discard, envelope.NewKey(), bad)
		assert.Error(t, err, name)
	}
}

func TestOpenPassesOnAnErrorOfTheSource(t *testing.T) {
	dek, c := envelope.NewKey(), stateContext()
	sealed := seal(t, dek, c, make([]byte, 200_000))
	lost := errors.New("connection lost")
	for _, at := range []int{0, 20, 150_000} {
		r, err := envelope.Open(io.MultiReader(bytes.NewReader(sealed[:at]), iotest.ErrReader(lost)), dek, c)
		if err == nil {
			_, err = io.ReadAll(r)
		}
		assert.ErrorIsf(t, err, lost, "after %d bytes", at)
		assert.False(t, fault.HasCode(err, "sealed_object_corrupt"))
	}
}

func BenchmarkSeal(b *testing.B) {
	dek, c, plain := envelope.NewKey(), stateContext(), make([]byte, 16<<20)
	b.SetBytes(int64(len(plain)))
	for b.Loop() {
		w, err := envelope.Seal(io.Discard, dek, c)
		require.NoError(b, err)
		_, err = w.Write(plain)
		require.NoError(b, err)
		require.NoError(b, w.Close())
	}
}

func BenchmarkOpen(b *testing.B) {
	dek, c := envelope.NewKey(), stateContext()
	sealed := seal(b, dek, c, make([]byte, 16<<20))
	b.SetBytes(16 << 20)
	for b.Loop() {
		r, err := envelope.Open(bytes.NewReader(sealed), dek, c)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, r)
		require.NoError(b, err)
	}
}
