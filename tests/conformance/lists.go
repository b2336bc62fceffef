package main

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Mode is which of its tests the suite skips.
type Mode string

const (
	Cloud      Mode = "cloud"
	Enterprise Mode = "enterprise" // ENABLE_TFE=1
)

// Planned is a test that reaches a server. Cloud and Enterprise are the subtests it
// runs in that mode, nil where it skips itself there.
type Planned struct {
	Tier       string `json:"tier"`
	File       string `json:"file"`
	Test       string `json:"test"`
	Cloud      *int   `json:"cloud,omitempty"`
	Enterprise *int   `json:"enterprise,omitempty"`
}

// Subtests gives the planned number, and whether the test runs in that mode at all.
func (p Planned) Subtests(mode Mode) (int, bool) {
	n := p.Cloud
	if mode == Enterprise {
		n = p.Enterprise
	}
	if n == nil {
		return 0, false
	}
	return *n, true
}

var (
	//go:embed planned.json
	plannedFile []byte
	//go:embed kept.txt
	keptFile string
	//go:embed excluded.txt
	excludedFile string
	//go:embed alone.txt
	aloneFile string
)

// lists are the four files.
type lists struct {
	planned  []Planned
	kept     map[string]bool
	excluded map[string]string // reasons
	alone    map[string]string // the server that the test has for itself, or with others of that name
}

func readLists() (lists, error) {
	l := lists{kept: map[string]bool{}, excluded: map[string]string{}}
	if err := json.Unmarshal(plannedFile, &l.planned); err != nil {
		return l, fmt.Errorf("planned.json: %w", err)
	}
	known := map[string]bool{}
	for _, p := range l.planned {
		known[p.Test] = true
	}
	for name := range entries(keptFile) {
		l.kept[name] = true
	}
	l.alone = entries(aloneFile)
	for name, server := range l.alone {
		if server == "" {
			l.alone[name] = name
		}
	}
	l.excluded = entries(excludedFile)
	for name, reason := range l.excluded {
		if reason == "" || l.kept[name] {
			return l, fmt.Errorf("excluded.txt: %s has no reason, or is kept all the same", name)
		}
	}
	for _, names := range []map[string]string{entries(keptFile), l.alone, l.excluded} {
		for name := range names {
			if !known[name] {
				return l, fmt.Errorf("%s is in a list but not planned", name)
			}
		}
	}
	return l, nil
}

// entries reads lines of a name and what follows it. Lines that begin with # are comments.
func entries(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		found[name] = strings.TrimSpace(rest)
	}
	return found
}

// job is one test in one mode.
type job struct {
	Planned
	Mode  Mode
	Count int    // planned subtests
	Alone string // the server that it needs; empty for the one of all others
	// Repeated says that it failed once before.
	Repeated bool
}

// jobs are what is to be run: each test once, in cloud mode where it runs there, or in
// both modes. The slow ones come first, so that the end does not wait for one of them.
func (l lists) jobs(both bool, wanted func(Planned) bool) (list []job) {
	for _, p := range l.planned {
		if l.excluded[p.Test] != "" || !wanted(p) {
			continue
		}
		for _, mode := range []Mode{Cloud, Enterprise} {
			if n, ok := p.Subtests(mode); ok {
				list = append(list, job{Planned: p, Mode: mode, Count: n, Alone: l.alone[p.Test]})
				if !both {
					break
				}
			}
		}
	}
	slices.SortStableFunc(list, func(a, b job) int {
		return cmp.Compare(slow(b.Test), slow(a.Test))
	})
	return list
}

// learn corrects the planned numbers by what was seen: a test that passed has run the
// subtests it has, and one that skips itself does not run in that mode. What failed stays.
func learn(planned []Planned, results []result) []Planned {
	corrected := slices.Clone(planned)
	for i := range corrected {
		for _, r := range results {
			if r.Test != corrected[i].Test {
				continue
			}
			n := &r.Passes
			switch {
			case r.Skipped:
				n = nil
			case !r.Passed:
				continue
			}
			if r.Mode == Cloud {
				corrected[i].Cloud = n
			} else {
				corrected[i].Enterprise = n
			}
		}
	}
	return corrected
}

// writePlanned writes one test a line.
func writePlanned(w io.Writer, planned []Planned) error {
	for i, p := range planned {
		line, err := json.Marshal(p)
		if err != nil {
			return err
		}
		before := ",\n"
		if i == 0 {
			before = "[\n"
		}
		if _, err := io.WriteString(w, before+string(line)); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}

func slow(test string) int {
	if strings.HasSuffix(test, "_RunDependent") {
		return 1
	}
	return 0
}
