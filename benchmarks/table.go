package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// sample is one measurement repeated.
type sample []time.Duration

func (s sample) median() time.Duration { return median(s) }

// median is the middle, or the mean of the two middle ones; of nothing it is zero.
func median[T ~int | ~int64 | ~float64](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	switch {
	case n == 0:
		return 0
	case n%2 == 1:
		return sorted[n/2]
	default:
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
}

// percentile is the smallest value that at least p percent of the values do not exceed; of
// nothing it is zero.
func (s sample) percentile(p float64) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	if len(sorted) == 0 {
		return 0
	}
	place := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(place, 1), len(sorted))-1]
}

// row is one line of the table.
type row struct {
	section string
	what    string
	n       int    // repetitions
	value   string // the median
	spread  string // least and most
	beside  string // compared with what was measured beside it
	goal    string // empty: none was set
	command string
}

// table is all that was measured, in the order of measuring.
type table struct {
	section string
	rows    []row
	missed  []string
}

func (t *table) add(r row) {
	r.section = t.section
	t.rows = append(t.rows, r)
}

// time adds a row of times.
func (t *table) time(what, command string, s sample, beside, goal string) {
	r := row{what: what, command: command, n: len(s), value: seconds(s.median()), beside: beside, goal: goal}
	r.spread = spread(s)
	t.add(r)
}

// spread is the least and the most of several.
func spread(s sample) string {
	if len(s) < 2 {
		return ""
	}
	return seconds(slices.Min(s)) + " – " + seconds(slices.Max(s))
}

// judge words a goal with its outcome and remembers a miss.
func (t *table) judge(goal string, met bool) string {
	if met {
		return goal + ": met"
	}
	t.missed = append(t.missed, t.section+" "+goal)
	return goal + ": MISSED"
}

// String is the table in Markdown, aligned for the terminal.
func (t *table) String() string {
	cells := [][]string{{"section", "what", "n", "median", "least – most", "beside it", "goal", "command"}}
	for _, r := range t.rows {
		cells = append(cells, []string{r.section, r.what, fmt.Sprint(r.n), r.value, r.spread, r.beside, r.goal, "`" + r.command + "`"})
	}
	widths := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var text strings.Builder
	for number, line := range cells {
		for i, cell := range line {
			fmt.Fprintf(&text, "| %-*s ", widths[i], cell)
		}
		text.WriteString("|\n")
		if number == 0 {
			for _, width := range widths {
				text.WriteString("|" + strings.Repeat("-", width+2))
			}
			text.WriteString("|\n")
		}
	}
	if len(t.missed) > 0 {
		fmt.Fprintf(&text, "\nGoals missed: %s\n", strings.Join(t.missed, "; "))
	} else {
		text.WriteString("\nNo goal was missed.\n")
	}
	return text.String()
}

// seconds writes a time in the unit that reads best.
func seconds(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// over is the difference with its sign.
func over(a, b time.Duration, name string) string {
	return fmt.Sprintf("%+.2f s over %s", (a - b).Seconds(), name)
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
