// Package policies keeps what an organization demands of plans, and has plans judged by it.
//
// Owns: tables policy_sets, policy_set_workspaces, policy_set_projects, policies,
// policy_set_policies, policy_set_versions, policy_set_parameters and run_policy_sets; the
// policy-runner, a child process in which everything happens that strangers wrote (package
// evaluator). Words: policy set (policies that are in force together, for all of an
// organization or for chosen projects and workspaces), policy (one question about a plan),
// awaited (a query that the content of its policy does not answer yet), version (what a set
// consists of; made by an upload, or of the policies in the set), publication (the check that makes a version ready), parameter (a value that policies of a set may read),
// scope (the sets that have a say about a workspace), bound (in the scope of a run, as it was
// when the run was made), runtime (a policy-runner's program with its release), derivative (a
// plan without its secrets), outcome (what one policy came to), overridable (an attribute of
// Terraform Cloud that is kept; see docs/decisions/0026).
// Invariants: a version that is ready never changes, and the newest ready one is in force: an
// upload that fails leaves the one before in force (TestAnUpload…); publication and evaluation
// use one program under the same limits and capabilities (PO-07); whatever judges sees a
// derivative, and no environment, network or file (PO-09…PO-11); what cannot be judged is never
// allowed (TestASentinelSet…, TestAnEvaluatorThat…); a policy is judged by its query and content
// together, never by one of them with an older other (TestAQueryWaits…); content and values are sealed.
// Refuses: runs and their statuses, which are package runs; Sentinel, which is kept only.
// Tested by: the _test.go files beside this one.
package policies
