// Command go-tfe is an example of a program that drives Holdfast with HashiCorp's client
// library for Go: it makes a project and a workspace where they are missing, uploads a
// configuration, starts a run, waits for its plan, applies it, and prints the outputs.
//
//	export TFE_ADDRESS=https://holdfast.example.com TFE_TOKEN=…
//	go run ./examples/go-tfe -organization demo -workspace example
//
// For an authority of one's own, SSL_CERT_FILE names the file of its certificate. To try it
// without a server: bin/holdfast dev -- go run ./examples/go-tfe. Only what is on standard
// output is the result, as JSON; what happens meanwhile is told on standard error. An
// interrupt cancels the run.
//
// Owns: nothing; it uses the API as any program outside does.
// Refuses: to apply a plan that was changed, refused or failed; it exits with 1.
// Tested by: tests/e2e, TestTheExampleOfGoTFE.
package main
