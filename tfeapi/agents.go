package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// agentView is a runner on the wire. Its attributes draining, labels and
// tofu-versions are this server's own.
type agentView struct {
	ID           string    `jsonapi:"primary,agents"`
	Name         string    `jsonapi:"attr,name"`
	IPAddress    *string   `jsonapi:"attr,ip-address"`
	Status       string    `jsonapi:"attr,status"`
	LastPingAt   string    `jsonapi:"attr,last-ping-at"`
	CreatedAt    time.Time `jsonapi:"attr,created-at,iso8601"`
	Draining     bool      `jsonapi:"attr,draining"`
	Labels       []string  `jsonapi:"attr,labels"`
	TofuVersions []string  `jsonapi:"attr,tofu-versions"`
	pool         ids.RunnerGroup
}

func (v *agentView) relations() relations {
	return relations{"agent-pool": ref{"agent-pools", string(v.pool)}}
}

func newAgentView(a dispatch.Agent) *agentView {
	v := &agentView{
		ID: string(a.ID), Name: a.Name, Status: string(a.Status), LastPingAt: a.LastSeenAt.UTC().Format(time.RFC3339), CreatedAt: a.CreatedAt,
		Draining: a.Draining, Labels: a.Labels, TofuVersions: a.TofuVersions, pool: a.Group,
	}
	if a.IPAddress != "" {
		v.IPAddress = &a.IPAddress
	}
	return v
}

func (s *server) listAgents(r *request) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := dispatch.AgentFilter{Page: p.page()}
	if text := r.query.Get("filter[last-ping-since]"); text != "" {
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return answer{}, fault.New(fault.Malformed, "invalid_parameter", "The query parameter filter[last-ping-since] must be an instant such as 2026-01-31T12:00:00Z.").Because(err)
		}
		filter.Since = &since
	}
	sort, err := r.sorted("Agents", "created-at")
	if err != nil {
		return answer{}, err
	}
	filter.NewestFirst = sort == "-created-at"
	list, total, err := s.Dispatch.Agents(r.ctx, r.actor, pool, filter)
	if err != nil {
		return answer{}, err
	}
	items := make([]*agentView, 0, len(list))
	for _, a := range list {
		items = append(items, newAgentView(a))
	}
	return page(items, p, total), nil
}

func (s *server) readAgent(r *request) (answer, error) {
	agent, err := id[ids.Runner](r)
	if err != nil {
		return answer{}, err
	}
	a, err := s.Dispatch.Agent(r.ctx, r.actor, agent)
	return ok(newAgentView(a)), err
}

func (s *server) drainAgent(r *request) (answer, error) {
	agent, err := id[ids.Runner](r)
	if err != nil {
		return answer{}, err
	}
	a, err := s.Dispatch.DrainAgent(r.ctx, r.actor, agent)
	return ok(newAgentView(a)), err
}

func (s *server) deleteAgent(r *request) (answer, error) {
	agent, err := id[ids.Runner](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Dispatch.DeleteAgent(r.ctx, r.actor, agent)
}

// agentTokenView is a token of an agent pool on the wire. Token is there in the answer
// to its creation only.
type agentTokenView struct {
	ID          string     `jsonapi:"primary,authentication-tokens"`
	Description string     `jsonapi:"attr,description"`
	CreatedAt   time.Time  `jsonapi:"attr,created-at,iso8601"`
	LastUsedAt  *time.Time `jsonapi:"attr,last-used-at,iso8601"`
	Token       *string    `jsonapi:"attr,token"`
	createdBy   ids.User
}

func (v *agentTokenView) relations() relations {
	return relations{"created-by": optional("users", v.createdBy)}
}

func newAgentTokenView(t accounts.AgentToken) *agentTokenView {
	return &agentTokenView{ID: string(t.ID), Description: t.Description, CreatedAt: t.CreatedAt, LastUsedAt: t.LastUsedAt, createdBy: t.CreatedBy}
}

func (s *server) listAgentTokens(r *request) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Accounts.AgentTokens(r.ctx, r.actor, pool, p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*agentTokenView, 0, len(list))
	for _, t := range list {
		items = append(items, newAgentTokenView(t))
	}
	return page(items, p, total), nil
}

// createAgentToken takes any type of document: the client names it agent-tokens, the
// documentation authentication-tokens.
func (s *server) createAgentToken(r *request) (answer, error) {
	pool, err := id[ids.RunnerGroup](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decodeUntyped[struct {
		Description Opt[string] `json:"description"`
	}](body)
	if err != nil {
		return answer{}, err
	}
	plain, t, err := s.Accounts.CreateAgentToken(r.ctx, r.actor, pool, in.Attributes.Description.Or(""))
	if err != nil {
		return answer{}, err
	}
	drawn := newAgentTokenView(t)
	drawn.Token = &plain
	return created(drawn), nil
}

func (s *server) readAgentToken(r *request) (answer, error) {
	token, err := id[ids.Token](r)
	if err != nil {
		return answer{}, err
	}
	t, err := s.Accounts.AgentToken(r.ctx, r.actor, token)
	return ok(newAgentTokenView(t)), err
}

func (s *server) deleteAgentToken(r *request) (answer, error) {
	token, err := id[ids.Token](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Dispatch.RevokeAgentToken(r.ctx, r.actor, token)
}
