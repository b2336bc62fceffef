package tfeapi

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
)

// discovery tells tofu where the API is, and where tofu login finds package web. All names must be there: the remote
// backend crashes without tfe.v2.1, and the provider hashicorp/tfe looks for tfe.v2.2 and nothing else.
func (s *server) discovery(*request) (answer, error) {
	base := s.Address + "/api/v2/"
	return answer{status: http.StatusOK, json: map[string]any{
		"tfe.v2": base, "tfe.v2.1": base, "tfe.v2.2": base, "state.v2": base,
		"modules.v1": s.Address + modulesV1, "providers.v1": s.Address + providersV1,
		"login.v1": map[string]any{
			"client": accounts.LoginClient, "grant_types": []string{"authz_code"},
			"authz": s.Address + "/oauth/authorize", "token": s.Address + "/oauth/token",
			"ports": []int{accounts.LoginFirstPort, accounts.LoginEndPort}, // the end is exclusive
		},
	}}, nil
}

// ping carries the versions that clients decide by: 2.6 is needed for import blocks
// in automation (NC-01), and X-TFE-Version must look like a release of its own kind
// or the client cannot parse it. There is an X-RateLimit-Limit only where there is a limit: the
// client slows itself down by it.
func (s *server) ping(r *request) (answer, error) {
	r.header.Set("TFP-API-Version", "2.6")
	r.header.Set("X-TFE-Version", "v202502-1")
	s.Limit.Announce(r.header)
	return noContent(), nil
}

const healthLimit = 3 * time.Second

// health is 200 while this process serves, whatever its database does: a server that is
// restarted because its database is down helps nobody.
func (s *server) health(*request) (answer, error) {
	return answer{status: http.StatusOK, json: map[string]string{"status": "ok"}}, nil
}

// ready is 200 while the server should be given requests: the database and the object store
// answer, and it is not about to stop. Else 503.
func (s *server) ready(r *request) (answer, error) {
	ctx, cancel := context.WithTimeout(r.ctx, healthLimit)
	defer cancel()
	if err := s.Ready(ctx); err != nil {
		return answer{}, notReady(err)
	}
	return answer{status: http.StatusOK, json: map[string]string{"status": "ok"}}, nil
}
