package tfeapi

import (
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/workspaces"
)

// tagView is a tag on the wire.
type tagView struct {
	ID            string `jsonapi:"primary,tags"`
	Name          string `jsonapi:"attr,name"`
	InstanceCount int    `jsonapi:"attr,instance-count"`
	organization  string
}

func (v *tagView) relations() relations {
	return relations{"organization": ref{"organizations", v.organization}}
}

func tagViews(tags []workspaces.Tag, organization string) []*tagView {
	items := make([]*tagView, 0, len(tags))
	for _, t := range tags {
		items = append(items, &tagView{ID: string(t.ID), Name: t.Name, InstanceCount: t.Instances, organization: organization})
	}
	return items
}

type tagAttributes struct {
	Name Opt[string] `json:"name"`
}

// tagRefs reads the tags of a list: by id or, where there is none, by name.
func tagRefs(list []listed[tagAttributes]) ([]workspaces.TagRef, error) {
	refs := make([]workspaces.TagRef, 0, len(list))
	for _, item := range list {
		if item.ID == "" {
			refs = append(refs, workspaces.TagRef{Name: item.Attributes.Name.Or("")})
			continue
		}
		tag, err := ids.Parse[ids.Tag](item.ID)
		if err != nil {
			return nil, err
		}
		refs = append(refs, workspaces.TagRef{ID: tag})
	}
	return refs, nil
}

// tagRequest reads the workspace of the path and the tags of the body.
func tagRequest(r *request) (workspace ids.Workspace, refs []workspaces.TagRef, err error) {
	if workspace, err = id[ids.Workspace](r); err != nil {
		return workspace, nil, err
	}
	body, err := r.body()
	if err != nil {
		return workspace, nil, err
	}
	list, err := decodeMany[tagAttributes](body, "tags", "")
	if err != nil {
		return workspace, nil, err
	}
	refs, err = tagRefs(list)
	return workspace, refs, err
}

func (s *server) listWorkspaceTags(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	w, err := s.Workspaces.Get(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	tags, total, err := s.Workspaces.WorkspaceTags(r.ctx, r.actor, workspace, r.query.Get("name"), p.page())
	if err != nil {
		return answer{}, err
	}
	return page(tagViews(tags, w.OrganizationName), p, total), nil
}

func (s *server) addWorkspaceTags(r *request) (answer, error) {
	workspace, refs, err := tagRequest(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.AddTags(r.ctx, r.actor, workspace, refs)
}

func (s *server) removeWorkspaceTags(r *request) (answer, error) {
	workspace, refs, err := tagRequest(r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.RemoveTags(r.ctx, r.actor, workspace, refs)
}

func (s *server) listTags(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := workspaces.TagFilter{Query: r.query.Get("q"), Excluded: r.query.Get("filter[exclude][taggable][id]"), Page: p.page()}
	tags, total, err := s.Workspaces.Tags(r.ctx, r.actor, r.vars["organization"], filter)
	if err != nil {
		return answer{}, err
	}
	return page(tagViews(tags, r.vars["organization"]), p, total), nil
}

func (s *server) deleteTags(r *request) (answer, error) {
	list, err := identifiers[ids.Tag](r, "tags")
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.DeleteTags(r.ctx, r.actor, r.vars["organization"], list)
}

func (s *server) tagWorkspaces(r *request) (answer, error) {
	tag, err := id[ids.Tag](r)
	if err != nil {
		return answer{}, err
	}
	list, err := identifiers[ids.Workspace](r, "workspaces")
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Workspaces.TagWorkspaces(r.ctx, r.actor, tag, list)
}

// identifiers reads a body that lists things by id alone.
func identifiers[T ids.Any](r *request, kind string) ([]T, error) {
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	items, err := decodeMany[struct{}](body, kind, "")
	if err != nil {
		return nil, err
	}
	list := make([]T, 0, len(items))
	for _, item := range items {
		id, err := ids.Parse[T](item.ID)
		if err != nil {
			return nil, err
		}
		list = append(list, id)
	}
	if len(list) == 0 {
		return nil, fault.New(fault.Malformed, "malformed", "The document names none of the %s.", kind).At("/data")
	}
	return list, nil
}
