package ledger

import (
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// FromEnvironment is the variable that names the ledger's file where no provider block does.
const FromEnvironment = "FAULT_LEDGER"

// Event is what happened to an object.
type Event string

// The events. The first three are facts about the object; the others tell what a
// provider is about to do, or has seen.
const (
	Created Event = "created"
	Updated Event = "updated"
	Deleted Event = "deleted"

	Creating    Event = "creating"
	Reading     Event = "reading"
	Updating    Event = "updating"
	Deleting    Event = "deleting"
	Interrupted Event = "interrupted"
	LookedUp    Event = "looked_up"
)

// Object says which object an entry is about.
type Object struct {
	Type string `json:"type"` // resource type, such as "fault_plain"
	ID   string `json:"id,omitempty"`
	Name string `json:"name,omitempty"`
}

// entry is one line of the file.
type entry struct {
	Time  time.Time `json:"time"`
	Run   string    `json:"run,omitempty"`
	PID   int       `json:"pid"`
	Event Event     `json:"event"`
	Object
}

// Ledger is the open file. A nil Ledger records nothing.
type Ledger struct {
	file *os.File
	run  string
}

// Open opens the ledger at path, or the one that the environment names when path is
// empty. Without either there is none, and the answer is nil. The file stays open until
// the process ends.
func Open(path string) (*Ledger, error) {
	if path == "" {
		path = os.Getenv(FromEnvironment)
	}
	if path == "" {
		return nil, nil
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open the ledger: %w", err)
	}
	return &Ledger{file: file, run: os.Getenv("TFE_RUN_ID")}, nil
}

// Record appends that event happened to object.
func (l *Ledger) Record(event Event, object Object) error {
	if l == nil {
		return nil
	}
	line, err := json.Marshal(entry{Time: time.Now().UTC(), Run: l.run, PID: os.Getpid(), Event: event, Object: object})
	if err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}
