package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Database, store and network are away for two minutes each, while one run plans, one applies and
// wants to save its state in the middle of it, and one waits behind that. No runner is lost, so
// all succeed and nothing is held. One end is another: servers that are well and hear nothing of
// a plan for a minute call its runner lost, because a plan costs nothing but its repetition.
func TestOutagesOfTwoMinutes(t *testing.T) {
	if !long {
		t.Skip("it takes ten minutes: run `make chaos LONG=1`")
	}
	for name, outage := range map[string]struct {
		begin, end func(s *stack) error
		planned    string // status of the run that plans
	}{
		"database": {
			func(s *stack) error { return s.crashPostgres() },
			func(s *stack) error { return await("PostgreSQL", func() bool { return s.startPostgres() == nil }) },
			"succeeded",
		},
		"store": {
			func(s *stack) error { s.store.signal(syscall.SIGSTOP); return nil },
			func(s *stack) error { s.store.signal(syscall.SIGCONT); return nil },
			"succeeded",
		},
		"network": {
			func(s *stack) error { s.proxy.down.Store(true); return nil },
			func(s *stack) error { s.proxy.down.Store(false); return nil },
			"plan_failed",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, size{servers: 2, runners: 3})
			applied, planned := s.mustPlace(t, "applied"), s.mustPlace(t, "planned")
			applied.gate = filepath.Join(s.dir, "gate")
			slow := strings.Replace(planned.configuration(1, 0), "output \"things\"", "data \"fault_lookup\" \"a\" {\n  value = \"a\"\n  delay = \"30s\"\n}\noutput \"things\"", 1)
			runs := []string{s.mustRun(t, applied, applied.configuration(2, 0), true), s.mustRun(t, applied, applied.configuration(3, 0), true)}
			require.NoError(t, await("tofu at work", func() bool {
				deeds, err := readLedger(applied.ledger)
				return err == nil && len(deeds) == 2
			}))
			plans := s.mustRun(t, planned, slow, true)
			require.NoError(t, await("tofu to plan", func() bool {
				deeds, err := readLedger(planned.ledger)
				return err == nil && slices.ContainsFunc(deeds, func(d deed) bool { return d.Event == "looked_up" })
			}))
			require.NoError(t, outage.begin(s))
			time.Sleep(10 * time.Second)
			require.NoError(t, os.WriteFile(applied.gate, nil, 0o600))
			time.Sleep(110 * time.Second)
			require.NoError(t, outage.end(s))
			for _, run := range runs {
				s.reaches(t, run, "succeeded")
			}
			s.reaches(t, plans, outage.planned)
			deeds, err := readLedger(applied.ledger)
			require.NoError(t, err)
			assert.Equal(t, 3, countOf(deeds, "created"), "each thing was made once: %v", deeds)
			s.healthy(t, applied, planned)
		})
	}
}

func countOf(deeds []deed, event string) (n int) {
	for _, d := range deeds {
		if d.Event == event {
			n++
		}
	}
	return n
}
