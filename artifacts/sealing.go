package artifacts

import (
	"bytes"
	"crypto/md5" // the client's protocol demands it; SHA-256 stands beside it
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"

	"github.com/holdfast-run/holdfast/envelope"
	"github.com/holdfast-run/holdfast/fault"
)

const (
	pieceSize = 256 << 10 // plain bytes that are sealed at a time
	pieces    = 6         // in memory: those that are sealed may wait to be hashed
)

// sealingReader gives the sealed form of a body while it hashes, counts and limits
// the plain one. It pulls: nothing is read from the body before the store asks for
// more. A piece is hashed after it was sealed, while the store takes it; stop must be
// called to end that.
type sealingReader struct {
	body     io.Reader
	kind     Kind
	limit    int64        // in plain bytes; none when not positive
	beside   io.Writer    // gets the plain bytes too, and is closed at their end if it can be
	atEnd    func() error // called once, when all of the body is read; with its error the sealed form has no end
	sealer   io.WriteCloser
	sealed   bytes.Buffer
	size     int64
	whole    bool  // the body ended and the seal is closed
	complete bool  // the body ended: no piece follows
	err      error // why reading the body stopped early

	free   chan []byte // memory for pieces
	toHash chan []byte
	hashed chan struct{} // closed when all pieces are
	sha256 hash.Hash
	md5    hash.Hash
}

func newSealingReader(body io.Reader, limit int64, dek envelope.Key, c envelope.Context, beside io.Writer, atEnd func() error) (*sealingReader, error) {
	r := &sealingReader{
		body: body, kind: Kind(c.Kind), limit: limit, beside: beside, atEnd: atEnd,
		free: make(chan []byte, pieces), toHash: make(chan []byte, pieces), hashed: make(chan struct{}), sha256: sha256.New(), md5: md5.New(),
	}
	var err error
	if r.sealer, err = envelope.Seal(&r.sealed, dek, c); err != nil {
		return nil, err
	}
	for range pieces {
		r.free <- nil // made when it is needed: most bodies are short
	}
	go r.hash()
	return r, nil
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
	piece := <-r.free
	if piece == nil {
		piece = make([]byte, pieceSize)
	}
	n, ended, err := fill(piece, r.body)
	r.size += int64(n)
	if r.limit > 0 && r.size > r.limit {
		return fault.New(fault.TooLarge, "artifact_too_large", "The %s is larger than the limit of %d bytes. Nothing was stored.", r.kind, r.limit)
	}
	if err != nil {
		return err
	}
	if _, err := r.sealer.Write(piece[:n]); err != nil {
		return err
	}
	r.toHash <- piece[:n]
	if !ended {
		return nil
	}
	r.complete = true
	close(r.toHash)
	if err := r.atEnd(); err != nil {
		return err
	}
	if err := r.sealer.Close(); err != nil {
		return err
	}
	r.whole = true
	return nil
}

// hash works on the pieces that are sealed, on several processors at once.
func (r *sealingReader) hash() {
	defer close(r.hashed)
	for piece := range r.toHash {
		var others sync.WaitGroup
		others.Go(func() { _, _ = r.md5.Write(piece) }) // a hash never fails
		others.Go(func() { _, _ = r.beside.Write(piece) })
		_, _ = r.sha256.Write(piece)
		others.Wait()
		r.free <- piece[:cap(piece)]
	}
	if c, can := r.beside.(io.Closer); can && r.complete {
		_ = c.Close() // its errors do not count
	}
}

// stop waits until what was sealed is hashed. Nothing may be read after it.
func (r *sealingReader) stop() {
	if !r.complete {
		close(r.toHash)
	}
	<-r.hashed
}

// consumed tells whether every sealed byte was taken.
func (r *sealingReader) consumed() bool { return r.whole && r.sealed.Len() == 0 }

// digests are those of the whole body, after stop.
func (r *sealingReader) digests() (sha256Hex, md5Hex string) {
	return hex.EncodeToString(r.sha256.Sum(nil)), hex.EncodeToString(r.md5.Sum(nil))
}
