package gates

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

//go:embed queries.sql
var queriesSQL string

// Queries are the package's statements; tests check them against the schema.
var Queries = postgres.ParseQueries(queriesSQL)

// Release is a program as it names itself: its version, and the SHA-256 of its file in
// hex. Both are empty for a runner that names none.
type Release struct {
	Version string `json:"version"`
	Digest  string `json:"digest"`
}

// As asks the list that answers for the release in the part it plays.
func (r Release) As(list List) Claim { return Claim{List: list, Release: r} }

// Claim is a release that must be allowed for a start, with the list that is asked.
type Claim struct {
	List
	Release
}

func (r Release) String() string {
	if r == (Release{}) {
		return "release, which it does not name,"
	}
	return fmt.Sprintf("release %s (%.12s)", r.Version, r.Digest)
}

// Denial is what a closed gate says. The zero Denial is open.
type Denial struct {
	kind   fault.Kind // at the creation of a run
	code   string
	Reason string // for people
}

// Closed tells whether a gate is closed.
func (d Denial) Closed() bool { return d.code != "" }

// AtCreation is the refusal of a new run: Unavailable "service_unavailable" by launch
// controls (PL-08, ER-01), Forbidden "organization_suspended" by suspension (AU-04).
func (d Denial) AtCreation() error { return fault.New(d.kind, d.code, "%s", d.Reason) }

// AtStart is the refusal of a runner that wants to begin what waits: Conflict
// "launch_denied", or "release_not_allowed" (AU-08).
func (d Denial) AtStart() error {
	code := "launch_denied"
	if d.code == releaseNotAllowed {
		code = d.code
	}
	return fault.New(fault.Conflict, code, "%s", d.Reason)
}

const (
	unavailable       = "service_unavailable"
	releaseNotAllowed = "release_not_allowed"

	// readWithin is how long the gates may take to be read. Whoever locks their tables
	// closes them.
	readWithin = 3 * time.Second
)

// Check asks all gates of an organization, and for each release its allow-list.
// Errors: Unavailable "service_unavailable" when they cannot be read, which is to be
// taken as closed (PL-12); the transaction is of no use then.
func Check(ctx context.Context, tx postgres.Tx, organization ids.Organization, releases ...Claim) (Denial, error) {
	within, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	d, err := organizationDenial(within, tx, organization)
	for _, release := range releases {
		if err != nil || d.Closed() {
			break
		}
		d, err = releaseDenial(within, tx, release)
	}
	return d, unreadable(ctx, err)
}

// CheckRelease asks one allow-list alone. Its errors are those of Check.
func CheckRelease(ctx context.Context, tx postgres.Tx, release Claim) (Denial, error) {
	within, cancel := context.WithTimeout(ctx, readWithin)
	defer cancel()
	d, err := releaseDenial(within, tx, release)
	return d, unreadable(ctx, err)
}

func unreadable(ctx context.Context, err error) error {
	if err == nil || (errors.Is(err, context.Canceled) && ctx.Err() != nil) {
		return err
	}
	return fault.New(fault.Unavailable, unavailable, "The launch controls cannot be read, so nothing new is started. Try again in a minute.").Because(err)
}

func organizationDenial(ctx context.Context, tx postgres.Tx, organization ids.Organization) (Denial, error) {
	g, err := postgres.One[struct {
		Known, Deny     bool
		Reason          string
		Region          string
		RegionClosed    bool
		Suspended       bool
		SuspendedReason string
	}](ctx, tx, Queries.Get("Gates"), postgres.Args{"organization_id": organization})
	switch {
	case err != nil:
		return Denial{}, err
	case !g.Known:
		return Denial{fault.Unavailable, unavailable, "The launch controls cannot be read, so nothing new is started. A site admin sets them anew."}, nil
	case g.Deny:
		return Denial{fault.Unavailable, unavailable, sentence("No new runs are started for now, by the launch controls of this site.", g.Reason)}, nil
	case g.Suspended:
		return Denial{fault.Forbidden, "organization_suspended", sentence("The organization is suspended: it starts no runs.", g.SuspendedReason)}, nil
	case g.RegionClosed:
		return Denial{fault.Unavailable, unavailable, fmt.Sprintf("No new runs are started in the region %s for now, by the launch controls of this site.", g.Region)}, nil
	}
	return Denial{}, nil
}

func sentence(text, reason string) string { return strings.TrimSpace(text + " " + reason) }

func releaseDenial(ctx context.Context, tx postgres.Tx, release Claim) (Denial, error) {
	closed, err := postgres.Value[bool](ctx, tx, Queries.Get("NotAllowed"), postgres.Args{"list": string(release.List), "version": release.Version, "digest": release.Digest})
	if err != nil || !closed {
		return Denial{}, err
	}
	whose := map[List]string{Runner: "runner", PolicyRuntime: "policy-runner"}[release.List]
	return Denial{fault.Conflict, releaseNotAllowed, fmt.Sprintf("The %s's %s does not stand in the allow-list of %s releases. Use a release that does, or have a site admin add this one.", whose, release.Release, release.List)}, nil
}

// IntakePaused tells whether runs that are created wait to be taken in.
func IntakePaused(ctx context.Context, tx postgres.Tx) (bool, error) {
	return postgres.Value[bool](ctx, tx, Queries.Get("IntakePaused"), nil)
}
