// Package provider introduces the OpenTofu providers that Holdfast's own tests plan and
// apply with, and tests them with a real tofu. They are for tests only and never part of
// a release.
//
// # What there is
//
// Two providers, neither of which needs a network:
//
//   - holdfast-run/fault (folder faultprovider): resources that are slow, fail, crash or
//     are very large, on demand.
//   - hashicorp/null (folder nullprovider): null_resource and null_data_source with the
//     schema of the real one, so that configurations that use it run offline.
//
// build.sh DIR builds both and lays them out below DIR as a filesystem mirror. The cache
// (~/.cache/holdfast/provider) keeps what was built of the same sources, so a second call is
// done at once.
// With this in the file that TF_CLI_CONFIG_FILE names, tofu finds them and nothing else:
//
//	provider_installation {
//	  filesystem_mirror {
//	    path = "DIR"
//	  }
//	}
//
// and a configuration asks for them as usual:
//
//	terraform {
//	  required_providers {
//	    fault = { source = "holdfast-run/fault" }
//	  }
//	}
//
// # What the fault provider does
//
//	fault_plain    keeps name and value. With observes = FILE the text of that file is the
//	               real object: observed holds it, and when the file goes the object is gone
//	fault_slow     waits create_delay, read_delay, update_delay, delete_delay ("1500ms"), and
//	               before a change until the file named by gate exists. An interrupt ends the
//	               wait with an error and nothing changed; with ignore_interrupts it does not
//	fault_nth      counts creates in the file counter; the one that makes it fail_at fails and
//	               makes nothing
//	fault_partial  makes the object and then reports an error, while fail is true (default):
//	               it is in the state, tainted
//	fault_crash    makes, updates or deletes the object and then ends the provider's process, as
//	               on says (create, the default; update, delete, never): it is done and the
//	               state does not know
//	fault_huge     content of size bytes, the same letters again and again, or with random =
//	               true letters that do not compress
//	data fault_lookup   result is value; waits delay; fails when fail is set, with it as text
//
// All resources have an optional name, and an id that the provider gives, by which they can
// be imported. What a deletion does goes by the settings in the state, since tofu shows the
// provider no others: apply a delete_delay, or on = "delete", before the destroy.
//
// # The ledger
//
// With FAULT_LEDGER in the environment, or ledger in the provider block (which goes first),
// both providers append to that file what they did, one JSON object per line:
//
//	{"time":"2026-01-02T03:04:05.678Z","run":"run-…","pid":42,"event":"created","type":"fault_plain","id":"obj-…","name":"a"}
//
// run is TFE_RUN_ID, which a runner sets, and absent elsewhere; pid is the provider's process;
// type, id and name are those of the object. The events created, updated and deleted are
// written when it is so, whatever tofu learns of it: the ledger is what a test compares the
// state with. fault_slow also writes creating, reading, updating and deleting before it waits,
// and interrupted when an interrupt ended the wait, so that a test can wait for a line where
// it would otherwise sleep. fault_lookup writes looked_up, with value as the name, before it
// waits.
//
// Owns: the two providers, their mirror, and these tests of them.
// Words: mirror (a folder that tofu installs providers from), ledger (see above).
// Invariants: what exists and what the ledger says agree, because one write to a file
// opened for appending is the making of an object (ledger.Record).
// Refuses: the network, and any use outside tests.
// Tested by: fault_test.go, interrupt_test.go, null_test.go, build_test.go.
package provider
