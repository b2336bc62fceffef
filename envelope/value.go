package envelope

import (
	"crypto/aes"
	"crypto/cipher"

	"github.com/holdfast-run/holdfast/fault"
)

// valueFormat is the first byte of a sealed value: AES-256-GCM, random 96-bit
// nonce in front. Another algorithm gets another byte.
const valueFormat = 1

// SealValue encrypts a small value, such as a variable, under key. The result
// opens only with the same aad (additional authenticated data), which should name
// the place where the value is kept. One key seals at most 2^32 values.
func SealValue(key Key, aad, plain []byte) []byte {
	return aead(key).Seal([]byte{valueFormat}, nil, plain, aad)
}

// OpenValue gives back what SealValue sealed. Anything else, also the right bytes
// under a wrong key or aad, is fault.Internal with code sealed_value_corrupt.
func OpenValue(key Key, aad, sealed []byte) ([]byte, error) {
	if len(sealed) == 0 || sealed[0] != valueFormat {
		return nil, corruptValue()
	}
	plain, err := aead(key).Open(nil, nil, sealed[1:], aad)
	if err != nil {
		return nil, corruptValue().Because(err)
	}
	return plain, nil
}

func corruptValue() *fault.Error {
	return fault.New(fault.Internal, "sealed_value_corrupt", "A stored secret cannot be opened: it was changed, moved, or sealed under another key. Restore it from a backup or set it again.")
}

func aead(key Key) cipher.AEAD {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // only for a wrong key length, which the type rules out
	}
	gcm, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // only for another block size than that of AES
	}
	return gcm
}
