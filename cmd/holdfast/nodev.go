//go:build nodev

package main

// devCommands is empty: this build has no development stack.
type devCommands struct{}
