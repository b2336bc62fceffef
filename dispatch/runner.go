package dispatch

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/gates"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// RunnerHello is what a runner says of itself when it polls. ID is empty at the first
// poll of a runner that does not name itself.
type RunnerHello struct {
	ID           ids.Runner
	Name         string
	Labels       []string // beside those of its group
	TofuVersions []string // exact
	Address      string   // where it calls from, for showing
	// Organization is the only one that the runner works for, because its attempts are not
	// isolated; "" is any that its group serves.
	Organization ids.Organization
	Release      gates.Release
}

// See records a polling runner and its versions, and names a new one (RP-03).
func See(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, r RunnerHello) (ids.Runner, error) {
	id := r.ID
	if id == "" {
		id = ids.New[ids.Runner]()
	}
	args := postgres.Args{
		"id": id, "group_id": group.ID, "name": r.Name, "token_id": group.Token, "labels": texts(r.Labels), "versions": texts(r.TofuVersions), "ip_address": r.Address,
	}
	type seen struct {
		ID   ids.Runner
		Made bool
	}
	return id, postgres.LaterOne(ctx, tx, Queries.Get("SeeRunner"), args, func(s seen, found bool) error {
		switch {
		case !found:
			return fault.Missing("runner", string(r.ID)) // it belongs to another group
		case s.Made:
			return postgres.Later(ctx, tx, Queries.Get("ForgetRunners"), postgres.Args{"group_id": group.ID}, nil)
		}
		return nil
	})
}

// texts is the list as the database takes it; nil would be NULL.
func texts(list []string) []string { return append([]string{}, list...) }

// Versions lists the exact OpenTofu versions that runners taking remote runs of an
// organization have; for no organization, those of the groups that serve all.
func Versions(ctx context.Context, tx postgres.Tx, organization ids.Organization) ([]string, error) {
	return postgres.Values[string](ctx, tx, Queries.Get("Versions"), postgres.Args{"organization_id": organization})
}

// VersionsFor lists the exact OpenTofu versions of the runners that may execute the
// runs of a workspace: by its pool, the scope of groups and its selector.
func VersionsFor(ctx context.Context, tx postgres.Tx, workspace ids.Workspace) ([]string, error) {
	return postgres.Values[string](ctx, tx, Queries.Get("VersionsFor"), postgres.Args{"workspace_id": workspace})
}

// Ready marks the runner ready to accept (RP-07).
func Ready(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, runner ids.Runner) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Ready"), postgres.Args{"id": runner, "group_id": group.ID})
	if err == nil && n == 0 {
		return fault.Missing("runner", string(runner))
	}
	return err
}

// Deregister removes the runner's record; one that is gone already is fine (RP-13).
// An attempt it was offered and says by this that it never began goes back to the
// others.
func Deregister(ctx context.Context, tx postgres.Tx, group accounts.RunnerGroup, runner ids.Runner) error {
	n, err := postgres.Exec(ctx, tx, Queries.Get("Deregister"), postgres.Args{"id": runner, "group_id": group.ID})
	if err != nil || n == 0 {
		return err
	}
	return giveBack(ctx, tx, postgres.Args{"runner_id": runner})
}

// giveBack returns to the queue what was offered and never accepted. which names a
// runner_id, a token_id or a whole_group_id.
func giveBack(ctx context.Context, tx postgres.Tx, which postgres.Args) error {
	args := postgres.Args{"runner_id": "", "token_id": "", "whole_group_id": ""}
	for name, value := range which {
		args[name] = value
	}
	returned, err := postgres.Values[ids.Attempt](ctx, tx, Queries.Get("GiveBack"), args)
	if err != nil {
		return fmt.Errorf("give back what was offered: %w", err)
	}
	return notifyDemand(ctx, tx, returned...)
}

// MustEnd tells whether a runner was told to end after what it has.
func (s *Service) MustEnd(ctx context.Context, runner ids.Runner) (end bool, err error) {
	err = postgres.InSnapshot(ctx, s.db, "dispatch.must-end", func(tx postgres.Tx) error {
		end, err = postgres.Value[bool](ctx, tx, Queries.Get("MustEnd"), postgres.Args{"id": runner})
		return err
	})
	return end, err
}

// Agent is a runner as the people of its organization see it.
type Agent struct {
	ID           ids.Runner
	Name         string
	Group        ids.RunnerGroup
	Organization ids.Organization
	Status       AgentStatus
	Draining     bool // it ends after what it has
	Labels       []string
	TofuVersions []string
	IPAddress    string `db:"ip_address"`
	LastSeenAt   time.Time
	CreatedAt    time.Time
}

// AgentStatus is what a runner does.
type AgentStatus string

// The statuses.
const (
	AgentIdle    AgentStatus = "idle"    // polls, and has nothing to do
	AgentBusy    AgentStatus = "busy"    // was offered an attempt or executes one
	AgentUnknown AgentStatus = "unknown" // has not been heard of for two of the longest polls
)

// AgentFilter selects runners of a pool. What is zero selects nothing away.
type AgentFilter struct {
	Since       *time.Time // heard of then or later
	NewestFirst bool
	Page        accounts.Page
}

// Agents gives the runners of a pool, the oldest first unless it is said otherwise,
// and how many match in all.
func (s *Service) Agents(ctx context.Context, actor authz.Actor, pool ids.RunnerGroup, filter AgentFilter) (agents []Agent, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "dispatch.agents", func(tx postgres.Tx) error {
		if _, err := accounts.AllowedPool(ctx, tx, actor, authz.OrganizationRead, pool); err != nil {
			return err
		}
		args := postgres.Args{"group_id": pool, "since": filter.Since, "newest_first": filter.NewestFirst, "limit": filter.Page.Limit(), "offset": filter.Page.Offset()}
		if agents, err = postgres.All[Agent](ctx, tx, Queries.Get("AgentsOf"), args); err != nil {
			return err
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("AgentsCount"), args)
		return err
	})
	return agents, total, err
}

// Agent gives a runner by id.
func (s *Service) Agent(ctx context.Context, actor authz.Actor, id ids.Runner) (a Agent, err error) {
	err = postgres.InSnapshot(ctx, s.db, "dispatch.agent", func(tx postgres.Tx) (err error) {
		a, err = allowedAgent(ctx, tx, actor, authz.OrganizationRead, id)
		return err
	})
	return a, err
}

func allowedAgent(ctx context.Context, tx postgres.Tx, actor authz.Actor, action authz.Action, id ids.Runner) (Agent, error) {
	a, err := postgres.One[Agent](ctx, tx, Queries.Get("AgentByID"), postgres.Args{"id": id})
	if postgres.NoRow(err) {
		return Agent{}, fault.Missing("agent", string(id))
	}
	if err != nil {
		return Agent{}, err
	}
	if err := authz.Allow(actor, action, authz.Object{Organization: a.Organization, Noun: "agent", Name: string(id)}); err != nil {
		return Agent{}, err
	}
	return a, nil
}
