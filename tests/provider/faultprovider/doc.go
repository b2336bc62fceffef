// Package faultprovider is the OpenTofu provider holdfast-run/fault: resources that
// misbehave on demand. The folder above tells what each does.
//
// Owns: the resource types fault_*, one file each, and the data source fault_lookup.
// Words: object (what a resource stands for; it exists from its "created" entry in the
// ledger to its "deleted" entry).
// Invariants: an object is made by writing its entry, so a fault before that makes
// nothing and a fault after it leaves an object (object.record).
// Refuses: the network.
// Tested by: fault_test.go and interrupt_test.go of the folder above, with a real tofu.
package faultprovider
