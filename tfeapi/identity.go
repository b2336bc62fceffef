package tfeapi

import (
	"context"
	"net/http"

	"github.com/holdfast-run/holdfast/authz"
)

// How others check the tokens by which runs prove what they are.

func (s *server) publicKeys(r *request) (answer, error) {
	keys, err := s.Identity.PublicKeys(r.ctx)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK, json: map[string]any{"keys": keys}}, nil
}

func (s *server) openIDConfiguration(*request) (answer, error) {
	return answer{status: http.StatusOK, json: map[string]any{
		"issuer": s.Address, "jwks_uri": s.Address + "/.well-known/jwks", "response_types_supported": []string{"id_token"}, "scopes_supported": []string{"openid"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		"claims_supported": []string{
			"sub", "aud", "exp", "iat", "iss", "jti", "nbf", "terraform_run_phase", "terraform_workspace_id", "terraform_workspace_name", "terraform_organization_id",
			"terraform_organization_name", "terraform_run_id", "terraform_full_workspace", "terraform_project_id", "terraform_project_name",
		},
	}}, nil
}

// onSigningKeys gives a handler for what a site admin does to the keys.
func onSigningKeys(do func(context.Context, authz.Actor) error) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if err := siteAdmin(r); err != nil {
			return answer{}, err
		}
		return noContent(), do(r.ctx, r.actor)
	}
}
