// Package evaluator is what runs inside the policy-runner, a child process of the server:
// it takes the secrets out of a plan, compiles and tests policies, and evaluates them.
//
// Owns: the conversation between server and child (Request on its input, an answer on its
// output), the capabilities that Rego has here, the shape of what policies see.
// Words: derivative (a plan without secrets, and some facts of its run), bundle (modules and
// the policies that ask about them), module (a file of Rego), query (the rule whose members are
// the violations), violation (rule, address of the resource, message), budget (how long one
// policy may compute).
// Invariants: what policies compute depends on the input alone, without network, clock,
// randomness or environment (PO-10, TestOutOfReach); no sensitive value is in a derivative
// (PO-09, TestDerive…); a policy that computes for too long is errored and does not take its
// neighbours with it (TestABudgetEndsOnePolicy); the process limits its own memory and
// processor time before it reads a byte of what strangers wrote (limits_linux.go).
// Refuses: files, sockets, environment. What is to be known comes in with the request.
// Tested by: derive_test.go, publish_test.go, evaluate_test.go, main_test.go.
package evaluator
