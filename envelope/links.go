package envelope

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"github.com/holdfast-run/holdfast/fault"
)

// Links mints and checks the tokens in addresses that authenticate themselves,
// where the client sends no other credential: uploads, downloads and logs. A token
// is never stored: it carries its expiry and a 256-bit code over subject and expiry.
type Links struct{ keys []Derived }

// NewLinks derives the keys for links from every root key of the ring, so that a
// rotation does not kill the addresses that are out.
func NewLinks(ctx context.Context, ring Keyring) (*Links, error) {
	keys, err := ring.Derive(ctx, "links")
	if err != nil {
		return nil, err
	}
	return &Links{keys: keys}, nil
}

const (
	expirySize = 8
	tokenSize  = expirySize + sha256.Size
)

// Mint gives a URL-safe token of 54 characters that is good for subject until
// expires, in whole seconds. The subject should name the object, the kind of access
// and the epoch. Equal subject and expiry give an equal token.
func (l *Links) Mint(subject string, expires time.Time) string {
	token := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(expires.Unix()))
	token = append(token, code(l.keys[0].Key, token, subject)...)
	return base64.RawURLEncoding.EncodeToString(token)
}

// Minted tells whether token was minted for subject, whether or not it has expired:
// for subjects whose end a database row decides.
func (l *Links) Minted(token, subject string) bool {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	return err == nil && len(raw) == tokenSize && l.minted(raw, subject)
}

// Verify checks that token was minted for subject and has not expired at now. Both
// answers are fault.NotFound: link_invalid for a token of something else,
// link_expired for one that was good.
func (l *Links) Verify(token, subject string, now time.Time) error {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) != tokenSize || !l.minted(raw, subject) {
		return fault.New(fault.NotFound, "link_invalid", "This address is not valid. Ask the server for a new one.")
	}
	expires := time.Unix(int64(binary.BigEndian.Uint64(raw)), 0)
	if !now.Before(expires) {
		return fault.New(fault.NotFound, "link_expired", "This address expired at %s. Ask the server for a new one.", expires.UTC().Format(time.RFC3339))
	}
	return nil
}

func (l *Links) minted(raw []byte, subject string) bool {
	for _, k := range l.keys {
		if hmac.Equal(raw[expirySize:], code(k.Key, raw[:expirySize], subject)) {
			return true
		}
	}
	return false
}

// code authenticates subject and expiry; the expiry has a fixed size, so the two
// cannot be shifted against each other.
func code(key Key, expiry []byte, subject string) []byte {
	mac := hmac.New(sha256.New, key[:])
	mac.Write(expiry)
	mac.Write([]byte(subject))
	return mac.Sum(nil)
}
