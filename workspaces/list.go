package workspaces

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Filter selects workspaces. What is empty selects nothing away.
type Filter struct {
	SearchName   string       // a part of the name, in any case
	WildcardName string       // the whole name, in any case, where * stands for any text
	Project      ids.Project  // the only project
	Tags         []string     // each of them
	ExcludeTags  []string     // none of them
	Bindings     []TagBinding // each of them; an empty Value means any
	AnyBinding   bool         // one of Bindings is enough
	BlankValues  bool         // an empty Value in Bindings means that it is empty
	RunStatuses  []string     // the current run is in one of these durable statuses
	Nothing      bool         // what is asked for is true of no workspace
	Sort         string       // name, -name, current-run.created-at, -current-run.created-at; empty is the last of them
	Page         Page
}

// args are those of the statement Selected, and which of its conditions apply.
func (f Filter) args(org ids.Organization, scope authz.Scope) (postgres.Args, map[string]bool) {
	keys, values := splitBindings(f.Bindings)
	tags, without := distinct(f.Tags), distinct(f.ExcludeTags)
	return postgres.Args{
			"organization_id": org, "projects": scope.Projects, "workspaces": scope.Workspaces, "project_id": f.Project,
			"part": "%" + likeEscapes.Replace(f.SearchName) + "%", "pattern": strings.ReplaceAll(likeEscapes.Replace(f.WildcardName), "*", "%"),
			"tags": tags, "without": without, "keys": keys, "values": values, "blank": f.BlankValues, "run_statuses": append([]string{}, f.RunStatuses...),
			"limit": f.Page.Limit(), "offset": f.Page.Offset(), "sort": f.Sort,
		}, map[string]bool{
			"scoped": !scope.All, "project": f.Project != "", "search": f.SearchName != "", "pattern": f.WildcardName != "",
			"tags": len(tags) > 0, "two tags": len(tags) > 1, "more tags": len(tags) > 2, "without": len(without) > 0, "own pairs": len(keys) > 0 && !f.AnyBinding, "more pairs": len(keys) > 1 && !f.AnyBinding, "any pair": len(keys) > 0 && f.AnyBinding, "statuses": len(f.RunStatuses) > 0,
		}
}

// likeEscapes lets a text stand for itself in a pattern of LIKE.
var likeEscapes = strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`)

// storable tells whether PostgreSQL can be asked for all of it; else nothing matches.
func (f Filter) storable() bool {
	texts := slices.Concat([]string{f.SearchName, f.WildcardName}, f.Tags, f.ExcludeTags)
	for _, b := range f.Bindings {
		texts = append(texts, b.Key, b.Value)
	}
	return !slices.ContainsFunc(texts, func(text string) bool { return !accounts.Storable(text) })
}

// distinct gives the texts in order and each once; never nil, which would be NULL.
func distinct(texts []string) []string {
	once := append([]string{}, texts...)
	slices.Sort(once)
	return slices.Compact(once)
}

// List gives the organization's workspaces, those first that had a run last unless it is
// said otherwise, and how many match in all. Where nothing else orders them, their names do.
func (s *Service) List(ctx context.Context, actor authz.Actor, organization string, filter Filter) ([]Workspace, int, error) {
	var rows []shownRow
	var total int
	err := postgres.InSnapshot(ctx, s.db, "workspaces.list", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil || filter.Nothing || !filter.storable() {
			return err
		}
		args, applies := filter.args(org.ID, authz.Where(actor, authz.WorkspaceRead, org.ID))
		found, err := find(ctx, tx, args, applies)
		if total = found.Total; err != nil || len(found.IDs) == 0 {
			return err
		}
		rows, err = postgres.All[shownRow](ctx, tx, queries.Get("WorkspacesInOrder"), postgres.Args{"ids": found.IDs})
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	workspaces := make([]Workspace, 0, len(rows))
	for _, r := range rows {
		workspaces = append(workspaces, r.workspace())
	}
	return workspaces, total, nil
}

// pageOf is what a list has in all and, in order, on one page.
type pageOf struct {
	Total int
	IDs   []string `db:"ids"`
}

// find gives what a filter selects, in the way that is the quickest for it (decision 35).
func find(ctx context.Context, tx postgres.Tx, args postgres.Args, applies map[string]bool) (pageOf, error) {
	if applies["own pairs"] { // nothing is inherited, as a rule, and then much less has to be looked at
		inherited, err := postgres.Value[bool](ctx, tx, queries.Get("PairsInherited"), args)
		if err != nil {
			return pageOf{}, err
		}
		applies["own pairs"], applies["inherited pairs"] = !inherited, inherited
	}
	switch {
	case nothingBut(applies, "project"):
		total, err := postgres.Value[int](ctx, tx, queries.For("LivingCount", applies), args)
		if err != nil {
			return pageOf{}, err
		}
		return counted(ctx, tx, "LivingPage", total, args, applies)
	case nothingBut(applies, "tags"), nothingBut(applies, "own pairs"), nothingBut(applies, "statuses"):
		found, err := postgres.One[hits](ctx, tx, queries.For("HitCount", applies), args)
		if err != nil {
			return pageOf{}, err
		}
		if found.Dense {
			return counted(ctx, tx, "DensePage", found.Total, args, applies)
		}
	}
	few := applies["tags"] || applies["own pairs"] || applies["inherited pairs"] || applies["any pair"] || applies["statuses"]
	if applies["scoped"] && !few {
		var err error
		if few, err = seesFew(ctx, tx, args); err != nil {
			return pageOf{}, err
		}
	}
	page := "WorkspacePage"
	if few {
		page = "WorkspacePageOfFew"
	}
	return postgres.One[pageOf](ctx, tx, queries.For(page, applies), args)
}

// nothingBut tells whether no other condition selects.
func nothingBut(applies map[string]bool, condition string) bool {
	for other, applied := range applies {
		if applied && other != condition {
			return false
		}
	}
	return true
}

// SeesFew tells whether a reader with this scope sees so few of an organization's workspaces that
// what belongs to them is found more quickly by them than in the order of a list.
func SeesFew(ctx context.Context, tx postgres.Tx, org ids.Organization, scope authz.Scope) (bool, error) {
	return seesFew(ctx, tx, postgres.Args{"organization_id": org, "projects": scope.Projects, "workspaces": scope.Workspaces})
}

func seesFew(ctx context.Context, tx postgres.Tx, args postgres.Args) (bool, error) {
	const few = 3000
	seen, err := postgres.Value[int](ctx, tx, queries.Get("ScopeCount"), args)
	return seen <= few, err
}

// hits are what one tag, pair or status finds.
type hits struct {
	Total int
	Dense bool // they are many of all workspaces
}

// counted gives the ids on a page of a list that has been counted. A page of the later half is
// reached from the end.
func counted(ctx context.Context, tx postgres.Tx, statement string, total int, args postgres.Args, applies map[string]bool) (pageOf, error) {
	found, offset := pageOf{Total: total}, args["offset"].(int64)
	limit := min(args["limit"].(int64), int64(total)-offset)
	if limit <= 0 {
		return found, nil
	}
	fromTheEnd := offset*2 > int64(total)
	if fromTheEnd {
		statement, offset = statement+"FromTheEnd", int64(total)-offset-limit
	}
	args = maps.Clone(args)
	args["limit"], args["offset"] = limit, offset
	var err error
	found.IDs, err = postgres.Values[string](ctx, tx, queries.For(statement, applies), args)
	if fromTheEnd {
		slices.Reverse(found.IDs)
	}
	return found, err
}
