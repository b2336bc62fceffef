package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// blow is one thing that is broken, when, and for how long.
type blow struct {
	at    time.Duration
	what  string // "server", "server rolled" (told to end, as when it is replaced by a new release), "runner", "postgres", "store killed", "store stopped", "network"
	which int
	last  time.Duration
}

func (b blow) String() string {
	return fmt.Sprintf("%s %d at %.1f s for %.1f s", b.what, b.which, b.at.Seconds(), b.last.Seconds())
}

// mix says how many blows of each kind fall into a time, and how long they last at most.
type mix struct {
	over                                         time.Duration
	servers, runners, postgres, stores, networks int
	longest                                      time.Duration // of an outage of database, store or network
}

// schedule spreads the blows over the time. The same seed gives the same schedule.
func schedule(seed, stream uint64, m mix, have size) (blows []blow) {
	r := rand.New(rand.NewPCG(seed, stream))
	spread := func(n int, what func(i int) string, of int, shortest, longest time.Duration) {
		for i := range n {
			slot := m.over / time.Duration(n) // one in each slot, so that they do not all come at once
			b := blow{what: what(i), which: r.IntN(of)}
			b.at = slot*time.Duration(i) + time.Duration(r.Int64N(int64(slot)))
			b.last = shortest + time.Duration(r.Int64N(int64(longest-shortest)+1))
			blows = append(blows, b)
		}
	}
	named := func(name string) func(int) string { return func(int) string { return name } }
	spread(m.servers, func(i int) string { return []string{"server", "server", "server", "server rolled"}[i%4] }, max(have.servers, 1), 300*time.Millisecond, 3*time.Second)
	spread(m.runners, named("runner"), max(have.runners, 1), 300*time.Millisecond, 3*time.Second)
	spread(m.postgres, named("postgres"), 1, time.Second, m.longest)
	spread(m.stores, func(i int) string { return []string{"store killed", "store stopped"}[i%2] }, 1, time.Second, m.longest)
	spread(m.networks, named("network"), 1, time.Second, m.longest)
	slices.SortStableFunc(blows, func(a, b blow) int { return int(a.at - b.at) })
	return blows
}

// deliver breaks things by the schedule and mends them. It returns when all is mended, with
// what could not be.
func (s *stack) deliver(blows []blow) error {
	began := time.Now()
	var all sync.WaitGroup
	failed := make(chan error, len(blows))
	for _, b := range blows {
		time.Sleep(time.Until(began.Add(b.at)))
		all.Go(func() {
			if err := s.strike(b); err != nil {
				failed <- fmt.Errorf("%s: %w", b, err)
			}
		})
	}
	all.Wait()
	close(failed)
	return <-failed // nil when there is none
}

// breaking keeps two blows from one thing at once.
var breaking sync.Map

func hold(thing string) (release func()) {
	lock, _ := breaking.LoadOrStore(thing, &sync.Mutex{})
	lock.(*sync.Mutex).Lock()
	return lock.(*sync.Mutex).Unlock
}

func (s *stack) strike(b blow) error {
	thing, _, _ := strings.Cut(b.what, " ")
	defer hold(fmt.Sprintf("%p %s %d", s, thing, b.which))()
	s.history.add(event{Kind: "blow", What: b.String()})
	switch b.what {
	case "server":
		s.killServer(b.which)
		time.Sleep(b.last)
		return s.startServer(s.servers[b.which])
	case "server rolled":
		server := s.servers[b.which]
		server.running().Stop(syscall.SIGTERM, 30*time.Second)
		s.history.add(event{Kind: "rolled", What: server.name})
		return s.startServer(server)
	case "runner":
		return s.loseRunner(b.which, b.last)
	case "postgres":
		if err := s.crashPostgres(); err != nil {
			return err
		}
		s.history.add(event{Kind: "database restart"})
		time.Sleep(b.last)
		return await("PostgreSQL", func() bool { return s.startPostgres() == nil }) // processes of the old one may still end
	case "store killed":
		s.store.kill()
		s.history.add(event{Kind: "kill", What: "store"})
		s.history.add(event{Kind: "store outage"})
		time.Sleep(b.last)
		return s.store.start()
	case "store stopped":
		s.history.add(event{Kind: "store outage"})
		s.store.signal(syscall.SIGSTOP)
		time.Sleep(b.last)
		s.store.signal(syscall.SIGCONT)
	case "network":
		s.history.add(event{Kind: "network outage"})
		s.proxy.down.Store(true)
		time.Sleep(b.last)
		s.proxy.down.Store(false)
	}
	return nil
}

// loseRunner kills a runner for good: its attempt is silent from here on. Another one of the same
// name takes its place.
func (s *stack) loseRunner(i int, pause time.Duration) error {
	s.killRunner(i)
	if err := s.bury(s.runners[i].label); err != nil {
		return err
	}
	time.Sleep(pause)
	return s.runners[i].start()
}
