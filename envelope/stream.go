package envelope

import (
	"errors"
	"io"
	"slices"

	"filippo.io/age"

	"github.com/holdfast-run/holdfast/fault"
)

const stanzaType = "holdfast"

// Seal writes to dst what is written to the returned writer, sealed under dek and
// bound to c. Close ends the stream; without it the object cannot be opened. The
// memory used is constant. A DEK seals one object.
func Seal(dst io.Writer, dek Key, c Context) (io.WriteCloser, error) {
	args, err := c.args()
	if err != nil {
		return nil, err
	}
	return age.Encrypt(dst, recipient{dek: dek, args: args})
}

// Open gives the plain bytes of src, which must have been sealed under dek and
// exactly the context want. A stream that was cut, changed, extended or sealed for
// another place is fault.Internal with code sealed_object_corrupt, from Open or
// from a later Read; bytes that Read gave before are authentic. An error of src
// itself is passed on as it is.
func Open(src io.Reader, dek Key, want Context) (io.Reader, error) {
	args, err := want.args()
	if err != nil {
		return nil, err
	}
	r := &openReader{src: &source{r: src}}
	r.plain, err = age.Decrypt(r.src, identity{dek: dek, args: args})
	if err != nil {
		return nil, r.explain(err)
	}
	return r, nil
}

// ReadHeader reads what a sealed stream belongs to, without any key: for finding
// one's way in a store whose database is lost. Without a key nothing can be
// authenticated; Open does that.
func ReadHeader(src io.Reader) (Context, error) {
	reader := &headerReader{}
	r := &openReader{src: &source{r: src}}
	_, err := age.Decrypt(r.src, reader)
	if reader.args == nil {
		return Context{}, r.explain(err)
	}
	c, err := parseContext(reader.args)
	if err != nil {
		return Context{}, corruptObject().Because(err)
	}
	return c, nil
}

func corruptObject() *fault.Error {
	return fault.New(fault.Internal, "sealed_object_corrupt", "A stored object cannot be opened: its bytes were cut, changed or exchanged in the object store. Restore it from a backup of the store.")
}

// recipient wraps age's file key under the DEK.
type recipient struct {
	dek  Key
	args []string
}

// Wrap implements age.Recipient.
func (r recipient) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	return []*age.Stanza{{Type: stanzaType, Args: r.args, Body: SealValue(r.dek, canonical(r.args), fileKey)}}, nil
}

// identity unwraps age's file key when the header names the expected context.
type identity struct {
	dek  Key
	args []string
}

// Unwrap implements age.Identity.
func (i identity) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	stanza, err := only(stanzas)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(stanza.Args, i.args) {
		return nil, errors.New("the header names another object")
	}
	return OpenValue(i.dek, canonical(i.args), stanza.Body)
}

// headerReader is an identity that opens nothing and remembers the header.
type headerReader struct{ args []string }

// Unwrap implements age.Identity.
func (h *headerReader) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	stanza, err := only(stanzas)
	if err != nil {
		return nil, err
	}
	h.args = stanza.Args
	return nil, age.ErrIncorrectIdentity
}

func only(stanzas []*age.Stanza) (*age.Stanza, error) {
	if len(stanzas) != 1 || stanzas[0].Type != stanzaType || len(stanzas[0].Args) == 0 {
		return nil, errors.New("not an object of this server")
	}
	return stanzas[0], nil
}

// source remembers how the underlying reader failed, so that a lost connection is
// not mistaken for a damaged object.
type source struct {
	r   io.Reader
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err != nil && err != io.EOF {
		s.err = err
	}
	return n, err
}

type openReader struct {
	src   *source
	plain io.Reader
}

func (r *openReader) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if err != nil && err != io.EOF {
		err = r.explain(err)
	}
	return n, err
}

// explain tells an error of the source from a damaged object.
func (r *openReader) explain(err error) error {
	if r.src.err != nil {
		return r.src.err
	}
	return corruptObject().Because(err)
}
