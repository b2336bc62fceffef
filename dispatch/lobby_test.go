package dispatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/ids"
)

// lobbyWorld is a lobby whose table of pending attempts the test writes.
type lobbyWorld struct {
	*testing.T
	*Lobby
	looks chan []demand // what each look finds; a look waits for it
}

func newLobby(t *testing.T) lobbyWorld {
	w := lobbyWorld{T: t, looks: make(chan []demand)}
	w.Lobby = &Lobby{every: time.Hour, waiting: func(ctx context.Context) ([]demand, error) {
		select {
		case found := <-w.looks:
			if found == nil {
				return nil, errors.New("the database is away")
			}
			return found, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	return w
}

var (
	acme    = accounts.RunnerGroup{ID: "apool-acme", Organization: "org-acme", TakesRemote: true}
	acmeOwn = accounts.RunnerGroup{ID: "apool-own", Organization: "org-acme"}
	site    = accounts.RunnerGroup{ID: "apool-site", TakesRemote: true, Labels: []string{"big"}}
)

func plainRunner(labels ...string) RunnerHello {
	return RunnerHello{TofuVersions: []string{"1.12.6"}, Labels: labels}
}

func (w lobbyWorld) notify(d demand) {
	w.Helper()
	payload, err := json.Marshal(d)
	require.NoError(w, err)
	w.hear(string(payload))
}

// called tells which of the seats have a call, and takes it.
func called(seats ...*Seat) (calls []bool) {
	for _, seat := range seats {
		select {
		case <-seat.Calls():
			calls = append(calls, true)
		default:
			calls = append(calls, false)
		}
	}
	return calls
}

var anyWork = demand{Organization: "org-acme", TofuVersion: "1.12.6"}

func TestANewAttemptCallsOneOfEachGroupThatFits(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	var fleet []*Seat
	for range 100 {
		fleet = append(fleet, w.Enter(acme, plainRunner()))
	}
	elsewhere := w.Enter(site, plainRunner())
	w.notify(anyWork)
	calls := 0
	for i, got := range called(fleet...) {
		if got {
			calls++
			assert.Zero(t, i, "the one that has waited longest")
		}
	}
	assert.Equal(t, 1, calls, "no herd")
	assert.Equal(t, []bool{true}, called(elsewhere))
	w.notify(anyWork)
	assert.Equal(t, []bool{false, true}, called(fleet[0], fleet[1]), "and then the next one")
}

func TestOnlyThoseAreCalledWhomAnAttemptFits(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	own, all, remote := w.Enter(acmeOwn, plainRunner()), w.Enter(site, plainRunner("gpu")), w.Enter(acme, plainRunner())
	for _, tt := range []struct {
		demand
		want []bool
	}{
		{anyWork, []bool{false, true, true}},
		{demand{Organization: "org-other", TofuVersion: "1.12.6"}, []bool{false, true, false}},
		{demand{Organization: "org-acme", Pool: "apool-own", TofuVersion: "1.12.6"}, []bool{true, false, false}},
		{demand{Organization: "org-acme", TofuVersion: "1.11.0"}, []bool{false, false, false}},
		{demand{Organization: "org-acme", TofuVersion: "1.12.6", Selector: []string{"big", "gpu"}}, []bool{false, true, false}},
		{demand{Organization: "org-acme", TofuVersion: "1.12.6", Selector: []string{"small"}}, []bool{false, false, false}},
	} {
		w.notify(tt.demand)
		assert.Equal(t, tt.want, called(own, all, remote), "%+v", tt.demand)
	}
}

// A runner that isolates nothing is called for the organization that it serves, and no other.
func TestARunnerOfOneOrganizationIsCalledForItAlone(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	bound := plainRunner()
	bound.Organization = "org-acme"
	seat := w.Enter(site, bound)
	w.notify(demand{Organization: "org-other", TofuVersion: "1.12.6"})
	assert.Equal(t, []bool{false}, called(seat))
	w.notify(anyWork)
	assert.Equal(t, []bool{true}, called(seat))
}

// TestACallIsNeverLost: who leaves, or fails, with a call unanswered leaves it to the next.
func TestACallIsNeverLost(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	first, second := w.Enter(acme, plainRunner()), w.Enter(acme, plainRunner())
	w.notify(anyWork)
	first.Leave()
	assert.Equal(t, []bool{true}, called(second))

	third := w.Enter(acme, plainRunner())
	w.notify(anyWork)
	second.HandOn(<-second.Calls())
	assert.Equal(t, []bool{false, true}, called(second, third), "not to itself again")

	w.notify(anyWork)
	w.notify(anyWork)
	w.notify(anyWork)
	assert.Equal(t, []bool{true, true}, called(second, third), "more calls than runners: they look anyway")
	second.Leave()
	third.Leave()
	assert.Empty(t, w.seats)
	assert.Nil(t, w.timer, "nobody waits, so nothing looks")
}

// TestALookCallsOneAndWhoIsServedCallsTheNext, so that a long queue is begun without all
// runners looking at once.
func TestALookCallsOneAndWhoIsServedCallsTheNext(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	first, second := w.Enter(acme, plainRunner()), w.Enter(acme, plainRunner())
	looked := make(chan struct{})
	go func() { w.look(); close(looked) }()
	w.looks <- []demand{anyWork}
	<-looked
	call := <-first.Calls()
	assert.Equal(t, []bool{false}, called(second))
	first.Served(call)
	first.Leave()
	assert.Equal(t, []bool{true}, called(second))

	w.notify(anyWork)
	second.Served(<-second.Calls())
	assert.Equal(t, []bool{false}, called(second), "a notification is of one attempt")
}

func TestAnythingElseMakesTheLobbyLook(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{"", "org-acme"} { // a reconnection; a server of the release before
		w := newLobby(t)
		seat := w.Enter(acme, plainRunner())
		w.hear(payload)
		w.looks <- []demand{anyWork}
		assert.NotNil(t, <-seat.Calls())
	}
}

func TestARunnerIsCalledToEnd(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	one, other := w.Enter(acme, plainRunner()), w.Enter(acme, plainRunner())
	one.Named("agent-1")
	w.notify(anyWork)
	w.hear(`{"drain":"agent-1"}`)
	assert.True(t, (<-one.Calls()).End)
	assert.False(t, (<-other.Calls()).End, "the work it was called for goes to the next")
	w.hear(`{"drain":"agent-2"}`)
	assert.Equal(t, []bool{false, false}, called(one, other))
}

// TestAnIdleFleetIsQuiet: two hundred runners that wait share one look now and then, and
// none of them looks at the table itself. A look that fails is no end.
func TestAnIdleFleetIsQuiet(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	w.every = time.Millisecond
	var fleet []*Seat
	for i := range 200 {
		seat := w.Enter(acme, plainRunner())
		seat.Named(ids.Runner(fmt.Sprint(i)))
		fleet = append(fleet, seat)
	}
	for range 5 {
		w.looks <- nil
		w.looks <- []demand{}
	}
	assert.NotContains(t, called(fleet...), true)
}

func TestAnEmptyLobbyLooksAtNothing(t *testing.T) {
	t.Parallel()
	w := newLobby(t)
	w.waiting = func(context.Context) ([]demand, error) {
		t.Error("nobody waits any more, and the table is still looked at")
		return nil, nil
	}
	seat := w.Enter(acme, plainRunner())
	assert.NotNil(t, w.timer)
	seat.Leave()
	assert.Nil(t, w.timer)
	w.look() // as one does whose time had come when the last runner left
	assert.Nil(t, w.timer)
}
