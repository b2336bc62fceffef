package approvals_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/holdfast-run/holdfast/approvals"
	"github.com/holdfast-run/holdfast/ids"
)

func TestARuleInWords(t *testing.T) {
	for want, rule := range map[string]approvals.Rule{
		"an approval": {},
		"an approval by a person, with the right to act on production": {Production: true},
		"an approval by a person":                                      {Mode: approvals.Manual},
		"3 approvals":                                                  {Required: 3},
		"an approval by somebody other than the requester":             {ExcludeRequester: true},
		"2 approvals, none of them the requester's":                    {Required: 2, ExcludeRequester: true},
		"an approval, by members of the team team-ops or team-dba who are also members of the team team-sec": {Reviewers: [][]ids.Team{ops, security}},
	} {
		assert.Equal(t, want, rule.Words())
	}
}
