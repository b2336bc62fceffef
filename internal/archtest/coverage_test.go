package archtest

import (
	"fmt"
	"os"
	"os/exec"
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

// testFunctions are all tests of the repository as folder.Name.
func testFunctions(t *testing.T) map[string]bool {
	listed := exec.Command("git", "ls-files", "--cached", "--others", "--exclude-standard", "*_test.go")
	listed.Dir = root
	out, err := listed.Output()
	require.NoError(t, err)
	declared := regexp.MustCompile(`(?m)^func (Test\w+|Fuzz\w+|Benchmark\w+)\(`)
	found := map[string]bool{}
	for _, file := range strings.Fields(string(out)) {
		text, err := os.ReadFile(filepath.Join(root, file))
		if os.IsNotExist(err) {
			continue // deleted, and not yet so in the index
		}
		require.NoError(t, err)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			found[filepath.ToSlash(filepath.Dir(file))+"."+m[1]] = true
		}
	}
	return found
}
