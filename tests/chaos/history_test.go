package chaos

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// event is one line of the history: what was done to the stack, what it answered, what it was
// seen to be.
type event struct {
	At        time.Time `json:"at"`
	Kind      string    `json:"kind"`
	What      string    `json:"what,omitempty"`
	Workspace string    `json:"workspace,omitempty"`
	Run       string    `json:"run,omitempty"`
	Version   string    `json:"version,omitempty"`
	SHA256    string    `json:"sha256,omitempty"`
	Serial    int64     `json:"serial,omitempty"`
	Lineage   string    `json:"lineage,omitempty"`
	Epoch     int64     `json:"epoch,omitempty"`
}

// history is what happened, in order, in memory and in a file that outlives a failed test.
type history struct {
	mu      sync.Mutex
	events  []event
	counts  map[string]int
	secrets map[string]string // what must be in no log, and what it is
	file    *os.File
}

func newHistory(dir string) (*history, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "history.jsonl"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	return &history{counts: map[string]int{}, secrets: map[string]string{}, file: file}, nil
}

func (h *history) add(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.At = time.Now().UTC()
	h.events = append(h.events, e)
	h.counts[e.Kind]++
	line, err := json.Marshal(e)
	if err == nil {
		_, _ = h.file.Write(append(line, '\n')) // the copy in memory is what is judged
	}
}

// secret remembers a value that must be in no log. Short ones would be found by chance.
func (h *history) secret(value, what string) {
	if len(value) < 12 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.secrets[value] = what
}

func (h *history) count(kind string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.counts[kind]
}

// of gives the events of a kind, in order.
func (h *history) of(kind string) (found []event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.events {
		if e.Kind == kind {
			found = append(found, e)
		}
	}
	return found
}

func (h *history) allSecrets() map[string]string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make(map[string]string, len(h.secrets))
	for value, what := range h.secrets {
		all[value] = what
	}
	return all
}
