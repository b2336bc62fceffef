package terminal

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCleanedTextCannotAct(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"plain":               {"grüße, 世界 — ok", "grüße, 世界 — ok"},
		"colour":              {"\x1b[1;31mred\x1b[0m", "red"},
		"eight-bit colour":    {"\u009b31mred", "red"},
		"title by BEL":        {"a\x1b]0;owned\x07b", "ab"},
		"clipboard by ST":     {"a\x1b]52;c;cm0gLXJm\x1b\\b", "ab"},
		"eight-bit OSC":       {"a\u009d0;owned\u009cb", "ab"},
		"link":                {"\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\", "click"},
		"string without end":  {"a\x1b]0;the rest", "a"},
		"device control":      {"a\x1bP+q544e\x1b\\b", "ab"},
		"charset":             {"\x1b(0lqk", "lqk"},
		"reset":               {"a\x1bcb", "ab"},
		"cut sequence":        {"a\x1b[", "a"},
		"carriage return":     {"safe\rEVIL", "safeEVIL"},
		"backspace, DEL, BEL": {"a\b\x7f\x07b", "ab"},
		"NUL":                 {"a\x00b", "ab"},
		"lines":               {"a\nb\tc\r\nd\u2028e", "a b c d e"},
		"bidi":                {"\u202egpj.exe\u202c \u2066x\u2069 \u200f\u061cy", "gpj.exe x y"},
		"zero width":          {"a\u200bb\u200c\u200d\u2060\ufeff\u00adc", "abc"},
		"blank letters":       {"a\u3164\u115f\uffa0b", "ab"},
		"tags and selectors":  {"a\U000E0041\U000E007F\ufe0f\U000E0101b", "ab"},
		"private use":         {"a\ue000b", "ab"},
		"no UTF-8":            {"a\xffb\xc3", "a\ufffdb\ufffd"},
		"hidden in bytes":     {"a\xff\x1b]0;t\x07b", "a\ufffdb"},
		"nested":              {"\x1b\x1b]0;x\x07[31mred", "[31mred"},
	} {
		got := Line(c.text)
		assert.Equal(t, c.want, got, name)
		for _, r := range got {
			assert.False(t, unicode.IsControl(r) || unicode.Is(unicode.Cf, r), "%s: %U", name, r)
		}
	}
}

// Foreign lines never look like the program's own.
func TestABlockIsPrefixed(t *testing.T) {
	assert.Equal(t, "  | one\n  | next  holdfast admin recover run-2 --apply\n  | \tthree\n", Block("one\r\nnext  holdfast admin recover run-2 --apply\n\x1b[2J\tthree\n\n", "  | "))
	assert.Equal(t, "  | a\n  | b\n", Block("a\u2028b", "  | "))
	assert.Empty(t, Block("\x1b[2J\n", "  | "))
}

func TestJSONIsASCIIAndSaysTheSame(t *testing.T) {
	given := map[string]string{"text": "a\u202eb\x1b]0;t\x07 \U000E0041 ü 世 \u009b31m\x7f", "plain": "<b> & \"quoted\""}
	var out bytes.Buffer
	require.NoError(t, WriteJSON(&out, given))
	assert.Equal(t, -1, strings.IndexFunc(out.String(), func(r rune) bool { return r >= 0x7f || r < ' ' && r != '\n' }), out.String())
	var back map[string]string
	require.NoError(t, json.Unmarshal(out.Bytes(), &back))
	assert.Equal(t, given, back)
}
