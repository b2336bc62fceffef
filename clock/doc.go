// Package clock is the only reader of the process clock.
//
// Owns: Now and Since. Words: none of its own.
// Invariants: a process clock decides nothing that others rely on: deadlines are
// persisted instants compared by PostgreSQL's clock_timestamp(). Code that wants
// the time for a log line, a display or a local wait takes it from here.
// Refuses: deciding a deadline.
// Tested by: internal/archtest (time.Now is banned elsewhere).
package clock

import "time"

// Now gives the current time in UTC.
func Now() time.Time { return time.Now().UTC() }

// Since gives the time elapsed since t, monotonic when t came from Now in this process.
func Since(t time.Time) time.Duration { return time.Since(t) }
