package approvals

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Asks tells whether the rule is another than the one that holds where nobody said anything.
func (r Rule) Asks() bool {
	s := r.Settled()
	return s.Mode != Requester || s.Required > 1 || s.ExcludeRequester || len(s.Reviewers) > 0 || s.Production
}

// Words says what the rule asks for, as in "It waits for …": how many approve, and who they are.
func (r Rule) Words() string {
	s := r.Settled()
	text := "an approval"
	switch {
	case s.Required > 1:
		text = fmt.Sprintf("%d approvals", s.Required)
	case s.Mode == Manual && len(s.Reviewers) == 0:
		text += " by a person"
	}
	if s.ExcludeRequester {
		text = "an approval by somebody other than the requester"
		if s.Required > 1 {
			text = fmt.Sprintf("%d approvals, none of them the requester's", s.Required)
		}
	}
	for i, list := range s.Reviewers {
		text += [...]string{", by members of ", " who are also members of "}[min(i, 1)] + r.teams(list)
	}
	if s.Production {
		text += ", with the right to act on production"
	}
	return text
}

func (r Rule) teams(list []ids.Team) string {
	names := make([]string, len(list))
	for i, team := range list {
		names[i] = string(team)
		if name := r.names[team]; name != "" {
			names[i] = fmt.Sprintf("%q", name)
		}
	}
	return "the team " + strings.Join(names, " or ")
}

// Named is the rule with what its teams are called, for Words. Who is bound by a rule may know whom
// it names.
func (r Rule) Named(ctx context.Context, tx postgres.Tx) (Rule, error) {
	if len(r.Reviewers) == 0 {
		return r, nil
	}
	var wanted []ids.Team
	for _, list := range r.Reviewers {
		wanted = append(wanted, list...)
	}
	rows, err := postgres.All[struct {
		ID   ids.Team
		Name string
	}](ctx, tx, Queries.Get("TeamNames"), postgres.Args{"teams": wanted})
	r.names = map[ids.Team]string{}
	for _, row := range rows {
		r.names[row.ID] = row.Name
	}
	return r, err
}
