package envelope

import (
	"crypto/rand"
	"log/slog"
)

// KeySize is the size of every key, in bytes.
const KeySize = 32

// Key is a 256-bit secret key. It prints as a placeholder, so that it cannot
// reach a log by accident.
type Key [KeySize]byte

// NewKey makes a random key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k[:]) // never fails: crypto/rand aborts the program instead
	return k
}

const redacted = "[secret key]"

// String gives a placeholder.
func (Key) String() string { return redacted }

// GoString gives a placeholder.
func (Key) GoString() string { return redacted }

// LogValue gives a placeholder.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText gives a placeholder.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }
