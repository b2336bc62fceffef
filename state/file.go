package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/holdfast-run/holdfast/fault"
)

// File is what the server reads out of a state file while its bytes stream by.
type File struct {
	Serial           int64
	Lineage          string
	TerraformVersion string
	// Encrypted: OpenTofu encrypted the file; only serial and lineage can be read.
	Encrypted bool
	// HasSerial and HasLineage tell whether the file names them at all.
	HasSerial, HasLineage bool
	Outputs               []FileOutput
	Resources             []Resource
	// OutputsLeftOut: the outputs are too large to be indexed; they are in the file only.
	OutputsLeftOut bool

	malformed error // why the bytes are no state file
}

// FileOutput is one root output as it stands in the file.
type FileOutput struct {
	Name      string          `json:"name"`
	Value     json.RawMessage `json:"value"`
	Type      json.RawMessage `json:"type"` // type in cty's JSON form, such as "string" or ["list","string"]
	Sensitive bool            `json:"sensitive"`
}

// Resource is one resource block with the number of its instances.
type Resource struct {
	Module    string `json:"module,omitempty"` // such as module.net["a"]; empty is the root
	Mode      string `json:"mode"`             // managed or data
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Instances int    `json:"instances"`
}

const (
	outputsLimit = 32 << 20 // bytes of outputs that are indexed
	scalarLimit  = 1 << 20  // a name, type or address longer than this is no state file
	depthLimit   = 1000
)

// ReadFile reads a state file to its end in constant memory, apart from outputs
// and the list of resources. Text that is not one JSON object, or that names its
// serial or lineage twice, is Invalid "state_malformed".
func ReadFile(r io.Reader) (File, error) {
	s := &scanner{r: bufio.NewReaderSize(r, 64<<10)}
	var f File
	err := s.object(func(key string) error { return f.member(s, key) })
	if err == nil {
		err = s.end()
	}
	if err != nil {
		var syntax *syntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.ErrUnexpectedEOF) {
			return File{}, fault.New(fault.Invalid, "state_malformed", "The uploaded bytes are not a state file: %s. Upload the file as `tofu` wrote it.", err.Error())
		}
		return File{}, err
	}
	return f, nil
}

func (f *File) member(s *scanner, key string) (err error) {
	switch key {
	case "serial":
		if f.HasSerial {
			return &syntaxError{"it names its serial twice"}
		}
		f.HasSerial = true
		f.Serial, err = s.integer()
	case "lineage":
		if f.HasLineage {
			return &syntaxError{"it names its lineage twice"}
		}
		f.HasLineage = true
		f.Lineage, err = s.text()
	case "terraform_version":
		f.TerraformVersion, err = s.text()
	case "encrypted_data":
		f.Encrypted = true
		err = s.skip(0)
	case "outputs":
		err = f.readOutputs(s)
	case "resources":
		err = f.readResources(s)
	default:
		err = s.skip(0)
	}
	return err
}

func (f *File) readOutputs(s *scanner) error {
	if c, err := s.peek(); err != nil || c != '{' {
		return s.skipOr(err)
	}
	left := outputsLimit
	return s.object(func(name string) error {
		if f.OutputsLeftOut {
			return s.skip(0)
		}
		raw, err := s.raw(left)
		if errors.Is(err, errTooLong) {
			f.Outputs, f.OutputsLeftOut = nil, true
			return nil
		}
		if err != nil {
			return err
		}
		left -= len(raw)
		var o FileOutput
		if err := json.Unmarshal(raw, &o); err != nil {
			return &syntaxError{"output " + strconv.Quote(name) + " has an unknown form"}
		}
		o.Name = name
		f.Outputs = append(f.Outputs, o)
		return nil
	})
}

func (f *File) readResources(s *scanner) error {
	if c, err := s.peek(); err != nil || c != '[' {
		return s.skipOr(err)
	}
	return s.array(func() error {
		if c, err := s.peek(); err != nil || c != '{' {
			return s.skipOr(err)
		}
		var r Resource
		err := s.object(func(key string) (err error) {
			switch key {
			case "module":
				r.Module, err = s.text()
			case "mode":
				r.Mode, err = s.text()
			case "type":
				r.Type, err = s.text()
			case "name":
				r.Name, err = s.text()
			case "provider":
				r.Provider, err = s.text()
			case "instances":
				if c, e := s.peek(); e != nil || c != '[' {
					return s.skipOr(e)
				}
				err = s.array(func() error { r.Instances++; return s.skip(0) })
			default:
				err = s.skip(0)
			}
			return err
		})
		f.Resources = append(f.Resources, r)
		return err
	})
}

type syntaxError struct{ what string }

func (e *syntaxError) Error() string { return e.what }

var errTooLong = errors.New("value is longer than the limit")

// scanner walks JSON without keeping it: encoding/json holds a whole string in
// memory, and an encrypted state is one string of any length.
type scanner struct {
	r       *bufio.Reader
	capture *[]byte // when set, every byte read is appended
	limit   int     // of the capture; over it bytes are dropped and tooLong is set
	tooLong bool
}

func (s *scanner) read() (byte, error) {
	c, err := s.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, io.ErrUnexpectedEOF
	}
	if err == nil && s.capture != nil && !s.tooLong {
		if len(*s.capture) >= s.limit {
			s.tooLong, *s.capture = true, nil
		} else {
			*s.capture = append(*s.capture, c)
		}
	}
	return c, err
}

// peek gives the next byte that is not white space without taking it.
func (s *scanner) peek() (byte, error) {
	for {
		c, err := s.read()
		if err != nil {
			return 0, err
		}
		if c == ' ' || c == '\n' || c == '\t' || c == '\r' {
			continue
		}
		if s.capture != nil && len(*s.capture) > 0 {
			*s.capture = (*s.capture)[:len(*s.capture)-1]
		}
		return c, s.r.UnreadByte()
	}
}

func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != want {
		return &syntaxError{"expected " + strconv.QuoteRune(rune(want)) + ", found " + strconv.QuoteRune(rune(c))}
	}
	_, err = s.read()
	return err
}

// list walks the members between open and closing bracket.
func (s *scanner) list(open, closing byte, each func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, err := s.peek()
		if err != nil {
			return err
		}
		switch {
		case c == closing:
			_, err = s.read()
			return err
		case !first:
			if err := s.expect(','); err != nil {
				return err
			}
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// object calls member for each key; member takes the value.
func (s *scanner) object(member func(key string) error) error {
	return s.list('{', '}', func() error {
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return member(key)
	})
}

// array calls element for each element, which it takes.
func (s *scanner) array(element func() error) error { return s.list('[', ']', element) }

// skip takes a value of any kind and keeps nothing of it.
func (s *scanner) skip(depth int) error {
	if depth > depthLimit {
		return &syntaxError{"it is nested too deep"}
	}
	c, err := s.peek()
	if err != nil {
		return err
	}
	switch {
	case c == '{':
		return s.list('{', '}', func() error {
			if err := s.skipText(); err != nil {
				return err
			}
			if err := s.expect(':'); err != nil {
				return err
			}
			return s.skip(depth + 1)
		})
	case c == '[':
		return s.list('[', ']', func() error { return s.skip(depth + 1) })
	case c == '"':
		return s.skipText()
	default:
		_, err := s.literal()
		return err
	}
}

func (s *scanner) skipOr(err error) error {
	if err != nil {
		return err
	}
	return s.skip(0)
}

func (s *scanner) skipText() error {
	if err := s.expect('"'); err != nil {
		return err
	}
	for {
		c, err := s.read()
		if err != nil {
			return err
		}
		switch c {
		case '"':
			return nil
		case '\\':
			if _, err := s.read(); err != nil {
				return err
			}
		}
	}
}

// raw takes a value and gives its bytes; a value over limit bytes is taken all the
// same, and errTooLong says that it was not kept.
func (s *scanner) raw(limit int) ([]byte, error) {
	var kept []byte
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	s.capture, s.limit, s.tooLong = &kept, limit, false
	err := s.skip(0)
	tooLong := s.tooLong
	s.capture, s.tooLong = nil, false
	if err != nil {
		return nil, err
	}
	if tooLong {
		return nil, errTooLong
	}
	return kept, nil
}

// text takes a string; null reads as "".
func (s *scanner) text() (string, error) {
	raw, err := s.raw(scalarLimit)
	if err != nil {
		if errors.Is(err, errTooLong) {
			return "", &syntaxError{"a name in it is too long"}
		}
		return "", err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", &syntaxError{"expected a string, found " + strconv.Quote(string(raw[:min(len(raw), 20)]))}
	}
	return text, nil
}

func (s *scanner) integer() (int64, error) {
	raw, err := s.raw(scalarLimit)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		return 0, &syntaxError{"its serial is not a whole number from 0 to 9223372036854775807"}
	}
	return n, nil
}

// literal takes a number, true, false or null.
func (s *scanner) literal() (string, error) {
	var lit []byte
	for {
		c, err := s.r.ReadByte()
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		if err != nil || !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E') {
			if err == nil {
				if err := s.r.UnreadByte(); err != nil {
					return "", err
				}
			}
			break
		}
		if lit = append(lit, c); len(lit) > 1024 {
			return "", &syntaxError{"a number in it is too long"}
		}
	}
	if !json.Valid(lit) {
		return "", &syntaxError{"it holds something that is not JSON"}
	}
	if s.capture != nil && !s.tooLong {
		*s.capture = append(*s.capture, lit...)
	}
	return string(lit), nil
}

// end checks that nothing but white space follows.
func (s *scanner) end() error {
	_, err := s.peek()
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err != nil {
		return err
	}
	return &syntaxError{"something follows after its end"}
}
