package accounts

import (
	"context"
	"regexp"
	"time"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Launcher is how the processes of a group's runners are started. All of them speak
// the same protocol (RP-14), so to the server it is a remark.
type Launcher string

// The launchers.
const (
	LaunchLocal         Launcher = "local"
	LaunchDocker        Launcher = "docker"
	LaunchKubernetes    Launcher = "kubernetes"
	LaunchGitHubActions Launcher = "github-actions"
)

// RunnerGroup is a set of runners that show the same tokens. Without an organization
// it serves all of them. To clients it is an agent pool.
type RunnerGroup struct {
	ID                 ids.RunnerGroup
	Organization       ids.Organization
	Name               string
	OrganizationScoped bool // false: only for the workspaces and projects it lists
	TakesRemote        bool // also executes runs of workspaces that name no pool
	Launcher           Launcher
	Labels             []string // of each of its runners
	Draining           bool     // nothing is offered to its runners
	CreatedAt          time.Time

	Token ids.Token // the one by which a runner came, which may be revoked while it waits; empty otherwise
}

var runnerGroupName = regexp.MustCompile(`^[A-Za-z0-9_. -]{1,90}$`)

func checkRunnerGroupName(name string) error {
	if runnerGroupName.MatchString(name) {
		return nil
	}
	return Invalid("name", "Name may only contain letters, numbers, spaces and the characters . - _, at most 90 of them")
}

const mostLabels = 20

var label = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:/=-]{0,62}$`)

// CheckLabels refuses labels that are not 1 to 63 of the letters, numbers and
// _ . : / = - with a letter or number first, and more than 20 of them. field and name
// are as in CheckText.
func CheckLabels(field, name string, labels []string) error {
	if len(labels) > mostLabels {
		return Invalid(field, "%s has too many labels: at most %d", name, mostLabels)
	}
	for _, l := range labels {
		if !label.MatchString(l) {
			return Invalid(field, "%s must be a list of labels such as gpu or region=eu: 1 to 63 letters, numbers and the characters _ . : / = -", name)
		}
	}
	return nil
}

// CreateRunnerGroup makes a group for one organization, or for all when org is
// empty, that executes remote runs, and gives a token for its runners, which cannot
// be had again. Only for site admins.
func (s *Service) CreateRunnerGroup(ctx context.Context, actor authz.Actor, org ids.Organization, name string) (string, RunnerGroup, error) {
	if err := allowSite(actor, administer); err != nil {
		return "", RunnerGroup{}, err
	}
	if err := checkRunnerGroupName(name); err != nil {
		return "", RunnerGroup{}, err
	}
	id := ids.New[ids.RunnerGroup]()
	var token string
	err := postgres.InTx(ctx, s.db, "accounts.create-runner-group", func(tx postgres.Tx) error {
		if org != "" {
			if _, err := findOrganization(ctx, tx, org); err != nil {
				return err
			}
		}
		args := PoolChanges{Name: &name, TakesRemote: new(true)}.args(id)
		args["organization_id"] = org
		if _, err := postgres.Exec(ctx, tx, queries.Get("RunnerGroupInsert"), args); err != nil {
			return poolNameTaken(err)
		}
		if err := recordPool(ctx, tx, actor, org, id, "runner-group.created", nil); err != nil {
			return err
		}
		var err error
		token, _, err = insertAgentToken(ctx, tx, actor, org, id, "made with the group")
		return err
	})
	if err != nil {
		return "", RunnerGroup{}, err
	}
	group, err := s.RunnerGroupByToken(ctx, token)
	return token, group, err
}

// RunnerGroupByToken gives the group a runner belongs to. A token that is unknown or
// revoked, or one of a deleted group or organization, is Unauthenticated.
func (s *Service) RunnerGroupByToken(ctx context.Context, token string) (RunnerGroup, error) {
	if !wellFormed(token, runnerGroupPrefix) {
		return RunnerGroup{}, unauthenticated()
	}
	var group RunnerGroup
	err := postgres.InOneStatement(ctx, s.db, "accounts.runner-group", func(tx postgres.Tx) (err error) {
		group, err = postgres.One[RunnerGroup](ctx, tx, queries.Get("RunnerGroupByHash"), postgres.Args{"hash": digest(token)})
		if postgres.NoRow(err) {
			return unauthenticated()
		}
		return err
	})
	return group, err
}

func recordPool(ctx context.Context, tx postgres.Tx, actor authz.Actor, org ids.Organization, id ids.RunnerGroup, action string, details map[string]any) error {
	return audit.Append(ctx, tx, audit.Entry{
		Organization: org, Actor: actor, Action: action, ObjectKind: "runner-group", ObjectID: string(id), Details: details,
	})
}
