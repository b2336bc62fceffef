package archive

import (
	"io"

	"github.com/holdfast-run/holdfast/fault"
)

// CheckBeside checks the archive body while store reads it, so that it is read once. What
// store answers comes first: its error, or else that of Check.
func CheckBeside(body io.Reader, store func(body io.Reader) error) error {
	return beside(body, store, Check)
}

func beside(body io.Reader, store, check func(io.Reader) error) error {
	pr, pw := io.Pipe()
	checked := make(chan error, 1)
	go func() { checked <- wholly(pr, check) }()
	err := store(io.TeeReader(body, pw))
	_ = pw.CloseWithError(err) // nil closes with io.EOF
	if refused := <-checked; err == nil {
		err = refused
	}
	return err
}

// wholly reads to the end whatever check makes of the bytes: somebody else waits for them.
func wholly(body io.Reader, check func(io.Reader) error) (err error) {
	defer func() { _, _ = io.Copy(io.Discard, body) }()
	defer fault.Caught(&err)
	return check(body)
}
