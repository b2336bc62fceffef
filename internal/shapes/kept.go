package shapes

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// Kept is the file of deviations that are meant: "deviation | reason", one a line, where "*" at
// the end of a deviation stands for any end. Lines that begin with "#" are comments.
type Kept struct {
	lines []keptLine
}

type keptLine struct{ deviation, reason string }

// ReadKept reads it. A line without a reason is an error.
func ReadKept(path string) (Kept, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return Kept{}, err
	}
	var kept Kept
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		deviation, reason, _ := strings.Cut(line, " | ")
		if strings.TrimSpace(reason) == "" {
			return Kept{}, fmt.Errorf("%s:%d: %q has no reason", path, i+1, line)
		}
		kept.lines = append(kept.lines, keptLine{strings.TrimSpace(deviation), reason})
	}
	return kept, nil
}

func (l keptLine) covers(deviation string) bool {
	begin, any := strings.CutSuffix(l.deviation, "*")
	return l.deviation == deviation || any && strings.HasPrefix(deviation, begin)
}

// Covers tells whether a deviation is meant.
func (k Kept) Covers(deviation string) bool {
	return slices.ContainsFunc(k.lines, func(l keptLine) bool { return l.covers(deviation) })
}

// Unused gives the kept deviations that are none of those that occurred.
func (k Kept) Unused(occurred []string) (unused []string) {
	for _, l := range k.lines {
		if !slices.ContainsFunc(occurred, l.covers) {
			unused = append(unused, l.deviation)
		}
	}
	return unused
}

// Len gives the number of lines.
func (k Kept) Len() int { return len(k.lines) }
