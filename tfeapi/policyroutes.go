package tfeapi

import "github.com/holdfast-run/holdfast/policies"

// policyRoutes are the addresses of policy sets, policies and what they came to.
func (s *server) policyRoutes() []route {
	const (
		api          = "/api/v2/"
		organization = api + "organizations/{organization}"
		set          = api + "policy-sets/{id}"
		policy       = api + "policies/{id}"
		check        = api + "policy-checks/{id}"
		stage        = api + "task-stages/{id}"
	)
	routes := []route{
		{method: get, path: organization + "/policy-sets", handle: s.listPolicySets},
		{method: post, path: organization + "/policy-sets", handle: s.createPolicySet},
		{method: get, path: set, handle: s.readPolicySet},
		{method: patch, path: set, handle: s.updatePolicySet},
		{method: del, path: set, handle: s.deletePolicySet},
		{method: get, path: set + "/parameters", handle: s.listParameters},
		{method: post, path: set + "/parameters", handle: s.createParameter},
		{method: get, path: set + "/parameters/{parameter}", handle: s.readParameter},
		{method: patch, path: set + "/parameters/{parameter}", handle: s.updateParameter},
		{method: del, path: set + "/parameters/{parameter}", handle: s.deleteParameter},
		{method: post, path: set + "/versions", handle: s.createPolicySetVersion},
		{method: get, path: api + "policy-set-versions/{id}", handle: s.readPolicySetVersion},
		{method: put, path: uploadPolicySetLink.template(), open: true, handle: s.uploadPolicySetVersion},

		{method: get, path: organization + "/policies", handle: s.listPolicies},
		{method: post, path: organization + "/policies", handle: s.createPolicy},
		{method: get, path: policy, handle: s.readPolicy},
		{method: patch, path: policy, handle: s.updatePolicy},
		{method: del, path: policy, handle: s.deletePolicy},
		{method: put, path: policy + "/upload", handle: s.uploadPolicy},
		{method: get, path: policy + "/download", handle: s.downloadPolicy},

		{method: get, path: api + "runs/{id}/policy-checks", handle: s.listPolicyChecks},
		{method: get, path: check, handle: s.readPolicyCheck},
		{method: get, path: check + "/output", handle: s.policyCheckOutput},
		{method: get, path: check + "/input", handle: s.policyCheckInput},
		{method: post, path: check + "/actions/override", handle: s.overridePolicyCheck},

		{method: get, path: api + "runs/{id}/task-stages", handle: s.listTaskStages},
		{method: get, path: stage, handle: s.readTaskStage},
		{method: get, path: stage + "/policy-evaluations", handle: s.listPolicyEvaluations},
		{method: post, path: stage + "/actions/override", handle: s.overrideTaskStage},
		{method: get, path: api + "policy-evaluations/{id}", handle: s.readPolicyEvaluation},
		{method: get, path: api + "policy-evaluations/{id}/policy-set-outcomes", handle: s.listPolicySetOutcomes},
		{method: get, path: api + "policy-set-outcomes/{id}", handle: s.readPolicySetOutcome},
	}
	for name, kind := range memberKinds {
		address := set + "/relationships/" + string(name)
		routes = append(routes,
			route{method: post, path: address, handle: s.changeMembers(name, kind, s.Policies.AddMembers)},
			route{method: del, path: address, handle: s.changeMembers(name, kind, s.Policies.RemoveMembers)})
	}
	return routes
}

// memberKinds are the relations of a policy set, and the types of their members.
var memberKinds = map[policies.Relation]string{
	policies.Policies: "policies", policies.Workspaces: "workspaces", policies.WorkspaceExclusions: "workspaces",
	policies.Projects: "projects", policies.ProjectExclusions: "projects",
}
