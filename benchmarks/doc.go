// Command benchmarks measures Holdfast from outside and prints one table: what was run, how
// often, the median, and how it compares with what was measured beside it in the same run.
// It is the command of `holdfast dev`; `make bench` makes what it needs and starts it.
// docs/benchmarks.md says how to read it.
//
// Each section measures its sides in turns, so that a machine that is busy for a while is
// busy for all of them. Nothing leaves the machine and everything lies in the folder of the
// stack, which is gone afterwards.
package main
