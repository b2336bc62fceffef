package runnerapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/dispatch"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/runnerapi/wire"
)

// longestWait is how long a poll is held at most: proxies end a silent request after a
// minute.
const longestWait = 50 * time.Second

// poll answers at once when there is work. Else the runner takes a seat in the lobby
// and looks again when it is called.
func (s *server) poll(c *call, group accounts.RunnerGroup) (any, error) {
	var in wire.Poll
	if err := c.decode(&in); err != nil {
		return nil, err
	}
	version, err := chooseVersion(in)
	if err != nil {
		return nil, err
	}
	hello, err := helloOf(in, version)
	if err != nil {
		return nil, err
	}
	hello.Address = caller(c.r)
	p := polling{server: s, call: c, group: group, hello: hello, version: version}
	answer, err := p.answer(time.Duration(min(max(in.WaitSeconds, 0), int(longestWait/time.Second))) * time.Second)
	if errors.Is(err, context.Canceled) {
		return noAnswer{}, nil // nobody waits for one
	}
	return answer, err
}

// polling is one poll at hand.
type polling struct {
	*server
	call    *call
	group   accounts.RunnerGroup
	hello   dispatch.RunnerHello
	version int
}

func (p *polling) answer(wait time.Duration) (any, error) {
	seat := p.lobby.Enter(p.group, p.hello)
	defer seat.Leave()
	ctx := p.call.ctx()
	runner, a, found, err := p.Runs.Poll(ctx, p.group, p.hello)
	if err != nil {
		return nil, err
	}
	p.hello.ID = runner
	seat.Named(runner)
	if found {
		return p.assignment(a), nil
	}
	// Asked after the seat is taken, so that a wish to end is either seen here or called out.
	if end, err := p.Dispatch.MustEnd(ctx, runner); err != nil || end {
		return p.nothing(end), err
	}
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		select {
		case called := <-seat.Calls():
			if called.End {
				return p.nothing(true), nil
			}
			a, found, err := p.Runs.Claim(ctx, p.group, p.hello)
			if err != nil {
				seat.HandOn(called)
				return nil, err
			}
			if found {
				seat.Served(called)
				return p.assignment(a), nil
			}
		case <-deadline.C:
			return p.nothing(false), nil
		case <-p.Stopping:
			return p.nothing(false), nil
		case <-ctx.Done():
			return noAnswer{}, nil
		}
	}
}

func (p *polling) assignment(a dispatch.Attempt) wire.Assignment {
	offer := wire.Assignment{
		RunnerID: string(p.hello.ID), AttemptID: string(a.ID), RunID: string(a.RunID), Phase: string(a.Phase), ExpiresAt: *a.AssignmentExpiresAt,
	}
	if p.version > 1 {
		offer.ProtocolVersion, offer.OrganizationID = p.version, string(a.OrganizationID)
	}
	return offer
}

// nothing is the answer without work: all it says is in headers.
func (p *polling) nothing(end bool) any {
	header := p.call.w.Header()
	header.Set(wire.HeaderRunner, string(p.hello.ID))
	if p.version > 1 {
		header.Set(wire.HeaderVersion, strconv.Itoa(p.version))
		if end {
			header.Set(wire.HeaderDrain, "true")
		}
	}
	return nil
}

// chooseVersion gives the newest version of the protocol that the runner and this
// server both speak.
func chooseVersion(in wire.Poll) (int, error) {
	newest, oldest := in.ProtocolVersion, in.OldestVersion
	if oldest == 0 {
		oldest = newest
	}
	switch {
	case newest < wire.OldestVersion || newest < oldest:
		return 0, unsupported("The runner speaks version %d of the runner protocol, and this server %d to %d. Install the holdfast-runner of the server's release.", newest, wire.OldestVersion, wire.Version)
	case oldest > wire.Version:
		return 0, unsupported("The runner speaks version %d of the runner protocol at least, and this server %d to %d. Install a server of the runner's release, or the holdfast-runner of the server's.", oldest, wire.OldestVersion, wire.Version)
	}
	return min(newest, wire.Version), nil
}

func unsupported(message string, args ...any) error {
	return fault.New(fault.Invalid, wire.CodeVersion, message, args...)
}

// helloOf reads what the runner says of itself, and refuses what cannot be stored.
func helloOf(in wire.Poll, version int) (hello dispatch.RunnerHello, err error) {
	hello = dispatch.RunnerHello{Name: in.RunnerName, TofuVersions: in.TofuVersions, Release: release(in.Release)}
	if err := checkRelease(in.Release); err != nil {
		return hello, err
	}
	if in.RunnerID != "" {
		if hello.ID, err = ids.Parse[ids.Runner](in.RunnerID); err != nil {
			return hello, err
		}
	}
	if in.OrganizationID != "" && version > 1 {
		if hello.Organization, err = ids.Parse[ids.Organization](in.OrganizationID); err != nil {
			return hello, err
		}
	}
	const longest, most = 200, 100
	if len(in.TofuVersions) > most {
		return hello, fault.New(fault.Invalid, "runner_versions", "A runner may name at most %d versions of OpenTofu.", most)
	}
	for _, text := range append([]string{in.RunnerName}, in.TofuVersions...) {
		if len(text) > longest || !accounts.Storable(text) {
			return hello, fault.New(fault.Invalid, "runner_text", "A runner's name and its versions are texts of at most %d bytes without NUL characters.", longest)
		}
	}
	if version > 1 {
		hello.Labels = in.Labels
	}
	if err := accounts.CheckLabels("labels", "The list of labels", hello.Labels); err != nil {
		return hello, fault.New(fault.Invalid, "runner_labels", "%s.", err)
	}
	return hello, nil
}

// caller is the address that a request came from, without its port.
func caller(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}
