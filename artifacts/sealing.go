package artifacts

import (
	"bytes"
	"crypto/md5" // the client's protocol demands it; SHA-256 stands beside it
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
)

// sealingReader gives the sealed form of a body while it hashes, counts and limits
// the plain one. It pulls: nothing is read from the body before the store asks for
// more, and no goroutine outlives a failed upload.
type sealingReader struct {
	body   io.Reader
	kind   Kind
	limit  int64 // in plain bytes; none when not positive
	sealer io.WriteCloser
	sealed bytes.Buffer
	plain  []byte
	sha256 hash.Hash
	md5    hash.Hash
	size   int64
	whole  bool  // the body ended and the seal is closed
	err    error // why reading the body stopped early
}

func newSealingReader(body io.Reader, limit int64, dek envelope.Key, c envelope.Context) (*sealingReader, error) {
	r := &sealingReader{
		body: body, kind: Kind(c.Kind), limit: limit, plain: make([]byte, 64<<10),
		sha256: sha256.New(), md5: md5.New(),
	}
	var err error
	r.sealer, err = envelope.Seal(&r.sealed, dek, c)
	return r, err
}

// Read implements io.Reader.
func (r *sealingReader) Read(p []byte) (int, error) {
	for r.err == nil && !r.whole && r.sealed.Len() == 0 {
		r.err = r.more()
	}
	if r.err != nil {
		return 0, r.err
	}
	return r.sealed.Read(p) // io.EOF when whole and empty
}

// more seals the next piece of the body.
func (r *sealingReader) more() error {
	n, err := r.body.Read(r.plain)
	piece := r.plain[:n]
	r.size += int64(n)
	if r.limit > 0 && r.size > r.limit {
		return fault.New(fault.TooLarge, "artifact_too_large", "The %s is larger than the limit of %d bytes. Nothing was stored.", r.kind, r.limit)
	}
	_, _ = r.sha256.Write(piece) // a hash never fails
	_, _ = r.md5.Write(piece)
	if _, werr := r.sealer.Write(piece); werr != nil {
		return werr
	}
	if err == io.EOF {
		r.whole = true
		return r.sealer.Close()
	}
	return err
}

// consumed tells whether every sealed byte was taken.
func (r *sealingReader) consumed() bool { return r.whole && r.sealed.Len() == 0 }

func (r *sealingReader) digests() (sha256Hex, md5Hex string) {
	return hex.EncodeToString(r.sha256.Sum(nil)), hex.EncodeToString(r.md5.Sum(nil))
}
