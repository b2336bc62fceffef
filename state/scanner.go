package state

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// scanner walks JSON without keeping it: encoding/json holds a whole string in
// memory, and an encrypted state is one string of any length. What it accepts,
// encoding/json accepts too.
type scanner struct {
	r       *bufio.Reader
	capture bool   // every byte read is appended to kept
	kept    []byte // serves one capture after the other
	limit   int    // of the capture; over it bytes are dropped and tooLong is set
	tooLong bool
}

// syntaxError is why the text is no state file. It names no value of the text.
type syntaxError struct{ what string }

func (e *syntaxError) Error() string { return e.what }

var (
	errTooLong   = errors.New("value is longer than the limit")
	errTruncated = &syntaxError{"it ends too early"}
)

// ahead gives the bytes that are in the buffer, at least one. They are valid until
// the next call of ahead.
func (s *scanner) ahead() ([]byte, error) {
	if s.r.Buffered() == 0 {
		if _, err := s.r.Peek(1); err == io.EOF {
			return nil, errTruncated
		} else if err != nil {
			return nil, err
		}
	}
	return s.r.Peek(s.r.Buffered())
}

// take takes the first n of the bytes that ahead gave.
func (s *scanner) take(ahead []byte, n int) error {
	s.keep(ahead[:n]...)
	_, err := s.r.Discard(n)
	return err
}

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

func (s *scanner) keep(chunk ...byte) {
	switch {
	case !s.capture || s.tooLong:
	case len(s.kept)+len(chunk) > s.limit:
		s.tooLong, s.kept = true, nil
	default:
		s.kept = append(s.kept, chunk...)
	}
}

// peek gives the next byte that is not white space without taking it.
func (s *scanner) peek() (byte, error) {
	for {
		ahead, err := s.ahead()
		if err != nil {
			return 0, err
		}
		n := 0
		for n < len(ahead) && (ahead[n] == ' ' || ahead[n] == '\n' || ahead[n] == '\t' || ahead[n] == '\r') {
			n++
		}
		if n > 0 {
			if err := s.take(ahead, n); err != nil {
				return 0, err
			}
		}
		if n < len(ahead) {
			return ahead[n], nil
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
		ahead, err := s.ahead()
		if err != nil {
			return err
		}
		n := plain(ahead)
		for n+1 < len(ahead) && ahead[n] == '\\' && shortEscape(ahead[n+1]) {
			n += 2
			n += plain(ahead[n:])
		}
		if n == len(ahead) {
			if err := s.take(ahead, n); err != nil {
				return err
			}
			continue
		}
		c := ahead[n]
		if err := s.take(ahead, n+1); err != nil {
			return err
		}
		switch c {
		case '"':
			return nil
		case '\\':
			if err := s.skipEscape(); err != nil {
				return err
			}
		default:
			return &syntaxError{"a string in it holds a control character"}
		}
	}
}

// plain counts the bytes before the first that means something in a string: a quote,
// a backslash or a control character. It looks at eight bytes at a time, because a
// ciphertext is one string that is as long as the whole state.
func plain(b []byte) int {
	n := 0
	for ; n+8 <= len(b); n += 8 {
		w := binary.LittleEndian.Uint64(b[n:])
		if found := below(w, ' ') | below(w^('"'*ones), 1) | below(w^('\\'*ones), 1); found != 0 {
			return n + bits.TrailingZeros64(found)/8
		}
	}
	for n < len(b) && b[n] >= ' ' && b[n] != '"' && b[n] != '\\' {
		n++
	}
	return n
}

const ones = 0x0101010101010101 // times a byte: that byte in each of the eight places

// below marks the high bit of each byte of w that is less than limit (at most 128).
// The lowest mark is exact; those above it may be false, for the subtraction borrows.
func below(w, limit uint64) uint64 { return (w - limit*ones) &^ w & (0x80 * ones) }

func (s *scanner) skipEscape() error {
	c, err := s.read()
	if err != nil {
		return err
	}
	digits := 0
	switch {
	case shortEscape(c):
	case c == 'u':
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

// shortEscape tells whether c makes a whole escape with the backslash before it.
func shortEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// raw takes a value and gives its bytes, valid until the next call; a value over
// limit bytes is taken all the same, and errTooLong says that it was not kept.
func (s *scanner) raw(limit int) ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	s.capture, s.kept, s.limit, s.tooLong = true, s.kept[:0], limit, false
	err := s.skip(0)
	s.capture = false
	if err != nil {
		return nil, err
	}
	if s.tooLong {
		return nil, errTooLong
	}
	return s.kept, nil
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
	if raw[0] == '"' && bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw[1 : len(raw)-1]), nil // nothing for encoding/json to replace
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
	var literal []byte // what was taken; one that lies whole in the buffer is not copied
	for {
		ahead, err := s.ahead()
		if err != nil && err != error(errTruncated) {
			return err
		}
		n := 0
		for n < len(ahead) && ofLiteral(ahead[n]) {
			n++
		}
		if len(literal)+n > literalLimit {
			return &syntaxError{"a number in it is too long"}
		}
		whole := ahead[:n]
		ended := n < len(ahead) || err != nil
		if len(literal) > 0 || !ended {
			literal = append(literal, whole...)
			whole = literal
		}
		if ended && !json.Valid(whole) {
			return &syntaxError{"it holds something that is not JSON"}
		}
		if takeErr := s.take(ahead, n); takeErr != nil || ended {
			return takeErr
		}
	}
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
