package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func number(n int) *int { return &n }

const output = "\x16=== RUN   TestThing\n\x16    --- PASS: TestThing/one (0.01s)\ntext before it\x16    --- FAIL: TestThing/two/deep (0.00s)\n" +
	"\x16    --- SKIP: TestThing/three (0.00s)\n\x16--- PASS: TestThing (0.10s)\nPASS\n"

func TestJudgeReadsWhatATestProcessSays(t *testing.T) {
	j := job{Planned: Planned{Test: "TestThing"}, Count: 2}
	r := judge(j, output, true)
	assert.True(t, r.Passed)
	assert.Equal(t, 1, r.Passes)
	assert.Equal(t, []string{"two/deep"}, r.Failed)
	assert.False(t, r.Good(), "a subtest that was planned was not reached")
	assert.False(t, judge(j, output, false).Passed, "a panic after it counts")
	assert.False(t, judge(j, "\x16=== RUN   TestThing\npanic: x\n", false).Passed)
	skipped := judge(j, "\x16=== RUN   TestThing\n    helper_test.go:70: Set SOMETHING to run it.\n    helper_test.go:80: cleaned up\n\x16--- SKIP: TestThing (0.00s)\n", true)
	assert.True(t, skipped.Skipped && !skipped.Passed)
	assert.Equal(t, "Set SOMETHING to run it.; cleaned up", skipped.Reason)
	assert.Equal(t, "it says no reason", judge(j, "\x16--- SKIP: TestThing (0.00s)\n", true).Reason)
}

func TestATestCountsOnceOverItsModesAndAKeptOneInEach(t *testing.T) {
	p := Planned{Tier: "T1", Test: "TestThing", Cloud: number(2), Enterprise: number(3)}
	l := lists{planned: []Planned{p}, kept: map[string]bool{"TestThing": true}}
	good := result{job: job{Planned: p, Mode: Cloud, Count: 2}, Passed: true, Passes: 2}
	bad := result{job: job{Planned: p, Mode: Enterprise, Count: 3}, Failed: []string{"x"}, Passes: 1}
	list := l.outcomes([]result{good, bad})
	require.Len(t, list, 1)
	assert.True(t, list[0].Passed)
	assert.Equal(t, []int{2, 3}, []int{list[0].Subtests, list[0].Planned})
	assert.Equal(t, []string{"TestThing"}, broken(list))
	assert.Empty(t, broken(l.outcomes([]result{good})))
	var text strings.Builder
	l.table(&text, list)
	assert.Contains(t, text.String(), "T1        1/    1      0       2/     3")
	assert.NotContains(t, text.String(), "second time")

	good.Repeated = true
	text.Reset()
	l.table(&text, l.outcomes([]result{good}))
	assert.Contains(t, text.String(), "TestThing                                                    passed the second time")
}

// TestATestThatSkipsItselfHasALineOfItsOwn: it has not passed, and it has not failed.
func TestATestThatSkipsItselfHasALineOfItsOwn(t *testing.T) {
	p := Planned{Tier: "T4", Test: "TestThing", Cloud: number(0), Enterprise: number(2)}
	l := lists{planned: []Planned{p}, kept: map[string]bool{"TestThing": true}}
	skips := result{job: job{Planned: p, Mode: Cloud}, Skipped: true, Reason: "not today"}
	list := l.outcomes([]result{skips})
	var text strings.Builder
	l.table(&text, list)
	assert.Contains(t, text.String(), "T4        0/    1      1       0/     0")
	assert.Contains(t, text.String(), "TestThing                                                    skips itself: not today")
	assert.Equal(t, []string{"TestThing"}, broken(list), "a kept test must pass somewhere")

	text.Reset()
	good := result{job: job{Planned: p, Mode: Enterprise, Count: 2}, Passed: true, Passes: 2}
	list = l.outcomes([]result{skips, good})
	l.table(&text, list)
	assert.Contains(t, text.String(), "T4        1/    1      0       2/     2")
	assert.NotContains(t, text.String(), "skips itself")
	assert.Empty(t, broken(list))
}

func TestJobsTakeEachTestInOneModeUnlessBothAreWanted(t *testing.T) {
	l := lists{planned: []Planned{
		{Test: "TestBoth", Cloud: number(1), Enterprise: number(1)}, {Test: "TestEnterprise", Enterprise: number(0)}, {Test: "TestOut", Cloud: number(1)},
		{Test: "TestSlow_RunDependent", Cloud: number(1)},
	}, excluded: map[string]string{"TestOut": "needs the internet"}}
	every := func(Planned) bool { return true }
	names := func(jobs []job) (list []string) {
		for _, j := range jobs {
			list = append(list, j.Test+" "+string(j.Mode))
		}
		return list
	}
	assert.Equal(t, []string{"TestSlow_RunDependent cloud", "TestBoth cloud", "TestEnterprise enterprise"}, names(l.jobs(false, every)))
	assert.Equal(t, []string{"TestSlow_RunDependent cloud", "TestBoth cloud", "TestBoth enterprise", "TestEnterprise enterprise"}, names(l.jobs(true, every)))
}

func TestLearnCorrectsWhatWasSeen(t *testing.T) {
	p := Planned{Test: "TestThing", Cloud: number(2), Enterprise: number(2)}
	seen := learn([]Planned{p}, []result{
		{job: job{Planned: p, Mode: Cloud}, Passed: true, Passes: 5}, {job: job{Planned: p, Mode: Enterprise}, Skipped: true},
	})
	assert.Equal(t, []Planned{{Test: "TestThing", Cloud: number(5)}}, seen)
	assert.Equal(t, []Planned{p}, learn([]Planned{p}, []result{{job: job{Planned: p, Mode: Cloud}, Passes: 1}}))
}

func TestTheListsFitTogether(t *testing.T) {
	l, err := readLists()
	require.NoError(t, err)
	assert.Greater(t, len(l.planned), 300)
	assert.NotEmpty(t, l.kept)
}
