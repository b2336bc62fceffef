package site

import (
	"context"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Tool is a program whose versions are in the catalogue.
type Tool string

// The tools.
const (
	Terraform Tool = "terraform" // what workspaces name in terraform-version
	OPA       Tool = "opa"       // what policy sets name in policy-tool-version
	Sentinel  Tool = "sentinel"
)

// Arch is where one build of a version is found. Nothing here fetches it: a runner brings
// its own. It is kept for whoever builds runners.
type Arch struct {
	URL  string `json:"url"`
	Sha  string `json:"sha"` // SHA-256, hex
	OS   string `json:"os"`
	Arch string `json:"arch"`
}

// ToolVersion is an entry of the catalogue.
type ToolVersion struct {
	ID               ids.ToolVersion
	Tool             Tool
	Version          string
	Archs            []Arch
	Official         bool
	Enabled          bool
	Beta             bool
	Deprecated       bool
	DeprecatedReason *string
	CreatedAt        time.Time
	Usage            int // workspaces, or policy sets, that name it
}

// Build gives the one for linux on amd64, which clients know as the version's own; the zero
// Arch when there is none.
func (v ToolVersion) Build() Arch {
	for _, a := range v.Archs {
		if a.OS == "linux" && a.Arch == "amd64" {
			return a
		}
	}
	return Arch{}
}

// ToolVersionChanges are what is said about an entry; what is nil stays. URL and Sha are
// those of the build for linux on amd64, which is the only one then.
type ToolVersionChanges struct {
	Version, URL, Sha       *string
	Archs                   *[]Arch
	Official, Enabled, Beta *bool
	Deprecated              *bool
	DeprecatedReason        *string
}

const (
	longestVersion = 80
	longestURL     = 1024
	mostArchs      = 20
)

var (
	exactVersion = regexp.MustCompile(`^[0-9]{1,20}\.[0-9]{1,20}\.[0-9]{1,20}(-[0-9A-Za-z][0-9A-Za-z.-]{0,40})?$`)
	sha256Hex    = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

func (c ToolVersionChanges) apply(v *ToolVersion) {
	assign(&v.Version, c.Version)
	assign(&v.Official, c.Official)
	assign(&v.Enabled, c.Enabled)
	assign(&v.Beta, c.Beta)
	assign(&v.Deprecated, c.Deprecated)
	if c.DeprecatedReason != nil {
		v.DeprecatedReason = c.DeprecatedReason
	}
	if !v.Deprecated {
		v.DeprecatedReason = nil
	}
	switch {
	case c.Archs != nil:
		v.Archs = *c.Archs
	case c.URL != nil || c.Sha != nil:
		build := v.Build()
		build.OS, build.Arch = "linux", "amd64"
		assign(&build.URL, c.URL)
		assign(&build.Sha, c.Sha)
		v.Archs = []Arch{build}
	}
	if v.Archs == nil {
		v.Archs = []Arch{}
	}
}

func assign[T any](field *T, value *T) {
	if value != nil {
		*field = *value
	}
}

// check refuses an entry that breaks a rule. Builds that were there before are not judged
// anew.
func (v ToolVersion) check(before []Arch) error {
	if len(v.Version) > longestVersion || !exactVersion.MatchString(v.Version) {
		return accounts.Invalid("version", "Version must be one exact version such as 1.12.6")
	}
	if v.DeprecatedReason != nil {
		if err := accounts.CheckText("deprecated-reason", "Deprecated reason", *v.DeprecatedReason, longestURL); err != nil {
			return err
		}
	}
	if len(v.Archs) > mostArchs {
		return accounts.Invalid("archs", "A version has at most %d builds", mostArchs)
	}
	for _, a := range v.Archs {
		if slices.Contains(before, a) {
			continue
		}
		if a.OS != "linux" || !slices.Contains([]string{"amd64", "arm64", "s390x"}, a.Arch) {
			return accounts.Invalid("archs", "A build is for linux, on amd64, arm64 or s390x")
		}
		u, err := url.Parse(a.URL)
		if err != nil || len(a.URL) > longestURL || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" {
			return accounts.Invalid("url", "The address of a build must begin with https:// or http://")
		}
		if !sha256Hex.MatchString(a.Sha) {
			return accounts.Invalid("sha", "The sha of a build must be its SHA-256 in 64 lower-case hexadecimal digits")
		}
	}
	return nil
}

func (v ToolVersion) args() postgres.Args {
	archs, err := json.Marshal(v.Archs)
	if err != nil {
		panic(err) // strings always encode
	}
	return postgres.Args{
		"id": v.ID, "tool": string(v.Tool), "version": v.Version, "archs": string(archs), "official": v.Official, "enabled": v.Enabled, "beta": v.Beta,
		"deprecated": v.Deprecated, "deprecated_reason": v.DeprecatedReason,
	}
}

// toolVersionRow is an entry as statements give it.
type toolVersionRow struct {
	ID                                  ids.ToolVersion
	Tool                                Tool
	Version                             string
	Archs                               []byte
	Official, Enabled, Beta, Deprecated bool
	DeprecatedReason                    *string
	CreatedAt                           time.Time
	Usage                               int
}

func (r toolVersionRow) entry() (ToolVersion, error) {
	v := ToolVersion{
		ID: r.ID, Tool: r.Tool, Version: r.Version, Official: r.Official, Enabled: r.Enabled, Beta: r.Beta, Deprecated: r.Deprecated,
		DeprecatedReason: r.DeprecatedReason, CreatedAt: r.CreatedAt, Usage: r.Usage,
	}
	return v, json.Unmarshal(r.Archs, &v.Archs)
}

// ToolVersionFilter selects entries. What is empty selects nothing away.
type ToolVersionFilter struct {
	Version string // exactly
	Search  string // a part of it
	Page    accounts.Page
}

// ToolVersions gives the entries of a tool, the newest version first, and how many match.
func (s *Service) ToolVersions(ctx context.Context, actor authz.Actor, tool Tool, f ToolVersionFilter) (list []ToolVersion, total int, err error) {
	if err := allowSite(actor); err != nil {
		return nil, 0, err
	}
	args := postgres.Args{"tool": string(tool), "version": f.Version, "search": f.Search, "limit": f.Page.Limit(), "offset": f.Page.Offset()}
	err = postgres.InSnapshot(ctx, s.db, "site.tool-versions", func(tx postgres.Tx) error {
		rows, err := postgres.All[toolVersionRow](ctx, tx, Queries.Get("ToolVersions"), args)
		if err != nil {
			return err
		}
		list = make([]ToolVersion, 0, len(rows))
		for _, r := range rows {
			v, err := r.entry()
			if err != nil {
				return err
			}
			list = append(list, v)
		}
		total, err = postgres.Value[int](ctx, tx, Queries.Get("ToolVersionsCount"), args)
		return err
	})
	return list, total, err
}

// ToolVersion gives an entry of a tool.
func (s *Service) ToolVersion(ctx context.Context, actor authz.Actor, tool Tool, id ids.ToolVersion) (v ToolVersion, err error) {
	if err := allowSite(actor); err != nil {
		return v, err
	}
	err = postgres.InOneStatement(ctx, s.db, "site.tool-version", func(tx postgres.Tx) error {
		v, err = findToolVersion(ctx, tx, "ToolVersionByID", tool, id)
		return err
	})
	return v, err
}

func findToolVersion(ctx context.Context, tx postgres.Tx, query string, tool Tool, id ids.ToolVersion) (ToolVersion, error) {
	r, err := postgres.One[toolVersionRow](ctx, tx, Queries.Get(query), postgres.Args{"id": id, "tool": string(tool)})
	if postgres.NoRow(err) {
		return ToolVersion{}, fault.Missing("version of a tool", string(id))
	}
	if err != nil {
		return ToolVersion{}, err
	}
	return r.entry()
}

// CreateToolVersion adds an entry; enabled when nothing else is said. It takes a build:
// archs, or url and sha. A version that is there already is Invalid.
func (s *Service) CreateToolVersion(ctx context.Context, actor authz.Actor, tool Tool, c ToolVersionChanges) (v ToolVersion, err error) {
	if err := allowSite(actor); err != nil {
		return v, err
	}
	made := ToolVersion{ID: ids.New[ids.ToolVersion](), Tool: tool, Enabled: true}
	c.apply(&made)
	if err := made.check(nil); err != nil {
		return v, err
	}
	if len(made.Archs) == 0 {
		return v, accounts.Invalid("archs", "Say where its builds are: archs, or url and sha")
	}
	return s.changeToolVersion(ctx, actor, "tool-version.created", func(tx postgres.Tx) (ToolVersion, error) {
		_, err := postgres.Exec(ctx, tx, Queries.Get("ToolVersionInsert"), made.args())
		return made, err
	})
}

// UpdateToolVersion changes what is said. It is refused like CreateToolVersion.
func (s *Service) UpdateToolVersion(ctx context.Context, actor authz.Actor, tool Tool, id ids.ToolVersion, c ToolVersionChanges) (v ToolVersion, err error) {
	if err := allowSite(actor); err != nil {
		return v, err
	}
	return s.changeToolVersion(ctx, actor, "tool-version.updated", func(tx postgres.Tx) (ToolVersion, error) {
		v, err := findToolVersion(ctx, tx, "ToolVersionLock", tool, id)
		if err != nil {
			return v, err
		}
		before := v.Archs
		c.apply(&v)
		if err := v.check(before); err != nil {
			return v, err
		}
		_, err = postgres.Exec(ctx, tx, Queries.Get("ToolVersionUpdate"), v.args())
		return v, err
	})
}

// DeleteToolVersion takes an entry away, and with it what was decided about the version.
func (s *Service) DeleteToolVersion(ctx context.Context, actor authz.Actor, tool Tool, id ids.ToolVersion) error {
	if err := allowSite(actor); err != nil {
		return err
	}
	return postgres.InTx(ctx, s.db, "site.delete-tool-version", func(tx postgres.Tx) error {
		v, err := findToolVersion(ctx, tx, "ToolVersionLock", tool, id)
		if err != nil {
			return err
		}
		if _, err := postgres.Exec(ctx, tx, Queries.Get("ToolVersionDelete"), postgres.Args{"id": id}); err != nil {
			return err
		}
		return recordToolVersion(ctx, tx, actor, v, "tool-version.deleted")
	})
}

func (s *Service) changeToolVersion(ctx context.Context, actor authz.Actor, action string, change func(postgres.Tx) (ToolVersion, error)) (v ToolVersion, err error) {
	err = postgres.InTx(ctx, s.db, "site.change-tool-version", func(tx postgres.Tx) error {
		v, err = change(tx)
		if _, constraint := postgres.Violation(err); constraint == "tool_versions_version" {
			return accounts.Taken("version", "Version")
		}
		if err != nil {
			return err
		}
		if err := recordToolVersion(ctx, tx, actor, v, action); err != nil {
			return err
		}
		v, err = findToolVersion(ctx, tx, "ToolVersionByID", v.Tool, v.ID)
		return err
	})
	return v, err
}

func recordToolVersion(ctx context.Context, tx postgres.Tx, actor authz.Actor, v ToolVersion, action string) error {
	return audit.Append(ctx, tx, audit.Entry{
		Actor: actor, Action: action, ObjectKind: "tool-version", ObjectID: string(v.ID),
		Details: map[string]any{"tool": v.Tool, "version": v.Version, "enabled": v.Enabled, "deprecated": v.Deprecated, "beta": v.Beta},
	})
}

// CheckChoice refuses, as a wrong value of the attribute field, a version that the catalogue
// lets nobody choose: one that is disabled, or that is deprecated and was not chosen before.
func CheckChoice(ctx context.Context, tx postgres.Tx, tool Tool, field, version, before string) error {
	found, err := postgres.All[decision](ctx, tx, Queries.Get("Decisions"), postgres.Args{"tool": string(tool), "versions": []string{version}})
	if err != nil || len(found) == 0 {
		return err
	}
	d := found[0]
	reason := ""
	if d.DeprecatedReason != nil {
		reason = " " + *d.DeprecatedReason
	}
	switch {
	case !d.Enabled:
		return accounts.Invalid(field, "Version %s is disabled on this site.%s", version, reason)
	case d.Deprecated && version != before:
		return accounts.Invalid(field, "Version %s is deprecated on this site, so it is not chosen anew.%s", version, reason)
	}
	return nil
}

// decision is what the catalogue says about a version.
type decision struct {
	Version                   string
	Enabled, Beta, Deprecated bool
	DeprecatedReason          *string
}

// Usable is what runs may begin with.
type Usable struct {
	Exact   []string // versions that may be asked for, in the order given
	Default []string // those of them that may stand for the latest: neither beta nor deprecated
}

// UsableVersions leaves out of the versions those with which the catalogue lets no run begin.
// Where every one of the rest is beta or deprecated, all of them may stand for the latest.
func UsableVersions(ctx context.Context, tx postgres.Tx, tool Tool, versions []string) (Usable, error) {
	u := Usable{Exact: []string{}, Default: []string{}}
	if len(versions) == 0 {
		return u, nil
	}
	found, err := postgres.All[decision](ctx, tx, Queries.Get("Decisions"), postgres.Args{"tool": string(tool), "versions": versions})
	if err != nil {
		return u, err
	}
	decided := map[string]decision{}
	for _, d := range found {
		decided[d.Version] = d
	}
	for _, v := range versions {
		d, known := decided[v]
		if known && !d.Enabled {
			continue
		}
		u.Exact = append(u.Exact, v)
		if !d.Beta && !d.Deprecated {
			u.Default = append(u.Default, v)
		}
	}
	if len(u.Default) == 0 {
		u.Default = u.Exact
	}
	return u, nil
}
