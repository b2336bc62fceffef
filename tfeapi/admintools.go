package tfeapi

import (
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/site"
)

// The catalogue of tools, for site admins.

// terraformVersionView is an entry of the catalogue. Those of the other tools differ by their type.
type terraformVersionView struct {
	ID               string      `jsonapi:"primary,terraform-versions"`
	Version          string      `jsonapi:"attr,version"`
	URL              string      `jsonapi:"attr,url"`
	Sha              string      `jsonapi:"attr,sha"`
	Official         bool        `jsonapi:"attr,official"`
	Enabled          bool        `jsonapi:"attr,enabled"`
	Beta             bool        `jsonapi:"attr,beta"`
	Deprecated       bool        `jsonapi:"attr,deprecated"`
	DeprecatedReason *string     `jsonapi:"attr,deprecated-reason"`
	Usage            int         `jsonapi:"attr,usage"`
	CreatedAt        time.Time   `jsonapi:"attr,created-at,iso8601"`
	Archs            []site.Arch `jsonapi:"attr,archs"`
}

func (*terraformVersionView) relations() relations { return nil }

// opaVersionView is the same for OPA.
type opaVersionView struct {
	ID               string      `jsonapi:"primary,opa-versions"`
	Version          string      `jsonapi:"attr,version"`
	URL              string      `jsonapi:"attr,url"`
	Sha              string      `jsonapi:"attr,sha"`
	Official         bool        `jsonapi:"attr,official"`
	Enabled          bool        `jsonapi:"attr,enabled"`
	Beta             bool        `jsonapi:"attr,beta"`
	Deprecated       bool        `jsonapi:"attr,deprecated"`
	DeprecatedReason *string     `jsonapi:"attr,deprecated-reason"`
	Usage            int         `jsonapi:"attr,usage"`
	CreatedAt        time.Time   `jsonapi:"attr,created-at,iso8601"`
	Archs            []site.Arch `jsonapi:"attr,archs"`
}

func (*opaVersionView) relations() relations { return nil }

// sentinelVersionView is the same for Sentinel.
type sentinelVersionView struct {
	ID               string      `jsonapi:"primary,sentinel-versions"`
	Version          string      `jsonapi:"attr,version"`
	URL              string      `jsonapi:"attr,url"`
	Sha              string      `jsonapi:"attr,sha"`
	Official         bool        `jsonapi:"attr,official"`
	Enabled          bool        `jsonapi:"attr,enabled"`
	Beta             bool        `jsonapi:"attr,beta"`
	Deprecated       bool        `jsonapi:"attr,deprecated"`
	DeprecatedReason *string     `jsonapi:"attr,deprecated-reason"`
	Usage            int         `jsonapi:"attr,usage"`
	CreatedAt        time.Time   `jsonapi:"attr,created-at,iso8601"`
	Archs            []site.Arch `jsonapi:"attr,archs"`
}

func (*sentinelVersionView) relations() relations { return nil }

// unknownBuild is shown of a version of which nobody has said where it is found, because a
// runner brought it: clients expect a build.
var unknownBuild = site.Arch{OS: "linux", Arch: "amd64"}

func newToolVersionView(v site.ToolVersion) view {
	build := v.Build()
	if len(v.Archs) == 0 {
		v.Archs = []site.Arch{unknownBuild}
	}
	shown := &terraformVersionView{
		ID: string(v.ID), Version: v.Version, URL: build.URL, Sha: build.Sha, Official: v.Official, Enabled: v.Enabled, Beta: v.Beta, Deprecated: v.Deprecated,
		DeprecatedReason: v.DeprecatedReason, Usage: v.Usage, CreatedAt: v.CreatedAt, Archs: v.Archs,
	}
	switch v.Tool {
	case site.OPA:
		return (*opaVersionView)(shown)
	case site.Sentinel:
		return (*sentinelVersionView)(shown)
	}
	return shown
}

func toolVersionAnswer(v site.ToolVersion, err error, draw func(view) answer) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return draw(newToolVersionView(v)), nil
}

func okAlone(v view) answer { return ok(v) }

// toolRoutes are those of one tool under its name in the administration.
func (s *server) toolRoutes(tool site.Tool) []route {
	path := "/api/v2/admin/" + string(tool) + "-versions"
	return []route{
		{method: get, path: path, handle: s.listToolVersions(tool)},
		{method: post, path: path, handle: s.createToolVersion(tool)},
		{method: get, path: path + "/{id}", handle: s.readToolVersion(tool)},
		{method: patch, path: path + "/{id}", handle: s.updateToolVersion(tool)},
		{method: del, path: path + "/{id}", handle: s.deleteToolVersion(tool)},
	}
}

func (s *server) listToolVersions(tool site.Tool) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if err := siteAdmin(r); err != nil {
			return answer{}, err
		}
		p, err := parsePaging(r.query)
		if err != nil {
			return answer{}, err
		}
		found, total, err := s.Site.ToolVersions(r.ctx, r.actor, tool, site.ToolVersionFilter{Version: r.query.Get("filter[version]"), Search: r.query.Get("search[version]"), Page: p.page()})
		if err != nil {
			return answer{}, err
		}
		items := make([]view, 0, len(found))
		for _, v := range found {
			items = append(items, newToolVersionView(v))
		}
		return page(items, p, total), nil
	}
}

// toolVersionInput reads what a request says about an entry. In archs each build is an object
// of url, sha, os and arch.
func toolVersionInput(r *request, tool site.Tool) (c site.ToolVersionChanges, err error) {
	body, err := r.body()
	if err != nil {
		return c, err
	}
	in, err := decode[struct {
		Version          Opt[string]      `json:"version"`
		URL              Opt[string]      `json:"url"`
		Sha              Opt[string]      `json:"sha"`
		Archs            Opt[[]site.Arch] `json:"archs"`
		Official         Opt[bool]        `json:"official"`
		Enabled          Opt[bool]        `json:"enabled"`
		Beta             Opt[bool]        `json:"beta"`
		Deprecated       Opt[bool]        `json:"deprecated"`
		DeprecatedReason Opt[string]      `json:"deprecated-reason"`
	}](body, string(tool)+"-versions")
	a := in.Attributes
	return site.ToolVersionChanges{
		Version: a.Version.Pointer(), URL: a.URL.Pointer(), Sha: a.Sha.Pointer(), Archs: a.Archs.Pointer(), Official: a.Official.Pointer(), Enabled: a.Enabled.Pointer(),
		Beta: a.Beta.Pointer(), Deprecated: a.Deprecated.Pointer(), DeprecatedReason: a.DeprecatedReason.Pointer(),
	}, err
}

func (s *server) createToolVersion(tool site.Tool) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if err := siteAdmin(r); err != nil {
			return answer{}, err
		}
		c, err := toolVersionInput(r, tool)
		if err != nil {
			return answer{}, err
		}
		v, err := s.Site.CreateToolVersion(r.ctx, r.actor, tool, c)
		return toolVersionAnswer(v, err, created)
	}
}

// onToolVersion gives a handler for one entry, which is nothing to anybody but site admins.
func onToolVersion(do func(r *request, which ids.ToolVersion) (answer, error)) func(*request) (answer, error) {
	return func(r *request) (answer, error) {
		if err := siteAdmin(r); err != nil {
			return answer{}, err
		}
		which, err := id[ids.ToolVersion](r)
		if err != nil {
			return answer{}, err
		}
		return do(r, which)
	}
}

func (s *server) readToolVersion(tool site.Tool) func(*request) (answer, error) {
	return onToolVersion(func(r *request, which ids.ToolVersion) (answer, error) {
		v, err := s.Site.ToolVersion(r.ctx, r.actor, tool, which)
		return toolVersionAnswer(v, err, okAlone)
	})
}

func (s *server) updateToolVersion(tool site.Tool) func(*request) (answer, error) {
	return onToolVersion(func(r *request, which ids.ToolVersion) (answer, error) {
		c, err := toolVersionInput(r, tool)
		if err != nil {
			return answer{}, err
		}
		v, err := s.Site.UpdateToolVersion(r.ctx, r.actor, tool, which, c)
		return toolVersionAnswer(v, err, okAlone)
	})
}

func (s *server) deleteToolVersion(tool site.Tool) func(*request) (answer, error) {
	return onToolVersion(func(r *request, which ids.ToolVersion) (answer, error) {
		return noContent(), s.Site.DeleteToolVersion(r.ctx, r.actor, tool, which)
	})
}
