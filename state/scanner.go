package state

import (
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
	r         io.Reader
	buf       []byte
	pos, upto int   // buf[pos:upto] was read and not yet taken
	before    int64 // bytes of the text before buf

	capture bool   // what is taken is kept, from buf[from:] on
	from    int    // in buf
	kept    []byte // what was taken of a capture before buf was filled anew
	limit   int    // of a capture; over it nothing is kept and tooLong is set
	tooLong bool

	words map[string]string // texts that come again and again
}

// bufferSize is how many bytes are looked at together.
const bufferSize = 64 << 10

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, bufferSize), words: map[string]string{}}
}

// syntaxError is why the text is no state file. It names no value of the text.
type syntaxError struct{ what string }

func (e *syntaxError) Error() string { return e.what }

var (
	errTooLong   = errors.New("value is longer than the limit")
	errTruncated = &syntaxError{"it ends too early"}
)

// ahead gives the bytes that are in the buffer, at least one. They are valid until
// the next call; take takes them.
func (s *scanner) ahead() ([]byte, error) {
	if s.pos == s.upto {
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
	return s.buf[s.pos:s.upto], nil
}

func (s *scanner) take(n int) { s.pos += n }

// offset is how many bytes of the text were taken.
func (s *scanner) offset() int64 { return s.before + int64(s.pos) }

// fill reads more once everything was taken.
func (s *scanner) fill() error {
	s.stash()
	s.before += int64(s.upto)
	s.from, s.pos, s.upto = 0, 0, 0
	for range 100 { // a reader may give nothing now and then
		n, err := s.r.Read(s.buf)
		s.upto = n
		switch {
		case n > 0:
			return nil // an error comes again
		case err == io.EOF:
			return errTruncated
		case err != nil:
			return err
		}
	}
	return io.ErrNoProgress
}

// stash moves what a capture took out of the buffer.
func (s *scanner) stash() {
	switch taken := s.buf[s.from:s.pos]; {
	case !s.capture || s.tooLong:
	case len(s.kept)+len(taken) > s.limit:
		s.tooLong, s.kept = true, nil
	default:
		s.kept = append(s.kept, taken...)
	}
}

func (s *scanner) read() (byte, error) {
	ahead, err := s.ahead()
	if err != nil {
		return 0, err
	}
	s.take(1)
	return ahead[0], nil
}

// peek gives the next byte that is not white space without taking it.
func (s *scanner) peek() (byte, error) {
	for {
		for s.pos < s.upto {
			c := s.buf[s.pos]
			if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
				return c, nil
			}
			s.pos++
		}
		if err := s.fill(); err != nil {
			return 0, err
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
	s.take(1)
	return nil
}

// list walks the members between open and closing bracket.
func (s *scanner) list(open, closing byte, each func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	for first := true; ; first = false {
		if ended, err := s.next(closing, first); ended || err != nil {
			return err
		}
		if err := each(); err != nil {
			return err
		}
	}
}

// next takes what stands before a member: a comma, unless it is the first, or the
// closing bracket, which ends the list.
func (s *scanner) next(closing byte, first bool) (ended bool, err error) {
	c, err := s.peek()
	switch {
	case err != nil:
		return false, err
	case c == closing:
		s.take(1)
		return true, nil
	case first:
		return false, nil
	}
	return false, s.expect(',')
}

// object calls member for each key; member takes the value.
func (s *scanner) object(member func(key string) error) error {
	return s.list('{', '}', func() error {
		if c, err := s.peek(); err != nil || c != '"' {
			return s.notAKey(err)
		}
		key, err := s.word()
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
		return s.skipList('}', depth)
	case '[':
		return s.skipList(']', depth)
	case '"':
		return s.skipText()
	default:
		return s.skipLiteral()
	}
}

func (s *scanner) skipList(closing byte, depth int) error {
	s.take(1)
	for first := true; ; first = false {
		if ended, err := s.next(closing, first); ended || err != nil {
			return err
		}
		if closing == '}' {
			if err := s.skipText(); err != nil {
				return err
			}
			if err := s.expect(':'); err != nil {
				return err
			}
		}
		if err := s.skip(depth + 1); err != nil {
			return err
		}
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
		if n == len(ahead) {
			s.take(n)
			continue
		}
		s.take(n + 1)
		switch ahead[n] {
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
	case bytes.IndexByte([]byte(`"\\/bfnrt`), c) >= 0:
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

// raw takes a value and gives its bytes, valid until the next call; a value over
// limit bytes is taken all the same, and errTooLong says that it was not kept.
func (s *scanner) raw(limit int) ([]byte, error) {
	if _, err := s.peek(); err != nil {
		return nil, err
	}
	s.capture, s.from, s.kept, s.limit, s.tooLong = true, s.pos, s.kept[:0], limit, false
	err := s.skip(0)
	whole := s.buf[s.from:s.pos]
	if len(s.kept) > 0 || s.tooLong || len(whole) > limit { // it came in several pieces, or is kept in none
		s.stash()
		whole = s.kept
	}
	s.capture = false
	if err != nil {
		return nil, err
	}
	if s.tooLong {
		return nil, errTooLong
	}
	return whole, nil
}

// text takes a string; null reads as "".
func (s *scanner) text() (string, error) {
	raw, err := s.rawText()
	if err != nil {
		return "", err
	}
	return unquote(raw)
}

const (
	wordsMost = 4096 // that are remembered
	wordLimit = 256  // bytes
)

// word is text for a string that the file repeats: it is kept once.
func (s *scanner) word() (string, error) {
	raw, err := s.rawText()
	if err != nil {
		return "", err
	}
	if word, ok := s.words[string(raw)]; ok {
		return word, nil
	}
	word, err := unquote(raw)
	if err == nil && len(raw) <= wordLimit && len(s.words) < wordsMost {
		s.words[string(raw)] = word
	}
	return word, err
}

func (s *scanner) rawText() ([]byte, error) {
	raw, err := s.raw(scalarLimit)
	if errors.Is(err, errTooLong) {
		return nil, &syntaxError{"a name in it is too long"}
	}
	return raw, err
}

func unquote(raw []byte) (string, error) {
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
		s.take(n)
		if !ended {
			continue
		}
		if !common(whole) && !json.Valid(whole) {
			return &syntaxError{"it holds something that is not JSON"}
		}
		return nil
	}
}

// common knows the literals that most of a state consists of.
func common(literal []byte) bool {
	switch string(literal) {
	case "null", "true", "false", "0":
		return true
	}
	for _, c := range literal {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(literal) > 0 && literal[0] != '0'
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
