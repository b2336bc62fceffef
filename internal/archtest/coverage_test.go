package archtest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// families are the groups of rules, with the number of the last rule of each.
var families = map[string]int{
	"RL": 43, "PV": 15, "PL": 18, "PO": 19, "AP": 20, "AU": 22, "ST": 24, "RC": 62, "QP": 11, "RP": 22, "OP": 24,
	"AR": 11, "DR": 16, "CQ": 10, "EV": 9, "RE": 9, "UI": 10, "ER": 24, "NC": 29,
}

var coverageRow = regexp.MustCompile("(?m)^\\| ([A-Z]{2}-\\d{2}|case \\d+) \\| (.+?) \\|$")

// docs/coverage.md says for every rule which test holds it, or which later work
// brings it. A rule without a row, or a row without its test, is a finding.
func TestEveryRuleHasItsTest(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "coverage.md"))
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range coverageRow.FindAllStringSubmatch(string(page), -1) {
		assert.NotContainsf(t, rows, m[1], "%s has two rows", m[1])
		rows[m[1]] = m[2]
	}
	for family, last := range families {
		for n := 1; n <= last; n++ {
			id := fmt.Sprintf("%s-%02d", family, n)
			assert.NotEmptyf(t, rows[id], "%s has no row", id)
		}
	}
	tests := testFunctions(t)
	for id, by := range rows {
		if strings.HasPrefix(by, "later: ") || strings.HasPrefix(by, "by design: ") {
			assert.Greaterf(t, len(by), len("by design: ")+5, "%s: say what brings it", id)
			continue
		}
		for _, name := range strings.Split(by, ", ") {
			assert.Truef(t, tests[strings.Trim(name, "`")], "%s names the test %s, which does not exist", id, name)
		}
	}
}

// noSource are the folders in which nothing is written by hand.
var noSource = map[string]bool{".git": true, "bin": true, ".holdfast": true, "node_modules": true}

// testFunctions are all tests of the repository as folder.Name.
func testFunctions(t *testing.T) map[string]bool {
	declared := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`)
	found := map[string]bool{}
	// Walked, not asked of git: the tests run in an unpacked archive too.
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if noSource[entry.Name()] {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			found[filepath.ToSlash(folder)+"."+m[1]] = true
		}
		return nil
	}))
	return found
}
