//go:build !linux

package testdb

// memoryDisk is "": the usual temporary folder.
func memoryDisk() string { return "" }
