package accounts

import (
	"context"
	"regexp"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// RunnerGroup is a set of runners that share one token. Without an organization it
// serves all of them.
type RunnerGroup struct {
	ID           ids.RunnerGroup
	Organization ids.Organization
	Name         string
}

var runnerGroupName = regexp.MustCompile(`^[A-Za-z0-9_. -]{1,90}$`)

// CreateRunnerGroup makes a group for one organization, or for all when org is
// empty, and gives the token its runners present, which cannot be had again. Only
// for site admins.
func (s *Service) CreateRunnerGroup(ctx context.Context, actor authz.Actor, org ids.Organization, name string) (string, RunnerGroup, error) {
	if err := allowSite(actor, administer); err != nil {
		return "", RunnerGroup{}, err
	}
	if !runnerGroupName.MatchString(name) {
		return "", RunnerGroup{}, Invalid("name", "Name may only contain letters, numbers, spaces and the characters . - _, at most 90 of them")
	}
	token, hash := newSecret(runnerGroupPrefix)
	group := RunnerGroup{ID: ids.New[ids.RunnerGroup](), Organization: org, Name: name}
	err := postgres.InTx(ctx, s.db, "accounts.create-runner-group", func(tx postgres.Tx) error {
		if org != "" {
			if _, err := findOrganization(ctx, tx, org); err != nil {
				return err
			}
		}
		_, err := postgres.Exec(ctx, tx, queries.Get("RunnerGroupInsert"), postgres.Args{
			"id": group.ID, "organization_id": org, "name": name, "hash": hash,
		})
		if err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: org, Actor: actor, Action: "runner-group.created", ObjectKind: "runner-group", ObjectID: string(group.ID),
		})
	})
	if err != nil {
		return "", RunnerGroup{}, err
	}
	return token, group, nil
}

// RunnerGroupByToken gives the group a runner belongs to. An unknown token, or one
// of a deleted organization, is Unauthenticated.
func (s *Service) RunnerGroupByToken(ctx context.Context, token string) (RunnerGroup, error) {
	if !wellFormed(token, runnerGroupPrefix) {
		return RunnerGroup{}, unauthenticated()
	}
	var group RunnerGroup
	err := postgres.InSnapshot(ctx, s.db, "accounts.runner-group", func(tx postgres.Tx) (err error) {
		group, err = postgres.One[RunnerGroup](ctx, tx, queries.Get("RunnerGroupByHash"), postgres.Args{"hash": digest(token)})
		if postgres.NoRow(err) {
			return unauthenticated()
		}
		return err
	})
	return group, err
}
