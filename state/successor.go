package state

import (
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
)

// Inspect reads a state file of a recovery to its end. Bytes that are no state file, or
// one that does not say which state it is, are Invalid "state_malformed". An error of r
// is returned as it is.
func Inspect(r io.Reader) (File, error) {
	f, err := ReadFile(r)
	var refused *fault.Error
	if errors.As(err, &refused) && refused.Code == "state_malformed" {
		_, unread := io.Copy(io.Discard, r) // whoever reads along sees all of it
		return File{}, errors.Join(refused, unread)
	}
	if err != nil {
		return File{}, err
	}
	if !f.HasSerial || !f.HasLineage {
		return File{}, malformed("it names no serial or no lineage")
	}
	return f, nil
}

// WithSerial gives the bytes of the file, which body has from its first byte on, with
// another serial and nothing else changed (G-19). It must not be used for a file that
// the client encrypted: OpenTofu refuses one whose serial was rewritten (NC-28).
func (f File) WithSerial(body io.Reader, serial int64) io.Reader {
	return io.MultiReader(io.LimitReader(body, f.serialAt), strings.NewReader(strconv.FormatInt(serial, 10)), &behind{body, f.serialEnd - f.serialAt})
}

// behind reads what follows the first skip bytes.
type behind struct {
	body io.Reader
	skip int64
}

func (b *behind) Read(p []byte) (int, error) {
	if b.skip > 0 {
		n, err := io.CopyN(io.Discard, b.body, b.skip)
		if b.skip -= n; err != nil {
			return 0, err
		}
	}
	return b.body.Read(p)
}
