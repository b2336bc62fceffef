package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/gates"
)

// The gates in front of every start, for site admins. A PUT sets the whole thing.

// launchControlsView is the one switchboard of the site.
type launchControlsView struct {
	ID            string    `jsonapi:"primary,launch-controls"`
	DenyRuns      bool      `jsonapi:"attr,deny-runs"`
	Reason        string    `jsonapi:"attr,reason"`
	ClosedRegions []string  `jsonapi:"attr,closed-regions"`
	PauseIntake   bool      `jsonapi:"attr,pause-intake"`
	ChangedAt     time.Time `jsonapi:"attr,changed-at,iso8601"`
}

func (*launchControlsView) relations() relations { return nil }

func launchControlsAnswer(c gates.Controls, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return ok(&launchControlsView{ID: "site", DenyRuns: c.Deny, Reason: c.Reason, ClosedRegions: list(c.ClosedRegions), PauseIntake: c.IntakePaused, ChangedAt: c.ChangedAt}), nil
}

func (s *server) readLaunchControls(r *request) (answer, error) {
	return launchControlsAnswer(s.Gates.Controls(r.ctx, r.actor))
}

func (s *server) setLaunchControls(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		DenyRuns      Opt[bool]     `json:"deny-runs"`
		Reason        Opt[string]   `json:"reason"`
		ClosedRegions Opt[[]string] `json:"closed-regions"`
		PauseIntake   Opt[bool]     `json:"pause-intake"`
	}](body, "launch-controls")
	if err != nil {
		return answer{}, err
	}
	return launchControlsAnswer(s.Gates.SetControls(r.ctx, r.actor, gates.Controls{
		Deny: in.Attributes.DenyRuns.Or(false), Reason: in.Attributes.Reason.Or(""), ClosedRegions: in.Attributes.ClosedRegions.Or(nil), IntakePaused: in.Attributes.PauseIntake.Or(false),
	}))
}

// suspensionView says whether an organization may start runs. Its id is the organization's name.
type suspensionView struct {
	ID          string     `jsonapi:"primary,organization-suspensions"`
	Suspended   bool       `jsonapi:"attr,suspended"`
	SuspendedAt *time.Time `jsonapi:"attr,suspended-at,iso8601"`
	Reason      string     `jsonapi:"attr,reason"`
}

func (*suspensionView) relations() relations { return nil }

func suspensionAnswer(st gates.Standing, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return ok(&suspensionView{ID: st.Organization, Suspended: st.SuspendedAt != nil, SuspendedAt: st.SuspendedAt, Reason: st.SuspendedReason}), nil
}

func (s *server) readSuspension(r *request) (answer, error) {
	return suspensionAnswer(s.Gates.Standing(r.ctx, r.actor, r.vars["organization"]))
}

func (s *server) setSuspension(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct {
		Suspended Opt[bool]   `json:"suspended"`
		Reason    Opt[string] `json:"reason"`
	}](body, "organization-suspensions")
	if err != nil {
		return answer{}, err
	}
	return suspensionAnswer(s.Gates.SetSuspension(r.ctx, r.actor, r.vars["organization"], in.Attributes.Suspended.Or(false), in.Attributes.Reason.Or("")))
}

// releaseView is an entry of the allow-list of what may execute.
type releaseView struct {
	ID      string `jsonapi:"primary,runner-releases"`
	Version string `jsonapi:"attr,version"`
	Digest  string `jsonapi:"attr,digest"`
}

func (*releaseView) relations() relations { return nil }

// policyReleaseView is an entry of the allow-list of what may evaluate policies.
type policyReleaseView struct {
	ID      string `jsonapi:"primary,policy-runtime-releases"`
	Version string `jsonapi:"attr,version"`
	Digest  string `jsonapi:"attr,digest"`
}

func (*policyReleaseView) relations() relations { return nil }

func releaseViews(l gates.List, releases []gates.Release) []view {
	items := make([]view, 0, len(releases))
	for _, r := range releases {
		if l == gates.PolicyRuntime {
			items = append(items, &policyReleaseView{ID: r.Version + "@" + r.Digest, Version: r.Version, Digest: r.Digest})
		} else {
			items = append(items, &releaseView{ID: r.Version + "@" + r.Digest, Version: r.Version, Digest: r.Digest})
		}
	}
	return items
}

func (s *server) readReleases(l gates.List) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		releases, err := s.Gates.Releases(r.ctx, r.actor, l)
		if err != nil {
			return answer{}, err
		}
		return pageOf(r, releaseViews(l, releases))
	}
}

func (s *server) setReleases(l gates.List) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if err := siteAdmin(r); err != nil {
			return answer{}, err
		}
		body, err := r.body()
		if err != nil {
			return answer{}, err
		}
		items, err := decodeMany[struct {
			Version Opt[string] `json:"version"`
			Digest  Opt[string] `json:"digest"`
		}](body, string(l)+"-releases", "")
		if err != nil {
			return answer{}, err
		}
		wanted := make([]gates.Release, 0, len(items))
		for _, item := range items {
			wanted = append(wanted, gates.Release{Version: item.Attributes.Version.Or(""), Digest: item.Attributes.Digest.Or("")})
		}
		releases, err := s.Gates.SetReleases(r.ctx, r.actor, l, wanted)
		if err != nil {
			return answer{}, err
		}
		return all(releaseViews(l, releases)), nil
	}
}
