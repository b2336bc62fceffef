package runner

import (
	"fmt"

	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// logs are what an attempt tells: for people, and beside it as events where tofu can
// write them. What the runner itself has to say is in both.
type logs struct {
	human  *spool
	events *events // nil where tofu cannot write them
}

// openLogs makes the logs, as long as the manifest lets them become.
func openLogs(box sandbox, m wire.Manifest, withEvents bool) (*logs, error) {
	human, err := newSpool(box.logSpool(), m.LogLimit, anyBytes)
	if err != nil {
		return nil, err
	}
	l := &logs{human: human}
	if !withEvents {
		return l, nil
	}
	spooled, err := newSpool(box.eventSpool(), m.JSONLogLimit, wholeLines)
	if err != nil {
		l.remove()
		return nil, err
	}
	l.events = &events{to: spooled, phase: m.Phase, longest: spooled.tailSize()}
	return l, nil
}

// Write adds text to both. It always takes all, as a spool does.
func (l *logs) Write(p []byte) (int, error) {
	if l.events != nil {
		_, _ = l.events.Write(p)
	}
	return l.human.Write(p)
}

// Printf adds a line of the runner's own to both.
func (l *logs) Printf(format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

func (l *logs) close() {
	l.human.close()
	if l.events != nil {
		l.events.finishLine()
		l.events.to.close()
	}
}

// remove gives the files up.
func (l *logs) remove() {
	_ = l.human.file.Close()
	if l.events != nil {
		_ = l.events.to.file.Close()
	}
}
