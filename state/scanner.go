package state

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// scanner walks JSON without keeping it: encoding/json holds a whole string in
// memory, and an encrypted state is one string of any length. What it accepts,
// encoding/json accepts too.
type scanner struct {
	r       *bufio.Reader
	capture *[]byte // when set, every byte read is appended
	limit   int     // of the capture; over it bytes are dropped and tooLong is set
	tooLong bool
}

// syntaxError is why the text is no state file. It names no value of the text.
type syntaxError struct{ what string }

func (e *syntaxError) Error() string { return e.what }

var (
	errTooLong   = errors.New("value is longer than the limit")
	errTruncated = &syntaxError{"it ends too early"}
)

func (s *scanner) read() (byte, error) {
	c, err := s.r.ReadByte()
	if err == io.EOF {
		return 0, errTruncated
	}
	if err == nil {
		s.keep(c)
	}
	return c, err
}

func (s *scanner) keep(bytes ...byte) {
	switch {
	case s.capture == nil || s.tooLong:
	case len(*s.capture)+len(bytes) > s.limit:
		s.tooLong, *s.capture = true, nil
	default:
		*s.capture = append(*s.capture, bytes...)
	}
}

// peek gives the next byte that is not white space without taking it.
func (s *scanner) peek() (byte, error) {
	for {
		next, err := s.r.Peek(1)
		if err == io.EOF {
			return 0, errTruncated
		}
		if err != nil {
			return 0, err
		}
		switch next[0] {
		case ' ', '\n', '\t', '\r':
			if _, err := s.read(); err != nil {
				return 0, err
			}
		default:
			return next[0], nil
		}
	}
}

func (s *scanner) expect(want byte) error {
	c, err := s.peek()
	if err != nil {
		return err
	}
	if c != want {
		return &syntaxError{"something else stands where " + strconv.QuoteRune(rune(want)) + " was expected"}
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
		if c, err := s.peek(); err != nil || c != '"' {
			return s.notAKey(err)
		}
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

func (s *scanner) notAKey(err error) error {
	if err != nil {
		return err
	}
	return &syntaxError{"a member of an object has no name"}
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
	switch c {
	case '{':
		return s.list('{', '}', func() error {
			if err := s.skipText(); err != nil {
				return err
			}
			if err := s.expect(':'); err != nil {
				return err
			}
			return s.skip(depth + 1)
		})
	case '[':
		return s.list('[', ']', func() error { return s.skip(depth + 1) })
	case '"':
		return s.skipText()
	default:
		return s.skipLiteral()
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
		switch {
		case c == '"':
			return nil
		case c < ' ':
			return &syntaxError{"a string in it holds a control character"}
		case c == '\\':
			if err := s.skipEscape(); err != nil {
				return err
			}
		}
	}
}

func (s *scanner) skipEscape() error {
	c, err := s.read()
	if err != nil {
		return err
	}
	digits := 0
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
	case 'u':
		digits = 4
	default:
		return &syntaxError{"a string in it holds an unknown escape"}
	}
	for range digits {
		if c, err = s.read(); err != nil {
			return err
		}
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') && (c < 'A' || c > 'F') {
			return &syntaxError{"a string in it holds an unknown escape"}
		}
	}
	return nil
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
	if errors.Is(err, errTooLong) {
		return "", &syntaxError{"a name in it is too long"}
	}
	if err != nil {
		return "", err
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", &syntaxError{"something else stands where a string was expected"}
	}
	return text, nil
}

func (s *scanner) integer() (int64, error) {
	raw, err := s.raw(scalarLimit)
	if err != nil && !errors.Is(err, errTooLong) {
		return 0, err
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || raw[0] == '-' {
		return 0, &syntaxError{"its serial is not a whole number from 0 to 9223372036854775807"}
	}
	return n, nil
}

const literalLimit = 1024

// skipLiteral takes a number, true, false or null.
func (s *scanner) skipLiteral() error {
	var literal []byte
	for {
		next, err := s.r.Peek(1)
		if err != nil && err != io.EOF {
			return err
		}
		if err != nil || !ofLiteral(next[0]) {
			break
		}
		if literal = append(literal, next[0]); len(literal) > literalLimit {
			return &syntaxError{"a number in it is too long"}
		}
		if _, err := s.r.Discard(1); err != nil {
			return err
		}
	}
	if !json.Valid(literal) {
		return &syntaxError{"it holds something that is not JSON"}
	}
	s.keep(literal...)
	return nil
}

func ofLiteral(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c == '-' || c == '+' || c == '.' || c == 'E'
}

// end checks that nothing but white space follows.
func (s *scanner) end() error {
	_, err := s.peek()
	if err == error(errTruncated) {
		return nil
	}
	if err != nil {
		return err
	}
	return &syntaxError{"something follows after its end"}
}
