package tfeapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonapi"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
)

const mediaType = "application/vnd.api+json"

// view is a struct with jsonapi tags for its id and attributes. Its relations are
// given apart, because the tags cannot say "one of several types" or "not loaded".
type view interface {
	relations() relations
}

// relations maps the name of a relation to a ref, a []ref, or nil for "none".
type relations map[string]any

// ref names a related resource.
type ref struct{ kind, id string }

// document is a body with one resource or, when many is set, a page of them.
type document struct {
	one      view
	many     []view
	page     *pagination
	whole    bool           // the page is all there is
	links    *jsonapi.Links // of a list, once its address is known
	included []view
}

// payload gives the value that is encoded as the body.
func (d document) payload() (any, error) {
	included, err := includedNodes(d.included)
	if err != nil {
		return nil, err
	}
	if d.one != nil {
		n, err := node(d.one)
		return &jsonapi.OnePayload{Data: n, Included: included}, err
	}
	nodes, err := allNodes(d.many)
	if err != nil {
		return nil, err
	}
	payload := &jsonapi.ManyPayload{Data: nodes, Included: included, Links: d.links}
	if d.page != nil {
		payload.Meta = &jsonapi.Meta{"pagination": d.page}
	}
	return payload, nil
}

func node(v view) (*jsonapi.Node, error) {
	payload, err := jsonapi.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("write %T: %w", v, err)
	}
	one, ok := payload.(*jsonapi.OnePayload)
	if !ok {
		return nil, fmt.Errorf("write %T: not a single resource", v)
	}
	related := v.relations()
	if self := selfLink(one.Data.Type, one.Data.ID, related); self != "" && one.Data.Links == nil {
		one.Data.Links = &jsonapi.Links{"self": self}
	}
	for name, target := range related {
		if one.Data.Relationships == nil {
			one.Data.Relationships = map[string]any{}
		}
		one.Data.Relationships[name] = relationship(target)
	}
	return one.Data, nil
}

func relationship(target any) any {
	switch t := target.(type) {
	case ref:
		return &jsonapi.RelationshipOneNode{Data: &jsonapi.Node{Type: t.kind, ID: t.id}, Links: t.related()}
	case []ref:
		nodes := make([]*jsonapi.Node, 0, len(t))
		for _, r := range t {
			nodes = append(nodes, &jsonapi.Node{Type: r.kind, ID: r.id})
		}
		return &jsonapi.RelationshipManyNode{Data: nodes}
	default:
		return &jsonapi.RelationshipOneNode{}
	}
}

func allNodes(views []view) ([]*jsonapi.Node, error) {
	nodes := make([]*jsonapi.Node, 0, len(views))
	for _, v := range views {
		n, err := node(v)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

// includedNodes writes each resource once, in the order of type and id.
func includedNodes(views []view) ([]*jsonapi.Node, error) {
	nodes, err := allNodes(views)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(nodes, func(a, b *jsonapi.Node) int {
		return strings.Compare(a.Type+"/"+a.ID, b.Type+"/"+b.ID)
	})
	return slices.CompactFunc(nodes, func(a, b *jsonapi.Node) bool { return a.Type == b.Type && a.ID == b.ID }), nil
}

// views turns a slice of one view type into the general one.
func views[V view](list []V) []view {
	out := make([]view, 0, len(list))
	for _, v := range list {
		out = append(out, v)
	}
	return out
}

// pagination is meta.pagination. Beyond the last page it stays truthful: the page
// asked for, no next page, the real totals.
type pagination struct {
	CurrentPage  int  `json:"current-page"`
	PageSize     int  `json:"page-size"`
	PreviousPage *int `json:"prev-page"`
	NextPage     *int `json:"next-page"`
	TotalPages   int  `json:"total-pages"`
	TotalCount   int  `json:"total-count"`
	uncounted    bool
}

const (
	defaultPageSize = 20
	maxPageSize     = 100
)

// paging is the page a request asked for: Number counts from 1.
type paging struct{ number, size int }

// page is the same for the packages below, which count pages.
func (p paging) page() accounts.Page { return accounts.Page{Number: p.number, Size: p.size} }

func (p paging) limit() int  { return p.size }
func (p paging) offset() int { return (p.number - 1) * p.size }

// of describes the page within total things.
func (p paging) of(total int) *pagination {
	pages := max(1, (total+p.size-1)/p.size)
	d := &pagination{CurrentPage: p.number, PageSize: p.size, TotalPages: pages, TotalCount: total}
	if p.number > 1 {
		previous := min(p.number-1, pages)
		d.PreviousPage = &previous
	}
	if p.number < pages {
		next := p.number + 1
		d.NextPage = &next
	}
	return d
}

// uncounted describes a page of a list that nobody counts: whether another follows is all
// that is known.
func (p paging) uncounted(more bool) *pagination {
	d := &pagination{CurrentPage: p.number, PageSize: p.size, uncounted: true}
	if p.number > 1 {
		previous := p.number - 1
		d.PreviousPage = &previous
	}
	if more {
		next := p.number + 1
		d.NextPage = &next
	}
	return d
}

// MarshalJSON leaves out totals that are not known.
func (p *pagination) MarshalJSON() ([]byte, error) {
	if !p.uncounted {
		type counted pagination
		return json.Marshal((*counted)(p))
	}
	return json.Marshal(struct {
		CurrentPage  int  `json:"current-page"`
		PageSize     int  `json:"page-size"`
		PreviousPage *int `json:"prev-page"`
		NextPage     *int `json:"next-page"`
	}{p.CurrentPage, p.PageSize, p.PreviousPage, p.NextPage})
}

// parsePaging reads page[number] and page[size]; what is absent, or below one, is
// the default, and a size over the largest is the largest.
func parsePaging(query url.Values) (paging, error) {
	number, err := positive(query, "page[number]", 1)
	if err != nil {
		return paging{}, err
	}
	size, err := positive(query, "page[size]", defaultPageSize)
	if err != nil {
		return paging{}, err
	}
	return paging{number: number, size: min(size, maxPageSize)}, nil
}

func positive(query url.Values, name string, fallback int) (int, error) {
	text := query.Get(name)
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fault.New(fault.Malformed, "invalid_parameter", "The query parameter %s must be a whole number up to 2147483647.", name)
	}
	if n < 1 {
		return fallback, nil
	}
	return int(min(n, 10_000_000)), nil // keeps the offset within 32 bits
}

// includes is the set of relations a client asked to have in full. Names it does
// not know are ignored: a client aborts on a 400 here.
type includes map[string]bool

// parseIncludes reads include, a comma-separated list that mixes "_" and "-".
func parseIncludes(query url.Values) includes {
	set := includes{}
	for _, value := range query["include"] {
		for _, name := range strings.Split(value, ",") {
			set[strings.ReplaceAll(strings.TrimSpace(name), "_", "-")] = true
		}
	}
	return set
}
