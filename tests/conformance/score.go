package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// tiers in the order of the table.
var tiers = []struct{ name, about string }{
	{"T1", "what the client and scripts around runs need"},
	{"T2", "teams, policies, run tasks, notifications, agents"},
	{"T3", "private registry"},
	{"T4", "administration of a site"},
	{"T5", "query runs, SCIM"},
}

// outcome is a test over the modes it was run in: the better of them counts.
type outcome struct {
	Tier        string   `json:"tier"`
	Test        string   `json:"test"`
	Passed      bool     `json:"passed"`
	Skips       bool     `json:"skips-itself,omitempty"` // wherever it was run: it says nothing about the server
	Subtests    int      `json:"subtests"`
	Planned     int      `json:"planned"`
	Seconds     float64  `json:"seconds"`
	Failed      []string `json:"failed,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	Kept        bool     `json:"kept"`
	Repeated    bool     `json:"repeated,omitempty"`
	PassedModes []Mode   `json:"passed-modes"`
	FailedModes []Mode   `json:"failed-modes,omitempty"`
}

// outcomes joins the results by test, in the order of the planned list.
func (l lists) outcomes(results []result) (list []outcome) {
	for _, p := range l.planned {
		o := outcome{Tier: p.Tier, Test: p.Test, Kept: l.kept[p.Test]}
		ran, skips := false, true
		for _, r := range results {
			if r.Test != p.Test {
				continue
			}
			ran, skips = true, skips && r.Skipped
			o.Repeated = o.Repeated || r.Repeated
			o.Planned, o.Subtests = max(o.Planned, r.Count), max(o.Subtests, r.Score())
			o.Seconds += r.Seconds
			if r.Good() {
				o.PassedModes = append(o.PassedModes, r.Mode)
				continue
			}
			o.Reason = r.Reason
			if r.Skipped {
				continue
			}
			o.FailedModes = append(o.FailedModes, r.Mode)
			o.Failed = append(o.Failed, r.Failed...)
			if r.Passed {
				o.Reason = fmt.Sprintf("reached %d of %d subtests", r.Passes, r.Count)
			}
		}
		if o.Passed, o.Skips = len(o.PassedModes) > 0, skips; ran {
			list = append(list, o)
		}
	}
	return list
}

// broken are the kept tests that did not pass in some mode they were run in.
func broken(list []outcome) (names []string) {
	for _, o := range list {
		if o.Kept && (!o.Passed || len(o.FailedModes) > 0) {
			names = append(names, o.Test)
		}
	}
	return names
}

// table writes the score of each tier, then the tests that did not pass: failed, or skipped by
// themselves, which is neither.
func (l lists) table(w io.Writer, list []outcome) {
	fmt.Fprintf(w, "\n%-4s  %11s  %5s  %13s  %s\n", "tier", "tests", "skip", "subtests", "")
	for _, tier := range tiers {
		var tests, passed, skip, subtests, reached int
		for _, o := range list {
			if o.Tier != tier.name {
				continue
			}
			tests, subtests, reached = tests+1, subtests+o.Planned, reached+o.Subtests
			if o.Passed {
				passed++
			}
			if o.Skips {
				skip++
			}
		}
		if tests > 0 {
			fmt.Fprintf(w, "%-4s  %5d/%5d  %5d  %6d/%6d  %s\n", tier.name, passed, tests, skip, reached, subtests, tier.about)
		}
	}
	fmt.Fprintln(w)
	for _, o := range list {
		if o.Skips {
			fmt.Fprintf(w, "%s  %-60s skips itself: %s\n", o.Tier, o.Test, o.Reason)
			continue
		}
		if o.Passed && len(o.FailedModes) == 0 {
			if o.Repeated {
				fmt.Fprintf(w, "%s  %-60s passed the second time\n", o.Tier, o.Test)
			}
			continue
		}
		kept := ""
		if o.Kept {
			kept = "  KEPT"
		}
		fmt.Fprintf(w, "%s  %-60s %3d/%3d%s  %s %s\n", o.Tier, o.Test, o.Subtests, o.Planned, kept, o.Reason, strings.Join(o.Failed, ", "))
	}
	for _, name := range slices.Sorted(keys(l.excluded)) {
		fmt.Fprintf(w, "excluded  %s: %s\n", name, l.excluded[name])
	}
}

func writeJSON(w io.Writer, list []outcome) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", " ")
	return encoder.Encode(list)
}

func keys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range m {
			if !yield(name) {
				return
			}
		}
	}
}
