package runs

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
)

// WorkflowDefinition names the lifecycle by which this server drives runs. It changes
// with the table of transitions, so that a run tells which table it was created under
// (RL-04).
func WorkflowDefinition() string { return definition() }

var definition = sync.OnceValue(func() string { return digestOf(Transitions) })

func digestOf(table []Transition) string {
	digest := sha256.New()
	for _, t := range table {
		_, _ = fmt.Fprintln(digest, t.From, t.To, t.Effect) // a digest takes everything
	}
	return "run-lifecycle@" + hex.EncodeToString(digest.Sum(nil))[:12]
}
