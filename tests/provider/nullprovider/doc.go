// Package nullprovider stands in for the provider hashicorp/null where the registry
// cannot be reached: the same two types with the same schema.
//
// Owns: null_resource and null_data_source.
// Words: triggers (values whose change replaces a null_resource).
// Invariants: a configuration for the real provider plans and applies the same here
// (null_test.go of the folder above).
// Refuses: any fault; those are faultprovider's.
// Tested by: null_test.go of the folder above.
package nullprovider
