package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
)

// invite makes a user of a team that sees one workspace in a hundred: half of them because
// it sees their project, half of them one by one.
func (b *bench) invite(ctx context.Context, c *crowd) error {
	name := "lister-" + strings.ToLower(rand.Text()[:8])
	made, err := exec.CommandContext(ctx, "holdfast", "admin", "users", "create", name, "--org", organization, "--role", "member").Output()
	if err != nil {
		return fmt.Errorf("make a user: %w", err)
	}
	c.member, err = newAPI(os.Getenv("TFE_ADDRESS"), strings.TrimSpace(string(made)), os.Getenv("SSL_CERT_FILE"))
	if err != nil {
		return err
	}
	team, err := b.api.read(ctx, http.MethodPost, "/api/v2/organizations/"+organization+"/teams", []byte(`{"data":{"type":"teams","attributes":{"name":"`+name+`"}}}`))
	if err != nil {
		return err
	}
	if _, err := b.api.do(ctx, http.MethodPost, "/api/v2/teams/"+team.Data.ID+"/relationships/users", []byte(`{"data":[{"type":"users","id":"`+name+`"}]}`), io.Discard); err != nil {
		return err
	}
	if _, err := b.api.do(ctx, http.MethodPost, "/api/v2/team-projects", fmt.Appendf(nil,
		`{"data":{"type":"team-projects","attributes":{"access":"read"},"relationships":{"team":{"data":{"type":"teams","id":%q}},"project":{"data":{"type":"projects","id":%q}}}}}`,
		team.Data.ID, c.projects[shownProject]), io.Discard); err != nil {
		return err
	}
	_, err = c.db.Exec(ctx, `insert into team_workspaces (id, organization_id, team_id, workspace_id, levels)
	    select 'tws-' || `+freshText+`, t.organization_id, t.id, s.id, '{workspace:read}' from seed_workspaces s, teams t
	     where t.id = $1 and s.project <> $2 order by md5(s.text) limit $3`, team.Data.ID, c.projects[shownProject], listWorkspaces/200)
	return err
}
