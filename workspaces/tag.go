package workspaces

import (
	"context"
	"regexp"
	"slices"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

// Tag is a word that workspaces of one organization are found by. Its name is kept
// and compared exactly.
type Tag struct {
	ID           ids.Tag
	Organization ids.Organization
	Name         string
	Instances    int // living workspaces that have it
}

// TagRef names a tag: by its id when that is given, else by its name.
type TagRef struct {
	ID   ids.Tag
	Name string
}

// tagName has no comma, which separates tags in a search.
var tagName = regexp.MustCompile(`^[A-Za-z0-9:_-]{1,255}$`)

func checkTagName(name string) error {
	if !tagName.MatchString(name) {
		return accounts.Invalid("name", "Name of a tag may only contain letters, numbers, :, - and _, and must be 1 to 255 characters long")
	}
	return nil
}

// AddTags gives the workspace tags it does not have yet. A name that the
// organization does not know becomes a tag; an unknown id is NotFound, a name
// against the rule Invalid.
func (s *Service) AddTags(ctx context.Context, actor authz.Actor, id ids.Workspace, refs []TagRef) error {
	return postgres.InTx(ctx, s.db, "workspaces.add-tags", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		return addTags(ctx, tx, actor, w, refs)
	})
}

func addTags(ctx context.Context, tx postgres.Tx, actor authz.Actor, w Workspace, refs []TagRef) error {
	if len(refs) == 0 {
		return nil
	}
	wanted, names := split(refs)
	for _, name := range names {
		if err := checkTagName(name); err != nil {
			return err
		}
	}
	fresh := make([]ids.Tag, 0, len(names))
	for range names {
		fresh = append(fresh, ids.New[ids.Tag]())
	}
	if _, err := postgres.Exec(ctx, tx, queries.Get("TagsEnsure"), postgres.Args{"organization_id": w.Organization, "ids": fresh, "names": names}); err != nil {
		return err
	}
	found, err := findTags(ctx, tx, w.Organization, wanted, names)
	if err != nil {
		return err
	}
	for _, id := range wanted {
		if !slices.Contains(found, ids.Tag(id)) {
			return fault.Missing("tag", id)
		}
	}
	if err := attach(ctx, tx, w.Organization, []ids.Workspace{w.ID}, found); err != nil {
		return err
	}
	return record(ctx, tx, actor, w, "workspace.tagged", map[string]any{"names": names, "ids": wanted})
}

// split sorts references into ids and names, each in order and once.
func split(refs []TagRef) (wanted, names []string) {
	for _, ref := range refs {
		if ref.ID != "" {
			wanted = append(wanted, string(ref.ID))
		} else {
			names = append(names, ref.Name)
		}
	}
	return distinct(wanted), distinct(names)
}

func findTags(ctx context.Context, tx postgres.Tx, org ids.Organization, wanted, names []string) ([]ids.Tag, error) {
	return postgres.Values[ids.Tag](ctx, tx, queries.Get("TagsFind"), postgres.Args{"organization_id": org, "ids": wanted, "names": names})
}

func attach(ctx context.Context, tx postgres.Tx, org ids.Organization, spaces []ids.Workspace, tags []ids.Tag) error {
	_, err := postgres.Exec(ctx, tx, queries.Get("TagsAttach"), postgres.Args{"organization_id": org, "workspaces": spaces, "tags": tags})
	return err
}

// RemoveTags takes tags from the workspace. One it does not have is no error. The
// tag itself stays in the organization.
func (s *Service) RemoveTags(ctx context.Context, actor authz.Actor, id ids.Workspace, refs []TagRef) error {
	return postgres.InTx(ctx, s.db, "workspaces.remove-tags", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, id)
		if err != nil {
			return err
		}
		wanted, names := split(refs)
		for _, name := range names {
			if !accounts.Storable(name) {
				return checkTagName(name)
			}
		}
		found, err := findTags(ctx, tx, w.Organization, wanted, names)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("TagsDetach"), postgres.Args{"organization_id": w.Organization, "workspace_id": w.ID, "tags": found})
		if err != nil || n == 0 {
			return err
		}
		return record(ctx, tx, actor, w, "workspace.untagged", map[string]any{"names": names, "ids": wanted})
	})
}

// TagFilter selects tags. What is empty selects nothing away.
type TagFilter struct {
	Query    string // a part of the name, in any case
	Excluded string // the id of a workspace, whose tags are left out, or of a tag
	Page     Page
}

// Tags gives the organization's tags by name, and how many match in all.
func (s *Service) Tags(ctx context.Context, actor authz.Actor, organization string, filter TagFilter) (tags []Tag, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.tags", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.OrganizationRead, organization)
		if err != nil || !accounts.Storable(filter.Query) || !accounts.Storable(filter.Excluded) {
			return err
		}
		tags, total, err = listTags(ctx, tx, org.ID, "", filter)
		return err
	})
	return tags, total, err
}

// WorkspaceTags gives the workspace's tags with this in their name, in any case, by name, and
// how many there are in all.
func (s *Service) WorkspaceTags(ctx context.Context, actor authz.Actor, id ids.Workspace, name string, page Page) (tags []Tag, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "workspaces.workspace-tags", func(tx postgres.Tx) error {
		w, err := Allowed(ctx, tx, actor, authz.WorkspaceRead, id)
		if err != nil {
			return err
		}
		tags, total, err = listTags(ctx, tx, w.Organization, w.ID, TagFilter{Query: name, Page: page})
		return err
	})
	return tags, total, err
}

func listTags(ctx context.Context, tx postgres.Tx, org ids.Organization, of ids.Workspace, filter TagFilter) ([]Tag, int, error) {
	args := postgres.Args{
		"organization_id": org, "workspace_id": of, "query": filter.Query, "excluded": filter.Excluded,
		"limit": filter.Page.Limit(), "offset": filter.Page.Offset(),
	}
	tags, err := postgres.All[Tag](ctx, tx, queries.Get("Tags"), args)
	if err != nil {
		return nil, 0, err
	}
	total, err := postgres.Value[int](ctx, tx, queries.Get("TagsCount"), args)
	return tags, total, err
}

// DeleteTags removes tags from the organization and from all its workspaces. An id
// that names none of them is no error.
func (s *Service) DeleteTags(ctx context.Context, actor authz.Actor, organization string, tags []ids.Tag) error {
	return postgres.InTx(ctx, s.db, "workspaces.delete-tags", func(tx postgres.Tx) error {
		org, err := accounts.AllowedOrganization(ctx, tx, actor, authz.WorkspaceUpdate, organization)
		if err != nil {
			return err
		}
		n, err := postgres.Exec(ctx, tx, queries.Get("TagsDelete"), postgres.Args{"organization_id": org.ID, "ids": tags})
		if err != nil || n == 0 {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: org.ID, Actor: actor, Action: "tags.deleted", ObjectKind: "organization", ObjectID: string(org.ID), Details: map[string]any{"ids": tags},
		})
	})
}

// TagWorkspaces gives one tag to workspaces of its organization, all or none: one
// that the actor does not see is NotFound, one it may not change Forbidden.
func (s *Service) TagWorkspaces(ctx context.Context, actor authz.Actor, id ids.Tag, spaces []ids.Workspace) error {
	return postgres.InTx(ctx, s.db, "workspaces.tag-workspaces", func(tx postgres.Tx) error {
		tag, err := postgres.One[Tag](ctx, tx, queries.Get("TagByID"), postgres.Args{"id": id})
		if postgres.NoRow(err) {
			return fault.Missing("tag", string(id))
		}
		if err != nil {
			return err
		}
		if err := authz.Allow(actor, authz.OrganizationRead, authz.Object{Organization: tag.Organization, Noun: "tag", Name: string(id)}); err != nil {
			return err
		}
		for _, space := range spaces {
			w, err := Allowed(ctx, tx, actor, authz.WorkspaceUpdate, space)
			if err != nil {
				return err
			}
			if w.Organization != tag.Organization {
				return fault.Missing("workspace", string(space))
			}
		}
		if err := attach(ctx, tx, tag.Organization, spaces, []ids.Tag{id}); err != nil {
			return err
		}
		return audit.Append(ctx, tx, audit.Entry{
			Organization: tag.Organization, Actor: actor, Action: "tag.attached", ObjectKind: "tag", ObjectID: string(id), Details: map[string]any{"workspaces": spaces},
		})
	})
}
