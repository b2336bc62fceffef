package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// sequences are what terminals act upon: strings that end with BEL or ST (titles,
// clipboards, links), then control sequences, then the other escapes. Both forms of each
// introducer are there. A string without its end goes up to the end of the text.
var sequences = regexp.MustCompile("(?s)" +
	"(?:\x1b[\\]PX^_]|[\u009d\u0090\u0098\u009e\u009f]).*?(?:\x07|\x1b\\\\|\u009c|$)" +
	"|(?:\x1b\\[|\u009b)[0-?]*[ -/]*[@-~]?" +
	"|\x1b[ -/]*[0-~]?")

// Line gives foreign text on one line: without sequences, control characters, and what
// cannot be seen or changes the reading direction. Line ends and tabs become spaces, and
// bytes that are no UTF-8 become U+FFFD.
func Line(text string) string {
	return clean(strings.NewReplacer("\r\n", " ", "\n", " ", "\t", " ", "\u2028", " ", "\u2029", " ").Replace(valid(text)), false)
}

// Block gives foreign text of several lines, each behind the prefix, which tells it from
// the program's own. An empty text is no line.
func Block(text, prefix string) string {
	text = strings.NewReplacer("\r\n", "\n", "\u2028", "\n", "\u2029", "\n").Replace(valid(text))
	text = strings.TrimRight(clean(text, true), "\n")
	if text == "" {
		return ""
	}
	return prefix + strings.ReplaceAll(text, "\n", "\n"+prefix) + "\n"
}

func valid(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func clean(text string, lines bool) string {
	text = sequences.ReplaceAllString(text, "")
	return strings.Map(func(r rune) rune {
		if lines && (r == '\n' || r == '\t') {
			return r
		}
		if unseen(r) {
			return -1
		}
		return r
	}, text)
}

// unseen are control and format characters (the directions and the zero widths are among
// them), what is blank although it is a letter, what only chooses how another is drawn, and
// what has no meaning outside of one system.
func unseen(r rune) bool {
	switch {
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs, unicode.Zl, unicode.Zp):
		return true
	case unicode.Is(unicode.Variation_Selector, r), unicode.Is(unicode.Noncharacter_Code_Point, r), unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r):
		return true
	}
	return false
}

// WriteJSON writes v with every character outside of ASCII escaped: whoever reads it as
// JSON gets the very text, and a terminal gets nothing that acts.
func WriteJSON(out io.Writer, v any) error {
	encoded, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	var text strings.Builder
	for len(encoded) > 0 {
		r, size := utf8.DecodeRune(encoded)
		switch {
		case r < 0x7f:
			text.WriteByte(byte(r))
		case r > 0xffff:
			r -= 0x10000
			_, _ = fmt.Fprintf(&text, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			_, _ = fmt.Fprintf(&text, `\u%04x`, r)
		}
		encoded = encoded[size:]
	}
	_, err = fmt.Fprintln(out, text.String())
	return err
}
