package tfeapi

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/state"
)

// workspaceResourceView is one instance of a managed resource in the current state.
type workspaceResourceView struct {
	ID             string  `jsonapi:"primary,resources"`
	Address        string  `jsonapi:"attr,address"`
	Name           string  `jsonapi:"attr,name"`
	Module         string  `jsonapi:"attr,module"`
	Provider       string  `jsonapi:"attr,provider"`
	ProviderType   string  `jsonapi:"attr,provider-type"`
	NameIndex      *string `jsonapi:"attr,name-index"`
	StateVersionID string  `jsonapi:"attr,modified-by-state-version-id"`
}

func (*workspaceResourceView) relations() relations { return nil }

var (
	moduleWord    = regexp.MustCompile(`(^|\.)module\.`)
	providerNamed = regexp.MustCompile(`provider\["(?:[^/"]+/)?([^"]+)"\]`)
)

// newWorkspaceResourceViews draws the instances of r.
func newWorkspaceResourceViews(version ids.StateVersion, r state.Resource) []*workspaceResourceView {
	module := moduleWord.ReplaceAllString(r.Module, "$1")
	provider := r.Provider
	if named := providerNamed.FindStringSubmatch(provider); named != nil {
		provider = named[1]
	}
	base := r.Type + "." + r.Name
	if module != "" {
		base = module + "." + base
	} else {
		module = "root"
	}
	keys := r.Keys
	for len(keys) < r.Instances {
		keys = append(keys, "")
	}
	items := make([]*workspaceResourceView, 0, len(keys))
	for _, key := range keys {
		address, index := base, (*string)(nil)
		if key != "" {
			text := strings.Trim(key, `"`)
			address, index = base+"["+key+"]", &text
		}
		sum := sha256.Sum256([]byte(address))
		items = append(items, &workspaceResourceView{
			ID: "wsr-" + hex.EncodeToString(sum[:8]), Address: address, Name: r.Name, Module: module, Provider: provider, ProviderType: r.Type, NameIndex: index,
			StateVersionID: string(version),
		})
	}
	return items
}

// listWorkspaceResources gives the managed resources of the current state, a page at a time.
func (s *server) listWorkspaceResources(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	order, err := resourceOrder(r.query.Get("sort"))
	if err != nil {
		return answer{}, err
	}
	v, err := s.State.Current(r.ctx, r.actor, workspace)
	if fault.HasCode(err, "no_state") {
		return page([]*workspaceResourceView{}, p, 0), nil
	}
	if err != nil {
		return answer{}, err
	}
	items := []*workspaceResourceView{}
	for _, one := range v.Resources {
		if one.Mode == "managed" {
			items = append(items, newWorkspaceResourceViews(v.ID, one)...)
		}
	}
	items = slices.DeleteFunc(items, func(v *workspaceResourceView) bool { return !strings.Contains(v.Address, r.query.Get("q")) })
	if order != nil {
		slices.SortStableFunc(items, order)
	}
	total := len(items)
	return page(items[min(p.offset(), total):min(p.offset()+p.limit(), total)], p, total), nil
}

// resourceOrder reads what resources are sorted by, such as name:desc. Without it they stay in the
// order of the state; all of one state were updated at once.
func resourceOrder(sort string) (func(a, b *workspaceResourceView) int, error) {
	name, direction, _ := strings.Cut(sort, ":")
	by, known := map[string]func(*workspaceResourceView) string{
		"name":         func(v *workspaceResourceView) string { return v.Name },
		"nameIndex":    func(v *workspaceResourceView) string { return orEmpty(v.NameIndex) },
		"provider":     func(v *workspaceResourceView) string { return v.Provider },
		"providerType": func(v *workspaceResourceView) string { return v.ProviderType },
		"module":       func(v *workspaceResourceView) string { return v.Module },
		"updatedAt":    func(*workspaceResourceView) string { return "" },
	}[name]
	switch {
	case sort == "":
		return nil, nil
	case !known || direction != "asc" && direction != "desc":
		return nil, fault.New(fault.Malformed, "invalid_parameter", "Resources cannot be sorted by %q. Sort by name, nameIndex, provider, providerType, module or updatedAt, with :asc or :desc behind it.", sort)
	case direction == "desc":
		return func(a, b *workspaceResourceView) int { return strings.Compare(by(b), by(a)) }, nil
	}
	return func(a, b *workspaceResourceView) int { return strings.Compare(by(a), by(b)) }, nil
}
