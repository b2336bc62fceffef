package accounts

import (
	"context"
	"fmt"
	"strings"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// mostNamed is how many places a refusal names.
const mostNamed = 10

// refuseReviewers refuses to take away a team that an approval rule names: nobody could approve there
// any more. Conflict "team_reviews" names the places whose rule names it, as far as the actor sees
// them. The team is locked, so no rule comes to name it meanwhile.
func refuseReviewers(ctx context.Context, tx postgres.Tx, actor authz.Actor, team Team) error {
	places, err := postgres.All[struct {
		ProjectID   ids.Project
		WorkspaceID ids.Workspace
		Name        string
	}](ctx, tx, queries.Get("TeamReviews"), postgres.Args{"id": team.ID, "organization_id": team.Organization})
	if err != nil || len(places) == 0 {
		return err
	}
	var named []string
	for _, p := range places {
		kind, action := "workspace", authz.WorkspaceRead
		switch {
		case p.WorkspaceID == "" && p.ProjectID == "":
			kind, action = "organization", authz.OrganizationRead
		case p.WorkspaceID == "":
			kind, action = "project", authz.ProjectRead
		}
		if len(named) < mostNamed && authz.Can(actor, action, authz.Object{Organization: team.Organization, Project: p.ProjectID, Workspace: p.WorkspaceID}) {
			named = append(named, fmt.Sprintf("%s %q", kind, p.Name))
		}
	}
	where := strings.Join(named, ", ")
	switch more := len(places) - len(named); {
	case len(named) == 0:
		where = fmt.Sprintf("%d places that you do not see", more)
	case more > 0:
		where += fmt.Sprintf(" and %d more", more)
	}
	return fault.New(fault.Conflict, "team_reviews",
		"The team %q cannot be deleted: it reviews by the approval rule of %s, and nobody could approve there any more. Take it out of the rule first (PATCH …/approval-rule).", team.Name, where)
}
