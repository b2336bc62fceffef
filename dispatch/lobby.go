package dispatch

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// lookLimit is how long one look at the table may take.
const lookLimit = 5 * time.Second

// demand is what pending attempts of one kind ask of a runner.
type demand struct {
	Organization ids.Organization `json:"organization"`
	Pool         ids.RunnerGroup  `json:"pool"` // "" is any that takes remote runs
	TofuVersion  string           `json:"version"`
	Selector     []string         `json:"selector"`
}

// Call is why a waiting runner is woken.
type Call struct {
	End bool // the runner was told to end after what it has

	demand demand
	chain  bool // there may be more of the kind: who gets one calls the next
}

// Lobby is where the runners of one server wait. All of them share one LISTEN
// connection and one look at the table now and then, so that a fleet without work costs
// next to nothing; and new work wakes one runner of each group that fits, not all. It
// is safe for concurrent use.
type Lobby struct {
	waiting func(context.Context) ([]demand, error)
	every   time.Duration // between two looks at the table

	mu    sync.Mutex
	seats []*Seat // in the order in which they are called
	timer *time.Timer
}

// Lobby makes a lobby that is called by notifications on Channel. There is one a server.
// While runners wait it looks at the table by itself, every so often: a notification may
// be lost.
func (s *Service) Lobby(wake *postgres.Listener, every time.Duration) *Lobby {
	l := &Lobby{waiting: s.waiting, every: every}
	wake.Read(Channel, l.hear)
	return l
}

func (s *Service) waiting(ctx context.Context) (list []demand, err error) {
	err = postgres.InSnapshot(ctx, s.db, "dispatch.waiting", func(tx postgres.Tx) error {
		list, err = postgres.All[demand](ctx, tx, Queries.Get("Waiting"), nil)
		return err
	})
	return list, err
}

// Seat is the place of one waiting runner.
type Seat struct {
	lobby  *Lobby
	group  accounts.RunnerGroup
	runner RunnerHello
	calls  chan Call
}

// Enter takes a seat for a runner, before its first look at the table: what comes
// after that look is called out. The caller leaves it in the end.
func (l *Lobby) Enter(group accounts.RunnerGroup, r RunnerHello) *Seat {
	seat := &Seat{lobby: l, group: group, runner: r, calls: make(chan Call, 1)}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seats = append(l.seats, seat)
	if l.timer == nil {
		l.timer = time.AfterFunc(l.every, l.look)
	}
	return seat
}

// Named tells who sits here, once the server has named a new runner.
func (s *Seat) Named(runner ids.Runner) {
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	s.runner.ID = runner
}

// Calls gives the calls for this runner. After each it looks at the table.
func (s *Seat) Calls() <-chan Call { return s.calls }

// Served tells that the runner got an attempt after that call.
func (s *Seat) Served(c Call) {
	if c.chain {
		s.lobby.mu.Lock()
		defer s.lobby.mu.Unlock()
		s.lobby.callGroup(s.group.ID, c, s)
	}
}

// Leave frees the seat. A call that came and was not answered goes to the next of the
// group.
func (s *Seat) Leave() {
	l := s.lobby
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seats = slices.DeleteFunc(l.seats, func(other *Seat) bool { return other == s })
	select {
	case c := <-s.calls:
		if !c.End {
			l.callGroup(s.group.ID, c, s)
		}
	default:
	}
	if len(l.seats) == 0 && l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// HandOn passes a call to the next of the group when its runner is gone.
func (s *Seat) HandOn(c Call) {
	s.lobby.mu.Lock()
	defer s.lobby.mu.Unlock()
	s.lobby.callGroup(s.group.ID, c, s)
}

// hear takes a notification: JSON of a demand, or of a runner that shall end. Anything
// else may mean anything, so the table is looked at.
func (l *Lobby) hear(payload string) {
	var said struct {
		demand
		Drain ids.Runner `json:"drain"`
	}
	if err := json.Unmarshal([]byte(payload), &said); err != nil {
		go l.look()
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if said.Drain != "" {
		for _, seat := range l.seats {
			if seat.runner.ID == said.Drain {
				seat.end()
			}
		}
		return
	}
	l.call(Call{demand: said.demand})
}

// end calls the seat to end. A call that was there already needs no answer: it goes to
// the next.
func (s *Seat) end() {
	select {
	case c := <-s.calls:
		s.lobby.callGroup(s.group.ID, c, s)
	default:
	}
	s.calls <- Call{End: true}
}

// look calls one runner of each group for each kind of pending attempt that fits it.
func (l *Lobby) look() {
	l.mu.Lock()
	empty := len(l.seats) == 0
	if l.timer != nil && !empty {
		l.timer.Reset(l.every)
	}
	l.mu.Unlock()
	if empty {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookLimit)
	defer cancel()
	list, err := l.waiting(ctx)
	if err != nil {
		slog.Warn("could not look for pending attempts; it is tried again", "error", err)
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range list {
		l.call(Call{demand: d, chain: true})
	}
}

// call calls one fitting runner of each group. The lock is held.
func (l *Lobby) call(c Call) {
	called := map[ids.RunnerGroup]bool{}
	for _, seat := range slices.Clone(l.seats) {
		if !called[seat.group.ID] && seat.fits(c.demand) {
			called[seat.group.ID] = true
			l.callGroup(seat.group.ID, c, nil)
		}
	}
}

// callGroup calls the runner of the group that has waited longest and has no call yet,
// but for one. The lock is held.
func (l *Lobby) callGroup(group ids.RunnerGroup, c Call, but *Seat) {
	for i, seat := range l.seats {
		if seat == but || seat.group.ID != group || !seat.fits(c.demand) {
			continue
		}
		select {
		case seat.calls <- c:
			l.seats = append(slices.Delete(l.seats, i, i+1), seat)
			return
		default: // it looks already, or is about to
		}
	}
}

// fits tells whether the runner might take such an attempt. The table decides.
func (s *Seat) fits(d demand) bool {
	switch {
	case s.runner.Organization != "" && s.runner.Organization != d.Organization:
		return false
	case d.Pool != "" && d.Pool != s.group.ID:
		return false
	case d.Pool == "" && (!s.group.TakesRemote || (s.group.Organization != "" && s.group.Organization != d.Organization)):
		return false
	}
	for _, label := range d.Selector {
		if !slices.Contains(s.group.Labels, label) && !slices.Contains(s.runner.Labels, label) {
			return false
		}
	}
	return slices.Contains(s.runner.TofuVersions, d.TofuVersion)
}
