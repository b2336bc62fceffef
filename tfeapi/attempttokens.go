package tfeapi

import (
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
)

// A run's token is in the hands of whatever the configuration starts, so it is taken to
// have leaked. It reaches the few addresses that tofu needs for the state of its own
// workspace, to read that of others which share it, and to install modules and providers, and no other, whatever its holder might be allowed there: a new route is
// closed to it until it is written down here.

// phases of attempts that may use a route.
type phases struct{ plan, apply bool }

var (
	both      = phases{plan: true, apply: true}
	onlyApply = phases{apply: true}
)

const (
	apiPath       = "/api/v2/"
	pathWorkspace = apiPath + "workspaces/{id}"
)

// attemptRoutes are the routes for attempts, by method and path template.
var attemptRoutes = map[string]phases{
	"GET " + apiPath + "organizations/{organization}/entitlement-set":        both,
	"GET " + apiPath + "organizations/{organization}/workspaces/{workspace}": both,

	"GET " + pathWorkspace:                                    both,
	"GET " + pathWorkspace + "/current-state-version":         both,
	"GET " + pathWorkspace + "/current-state-version-outputs": both,
	"POST " + pathWorkspace + "/actions/lock":                 onlyApply, // changes nothing (G-22)
	"POST " + pathWorkspace + "/actions/unlock":               onlyApply,
	"POST " + pathWorkspace + "/state-versions":               onlyApply, // after apply-start, under the run's fence

	"GET " + apiPath + "state-versions/{id}":               both, // of its own run, or current in a workspace that shares it
	"GET " + apiPath + "state-versions/{id}/outputs":       both,
	"GET " + apiPath + "state-versions/{id}/download":      both,
	"GET " + apiPath + "state-versions/{id}/json-download": both,

	// tofu init, of its own organization
	"GET " + modulesV1 + "{namespace}/{module}/{system}/versions":                  both,
	"GET " + modulesV1 + "{namespace}/{module}/{system}/{version}/download":        both,
	"GET " + providersV1 + "{namespace}/{provider}/versions":                       both,
	"GET " + providersV1 + "{namespace}/{provider}/{version}/download/{os}/{arch}": both,
}

// checkAttempt refuses an attempt on a route that is not for it.
func checkAttempt(actor authz.Actor, rt route) error {
	if actor.Kind != authz.AttemptActor {
		return nil
	}
	may := attemptRoutes[rt.method+" "+rt.path]
	if (actor.Phase == authz.Plan && may.plan) || (actor.Phase == authz.Apply && may.apply) {
		return nil
	}
	if rt.method == "POST" && rt.path == apiPath+"organizations/{organization}/workspaces" { // tofu's answer to a workspace that it does not see
		return fault.New(fault.Forbidden, "forbidden", "A run makes no workspaces. The one whose state it wants to read is not there, or does not share its state with the run's own workspace: an administrator can add that to its remote state consumers.")
	}
	return fault.New(fault.Forbidden, "forbidden", "The token of a run reads the state of its own workspace and of those that share theirs with it, installs modules and providers of its organization, and while it applies writes the state. It may do nothing else; use a user's token.")
}
