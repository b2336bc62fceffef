package gates

import (
	"context"
	"regexp"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Service reads and sets the gates for site admins; for anybody else there are none
// (NotFound).
type Service struct{ db *postgres.DB }

// New makes the service.
func New(db *postgres.DB) *Service { return &Service{db: db} }

// Controls are the launch controls of the site.
type Controls struct {
	Deny          bool     // nothing new starts anywhere
	Reason        string   // shown to whoever is refused
	ClosedRegions []string // nothing new starts for organizations of these regions
	IntakePaused  bool     // runs are created and wait to be taken in (RL-12)
	ChangedAt     time.Time
}

// Standing is what the gates know of one organization.
type Standing struct {
	Organization    string // its name
	Region          string // empty: none
	SuspendedAt     *time.Time
	SuspendedReason string
}

// List names an allow-list of releases.
type List string

// The lists.
const (
	Runner        List = "runner"
	PolicyRuntime List = "policy-runtime"
)

const (
	longestReason = 500 // bytes
	mostEntries   = 1000
)

var (
	regionName = regexp.MustCompile(`^[a-z0-9-]{1,40}$`)
	digestHex  = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func allowSite(actor authz.Actor) error {
	if !authz.Can(actor, authz.OrganizationCreate, authz.Object{}) {
		return fault.New(fault.NotFound, "not_found", "There is nothing at this address for you. It is for site admins.")
	}
	return nil
}

// Controls gives the launch controls. NotFound "launch_controls_missing" when their row
// is gone, which denies every start until they are set anew.
func (s *Service) Controls(ctx context.Context, actor authz.Actor) (c Controls, err error) {
	if err := allowSite(actor); err != nil {
		return c, err
	}
	err = postgres.InSnapshot(ctx, s.db, "gates.controls", func(tx postgres.Tx) error {
		c, err = postgres.One[Controls](ctx, tx, Queries.Get("Controls"), nil)
		if postgres.NoRow(err) {
			return fault.New(fault.NotFound, "launch_controls_missing", "The launch controls are gone, so nothing new is started. Set them anew.")
		}
		return err
	})
	return c, err
}

// SetControls sets all of the launch controls; ChangedAt is the database's.
func (s *Service) SetControls(ctx context.Context, actor authz.Actor, wanted Controls) (c Controls, err error) {
	if err := allowSite(actor); err != nil {
		return c, err
	}
	if err := accounts.CheckText("reason", "Reason", wanted.Reason, longestReason); err != nil {
		return c, err
	}
	if len(wanted.ClosedRegions) > mostEntries {
		return c, accounts.Invalid("closed-regions", "At most %d regions can be closed", mostEntries)
	}
	for _, region := range wanted.ClosedRegions {
		if err := checkRegion("closed-regions", region); err != nil {
			return c, err
		}
	}
	if wanted.ClosedRegions == nil {
		wanted.ClosedRegions = []string{}
	}
	err = postgres.InTx(ctx, s.db, "gates.set-controls", func(tx postgres.Tx) error {
		c, err = postgres.One[Controls](ctx, tx, Queries.Get("SetControls"), postgres.Args{
			"deny": wanted.Deny, "intake_paused": wanted.IntakePaused, "reason": wanted.Reason, "closed_regions": wanted.ClosedRegions,
		})
		if err != nil {
			return err
		}
		return appendAndWake(ctx, tx, audit.Entry{
			Actor: actor, Action: "launch-controls.set", ObjectKind: "launch-controls", ObjectID: "site", Reason: wanted.Reason,
			Details: map[string]any{"deny": wanted.Deny, "closed_regions": wanted.ClosedRegions, "intake_paused": wanted.IntakePaused},
		})
	})
	return c, err
}

// appendAndWake records a change, and has waiting runners look again at its commit.
func appendAndWake(ctx context.Context, tx postgres.Tx, e audit.Entry) error {
	if _, err := postgres.Exec(ctx, tx, Queries.Get("NotifyLook"), nil); err != nil {
		return err
	}
	return audit.Append(ctx, tx, e)
}

func checkRegion(attribute, region string) error {
	if !regionName.MatchString(region) {
		return accounts.Invalid(attribute, "A region has 1 to 40 lower-case letters, digits and -")
	}
	return nil
}

// Standing gives what the gates know of an organization.
func (s *Service) Standing(ctx context.Context, actor authz.Actor, organization string) (st Standing, err error) {
	err = s.ofOrganization(ctx, actor, "gates.standing", organization, func(postgres.Tx, accounts.Organization) error { return nil }, &st)
	return st, err
}

// SetSuspension suspends an organization, or lets it start runs again. The reason is
// shown to its members.
func (s *Service) SetSuspension(ctx context.Context, actor authz.Actor, organization string, suspended bool, reason string) (st Standing, err error) {
	if err := accounts.CheckText("reason", "Reason", reason, longestReason); err != nil {
		return st, err
	}
	query, action := "Resume", "organization.resumed"
	if suspended {
		query, action = "Suspend", "organization.suspended"
	}
	err = s.ofOrganization(ctx, actor, "gates.set-suspension", organization, func(tx postgres.Tx, o accounts.Organization) error {
		if _, err := postgres.Exec(ctx, tx, Queries.Get(query), postgres.Args{"organization_id": o.ID, "reason": reason}); err != nil {
			return err
		}
		return appendAndWake(ctx, tx, audit.Entry{Organization: o.ID, Actor: actor, Action: action, ObjectKind: "organization", ObjectID: string(o.ID), Reason: reason})
	}, &st)
	return st, err
}

// Regions gives the regions of those of the organizations that have one.
func (s *Service) Regions(ctx context.Context, actor authz.Actor, organizations []ids.Organization) (map[ids.Organization]string, error) {
	if err := allowSite(actor); err != nil {
		return nil, err
	}
	var rows []struct {
		ID     ids.Organization
		Region string
	}
	err := postgres.InOneStatement(ctx, s.db, "gates.regions", func(tx postgres.Tx) (err error) {
		rows, err = postgres.All[struct {
			ID     ids.Organization
			Region string
		}](ctx, tx, Queries.Get("Regions"), postgres.Args{"ids": organizations})
		return err
	})
	regions := make(map[ids.Organization]string, len(rows))
	for _, r := range rows {
		regions[r.ID] = r.Region
	}
	return regions, err
}

// SetRegion says in which region an organization's runs start; empty is none.
func (s *Service) SetRegion(ctx context.Context, actor authz.Actor, organization, region string) (st Standing, err error) {
	if region != "" {
		if err := checkRegion("region", region); err != nil {
			return st, err
		}
	}
	err = s.ofOrganization(ctx, actor, "gates.set-region", organization, func(tx postgres.Tx, o accounts.Organization) error {
		if _, err := postgres.Exec(ctx, tx, Queries.Get("SetRegion"), postgres.Args{"organization_id": o.ID, "region": region}); err != nil {
			return err
		}
		return appendAndWake(ctx, tx, audit.Entry{
			Organization: o.ID, Actor: actor, Action: "organization.region-set", ObjectKind: "organization", ObjectID: string(o.ID), Details: map[string]any{"region": region},
		})
	}, &st)
	return st, err
}

// ofOrganization runs fn for a site admin and reads the organization's standing after it.
func (s *Service) ofOrganization(ctx context.Context, actor authz.Actor, name, organization string, fn func(postgres.Tx, accounts.Organization) error, st *Standing) error {
	if err := allowSite(actor); err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, name, func(tx postgres.Tx) error {
		o, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil {
			return err
		}
		if err := fn(tx, o); err != nil {
			return err
		}
		row, err := postgres.One[struct {
			Region          string
			SuspendedAt     *time.Time
			SuspendedReason string
		}](ctx, tx, Queries.Get("Standing"), postgres.Args{"organization_id": o.ID})
		*st = Standing{Organization: o.Name, Region: row.Region, SuspendedAt: row.SuspendedAt, SuspendedReason: row.SuspendedReason}
		return err
	})
}

// Releases gives an allow-list by version; none in it means that every release is allowed.
func (s *Service) Releases(ctx context.Context, actor authz.Actor, list List) (releases []Release, err error) {
	if err := allowSite(actor); err != nil {
		return nil, err
	}
	err = postgres.InSnapshot(ctx, s.db, "gates.releases", func(tx postgres.Tx) error {
		releases, err = postgres.All[Release](ctx, tx, Queries.Get("Releases"), postgres.Args{"list": string(list)})
		return err
	})
	return releases, err
}

// SetReleases replaces an allow-list. An empty one allows every release.
func (s *Service) SetReleases(ctx context.Context, actor authz.Actor, list List, wanted []Release) (releases []Release, err error) {
	if err := allowSite(actor); err != nil {
		return nil, err
	}
	if len(wanted) > mostEntries {
		return nil, accounts.Invalid("releases", "An allow-list has at most %d releases", mostEntries)
	}
	for _, r := range wanted {
		if r.Version == "" || len(r.Version) > 200 {
			return nil, accounts.Invalid("version", "Version must have 1 to 200 bytes")
		}
		if !digestHex.MatchString(r.Digest) {
			return nil, accounts.Invalid("digest", "Digest must be the SHA-256 of the runner's binary in 64 lower-case hexadecimal digits")
		}
	}
	err = postgres.InTx(ctx, s.db, "gates.set-releases", func(tx postgres.Tx) error {
		args := postgres.Args{"list": string(list)}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ClearReleases"), args); err != nil {
			return err
		}
		for _, r := range wanted {
			args := postgres.Args{"list": string(list), "version": r.Version, "digest": r.Digest}
			if _, err := postgres.Exec(ctx, tx, Queries.Get("AllowRelease"), args); err != nil {
				return err
			}
		}
		if releases, err = postgres.All[Release](ctx, tx, Queries.Get("Releases"), args); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Actor: actor, Action: "releases.set", ObjectKind: "allow-list", ObjectID: string(list), Details: map[string]any{"releases": releases},
		})
	})
	return releases, err
}
