package chaos

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-tfe"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// Servers, database, store and network are away for two minutes each, while one run plans, one
// applies and wants to save its state in the middle of it, one waits behind that, and one is being
// offered. No runner is lost, so all succeed and nothing is held.
func TestOutagesOfTwoMinutes(t *testing.T) {
	if !long {
		t.Skip("it takes six minutes: run `make chaos LONG=1 ONLY=TestOutagesOfTwoMinutes`")
	}
	for name, outage := range map[string]struct {
		begin, end func(s *stack) error
		during     bool // the offer is made when the outage has begun, so that its answer is lost
	}{
		"servers": {
			func(s *stack) error {
				for i := range s.servers {
					s.killServer(i)
				}
				return nil
			},
			func(s *stack) error {
				var starting errgroup.Group
				for _, server := range s.servers {
					starting.Go(func() error { return s.startServer(server) })
				}
				return starting.Wait()
			},
			false,
		},
		"database": {
			func(s *stack) error { return s.crashPostgres() },
			func(s *stack) error { return await("PostgreSQL", func() bool { return s.startPostgres() == nil }) },
			false,
		},
		"store": {
			func(s *stack) error { s.store.signal(syscall.SIGSTOP); return nil },
			func(s *stack) error { s.store.signal(syscall.SIGCONT); return nil },
			false,
		},
		"network": {
			func(s *stack) error { s.proxy.down.Store(true); return nil },
			func(s *stack) error { s.proxy.down.Store(false); return nil },
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, size{servers: 2, runners: 3})
			applied, planned, offered := s.mustPlace(t, "applied"), s.mustPlace(t, "planned"), s.mustPlace(t, "offered")
			applied.gate = filepath.Join(s.dir, "gate")
			slow := strings.Replace(planned.configuration(1, 0), "output \"things\"", "data \"fault_lookup\" \"a\" {\n  value = \"a\"\n  delay = \"30s\"\n}\noutput \"things\"", 1)
			runs := []string{s.mustRun(t, applied, applied.configuration(2, 0), true), s.mustRun(t, applied, applied.configuration(3, 0), true)}
			require.NoError(t, await("tofu at work", func() bool {
				deeds, err := readLedger(applied.ledger)
				return err == nil && len(deeds) == 2
			}))
			runs = append(runs, s.mustRun(t, planned, slow, true))
			require.NoError(t, await("tofu to plan", func() bool {
				deeds, err := readLedger(planned.ledger)
				return err == nil && slices.ContainsFunc(deeds, func(d deed) bool { return d.Event == "looked_up" })
			}))
			ask := s.prepared(t, offered, offered.configuration(1, 0))
			offer := func() { runs = append(runs, ask()) }
			if !outage.during {
				offer()
			}
			require.NoError(t, outage.begin(s))
			if outage.during {
				offer()
			}
			time.Sleep(10 * time.Second)
			require.NoError(t, os.WriteFile(applied.gate, nil, 0o600))
			time.Sleep(110 * time.Second)
			require.NoError(t, outage.end(s))
			for _, run := range runs {
				s.reaches(t, run, "succeeded")
			}
			if outage.during {
				again, err := s.number("select count(*) from attempts where run_id = $1 and phase = 'plan' and expired_offers > 0", runs[3])
				require.NoError(t, err)
				assert.Positive(t, again, "the first offer was lost, and it was offered again")
			}
			deeds, err := readLedger(applied.ledger)
			require.NoError(t, err)
			assert.Equal(t, 3, countOf(deeds, "created"), "each thing was made once: %v", deeds)
			s.healthy(t, applied, planned, offered)
		})
	}
}

// prepared uploads a configuration; what it gives asks for a run of it, in calm.
func (s *stack) prepared(t *testing.T, p place, configuration string) (ask func() string) {
	t.Helper()
	api, err := s.api(s.proxy.calm())
	require.NoError(t, err)
	packed, err := archive(configuration)
	require.NoError(t, err)
	version, err := api.ConfigurationVersions.Create(ctx, p.id, tfe.ConfigurationVersionCreateOptions{AutoQueueRuns: tfe.Bool(false)})
	require.NoError(t, err)
	require.NoError(t, api.ConfigurationVersions.UploadTarGzip(ctx, version.UploadURL, packed))
	return func() string {
		run, err := api.Runs.Create(ctx, tfe.RunCreateOptions{Workspace: &tfe.Workspace{ID: p.id}, ConfigurationVersion: version, AutoApply: tfe.Bool(true)})
		require.NoError(t, err)
		return run.ID
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
