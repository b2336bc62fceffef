// Package child starts processes that never outlive the process that started them.
//
// Owns: Process. Words: death signal (what the kernel sends to a child when its
// parent dies, however the parent dies), grace (how long a child may take to stop).
// Invariants: on Linux a child gets its death signal even when the parent is killed
// with SIGKILL (TestChildDiesWithItsParent); Stop always ends the child
// (TestStopKillsAfterTheGrace).
// Refuses: knowing what the child is, restarting it.
// Tested by: child_test.go. On other systems than Linux there is no death signal:
// a killed parent may leave a child behind.
package child
