package postgres

import "time"

// DecideWithin sets how long the outcome of a lost COMMIT is looked for.
func (db *DB) DecideWithin(d time.Duration) { db.decideWithin = d }

// MaxAttempts is how often InTx runs its function at most.
const MaxAttempts = maxAttempts
