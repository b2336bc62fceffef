package tfeapi

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/state"
	"github.com/holdfast-run/holdfast/workspaces"
)

// stateVersionView is a state version on the wire. The upload addresses are there
// while bytes may still come.
type stateVersionView struct {
	ID                 string          `jsonapi:"primary,state-versions"`
	CreatedAt          time.Time       `jsonapi:"attr,created-at,iso8601"`
	FinalizedAt        *time.Time      `jsonapi:"attr,finalized-at,iso8601"`
	Status             string          `jsonapi:"attr,status"`
	DiscardReason      string          `jsonapi:"attr,discard-reason,omitempty"`
	Serial             int64           `jsonapi:"attr,serial"`
	Lineage            string          `jsonapi:"attr,lineage"`
	Size               int64           `jsonapi:"attr,size"`
	SHA256             string          `jsonapi:"attr,sha256"`
	StateVersion       int             `jsonapi:"attr,state-version"`
	TerraformVersion   string          `jsonapi:"attr,terraform-version"`
	ClientEncrypted    bool            `jsonapi:"attr,client-encrypted"`
	ResourcesProcessed bool            `jsonapi:"attr,resources-processed"`
	Resources          []stateResource `jsonapi:"attr,resources"`
	DownloadURL        *string         `jsonapi:"attr,hosted-state-download-url"`
	JSONDownloadURL    *string         `jsonapi:"attr,hosted-json-state-download-url"`
	UploadURL          *string         `jsonapi:"attr,hosted-state-upload-url"`
	JSONUploadURL      *string         `jsonapi:"attr,hosted-json-state-upload-url"`
	VCSCommitSHA       *string         `jsonapi:"attr,vcs-commit-sha"` // no run here is of a commit
	VCSCommitURL       *string         `jsonapi:"attr,vcs-commit-url"`
	related            relations
}

type stateResource struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Count    int    `json:"count"`
	Module   string `json:"module"`
	Provider string `json:"provider"`
}

func (v *stateVersionView) relations() relations { return v.related }

// stateFormat is the version of the state file's format that tofu writes.
const stateFormat = 4

// newStateVersionView draws v. With uploads the upload addresses are drawn also for
// a finalized version: the client that repeats a create needs them, and uploading
// the same bytes again succeeds.
func (s *server) newStateVersionView(v state.Version, uploads bool) *stateVersionView {
	view := &stateVersionView{
		ID: string(v.ID), CreatedAt: v.CreatedAt, FinalizedAt: v.FinalizedAt, Status: string(v.Status), DiscardReason: v.DiscardReason,
		Serial: v.DeclaredSerial, Lineage: v.Lineage, Size: v.Size, SHA256: v.SHA256, StateVersion: stateFormat, TerraformVersion: v.TerraformVersion,
		ClientEncrypted: v.ClientEncrypted, ResourcesProcessed: v.Status == state.Finalized, Resources: make([]stateResource, 0, len(v.Resources)),
		related: relations{"workspace": ref{"workspaces", string(v.Workspace)}, "run": optional("runs", v.Run), "created-by": optional("users", v.CreatedBy)},
	}
	for _, r := range v.Resources {
		module := "root"
		if r.Module != "" {
			module = r.Module
		}
		view.Resources = append(view.Resources, stateResource{Name: r.Name, Type: r.Type, Count: r.Instances, Module: module, Provider: r.Provider})
	}
	base := s.Address + "/api/v2/state-versions/" + view.ID
	switch {
	case v.DeletedAt != nil:
		view.Status = "backing_data_permanently_deleted"
	case v.HiddenAt != nil:
		view.Status = "backing_data_soft_deleted"
	case v.Status == state.Finalized:
		view.DownloadURL = address(base + "/download")
		if v.JSONObject != "" {
			view.JSONDownloadURL = address(base + "/json-download")
		}
	}
	if uploads || v.Status == state.Pending {
		expires := v.CreatedAt.Add(uploadLinkLifetime)
		view.UploadURL = address(s.link(uploadStateLink, view.ID, expires))
		view.JSONUploadURL = address(s.link(uploadJSONStateLink, view.ID, expires))
	}
	return view
}

func address(s string) *string { return &s }

// optional is a ref to a thing that there may not be.
func optional[T ids.Any](kind string, id T) any {
	if id == "" {
		return nil
	}
	return ref{kind, string(id)}
}

// wantSnapshots tells the client to publish its state every so many seconds during
// a long apply. It must be on every answer about state, also on "there is none",
// because the client goes by the last one it saw (NC-20).
func wantSnapshots(r *request) { r.header.Set("X-Terraform-Snapshot-Interval", "20") }

func (s *server) currentStateVersion(r *request) (answer, error) {
	wantSnapshots(r)
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.State.Current(r.ctx, r.actor, workspace)
	if err != nil {
		return answer{}, err
	}
	return s.oneStateVersion(r, v)
}

func (s *server) readStateVersion(r *request) (answer, error) {
	wantSnapshots(r)
	version, err := id[ids.StateVersion](r)
	if err != nil {
		return answer{}, err
	}
	v, err := s.State.Version(r.ctx, r.actor, version)
	if err != nil {
		return answer{}, err
	}
	return s.oneStateVersion(r, v)
}

func (s *server) oneStateVersion(r *request, v state.Version) (answer, error) {
	view := s.newStateVersionView(v, false)
	if !r.includes()["outputs"] {
		return ok(view), nil
	}
	outputs, err := s.State.Outputs(r.ctx, r.actor, v.ID)
	if err != nil {
		return answer{}, err
	}
	drawn, refs := newOutputViews(outputs, false)
	view.related["outputs"] = refs
	return ok(view, views(drawn)...), nil
}

// listStateVersions lists those of the workspace in the path.
func (s *server) listStateVersions(r *request) (answer, error) {
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	return s.stateVersionsOf(r, workspace)
}

// searchStateVersions lists those of the workspace that two filters name.
func (s *server) searchStateVersions(r *request) (answer, error) {
	organization, name := r.query.Get("filter[organization][name]"), r.query.Get("filter[workspace][name]")
	if organization == "" || name == "" {
		return answer{}, fault.New(fault.Malformed, "invalid_parameter", "Say whose state versions: filter[organization][name] and filter[workspace][name] are both required.")
	}
	w, err := s.Workspaces.GetByName(r.ctx, r.actor, organization, name)
	if err != nil {
		return answer{}, err
	}
	return s.stateVersionsOf(r, w.ID)
}

func (s *server) stateVersionsOf(r *request, workspace ids.Workspace) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	filter := state.Filter{Limit: p.limit(), Offset: p.offset()}
	for _, status := range commaList(r.query, "filter[status]") {
		filter.Statuses = append(filter.Statuses, state.Status(status))
	}
	list, total, err := s.State.Versions(r.ctx, r.actor, workspace, filter)
	if err != nil {
		return answer{}, err
	}
	items := make([]*stateVersionView, 0, len(list))
	for _, v := range list {
		items = append(items, s.newStateVersionView(v, false))
	}
	return page(items, p, total), nil
}

type stateVersionAttributes struct {
	Serial           Opt[int64]  `json:"serial"`
	MD5              Opt[string] `json:"md5"`
	Lineage          Opt[string] `json:"lineage"`
	Force            Opt[bool]   `json:"force"`
	State            Opt[string] `json:"state"`
	JSONState        Opt[string] `json:"json-state"`
	JSONStateOutputs Opt[string] `json:"json-state-outputs"`
}

// createStateVersion announces a state, and takes its bytes when they are in the
// document. Without them the answer says where to put them.
func (s *server) createStateVersion(r *request) (answer, error) {
	wantSnapshots(r)
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	if r.isLarge() { // whoever may not write the state takes no place for it
		w, err := s.Workspaces.Get(r.ctx, r.actor, workspace)
		if err != nil {
			return answer{}, err
		}
		if err := authz.Allow(r.actor, authz.StateWrite, workspaces.Object(w)); err != nil {
			return answer{}, err
		}
	}
	body, done, err := s.stateDocument(r)
	if err != nil {
		return answer{}, err
	}
	defer done()
	in, err := decode[stateVersionAttributes](body, "state-versions")
	if err != nil {
		return answer{}, err
	}
	wanted, err := in.Attributes.create()
	if err != nil {
		return answer{}, err
	}
	if err := in.Attributes.checkInline(); err != nil {
		return answer{}, err // before anything is announced
	}
	v, isNew, err := s.State.Begin(r.ctx, r.actor, workspace, wanted)
	if err != nil {
		return answer{}, err
	}
	if in.Attributes.State.Or("") != "" {
		if v, err = s.takeInline(r, v, in.Attributes); err != nil {
			return answer{}, err
		}
		return created(s.newStateVersionView(v, false)), nil
	}
	if !isNew {
		return ok(s.newStateVersionView(v, true)), nil
	}
	return created(s.newStateVersionView(v, true)), nil
}

// largeWithin is how long a large document may take to come, for others wait meanwhile.
const largeWithin = 5 * time.Minute

// isLarge tells whether the document may be larger than an ordinary one.
func (r *request) isLarge() bool {
	return r.http.ContentLength < 0 || r.http.ContentLength > maxDocument
}

// stateDocument reads a document that may hold a whole state. Only one large
// one is in memory at a time; done gives the place back.
func (s *server) stateDocument(r *request) (body []byte, done func(), err error) {
	limit, done := int64(maxDocument), func() {}
	if r.isLarge() {
		select {
		case s.large <- struct{}{}:
		case <-r.ctx.Done():
			return nil, nil, r.ctx.Err()
		}
		limit, done = maxStateDocument, func() { <-s.large }
		err = r.conn.SetReadDeadline(clock.Now().Add(largeWithin))
	}
	if err == nil {
		body, err = readBody(r.http, limit)
	}
	if err == nil && limit == maxStateDocument {
		err = r.conn.SetReadDeadline(time.Time{}) // it would end the request
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return body, done, nil
}

func (a stateVersionAttributes) create() (state.Create, error) {
	blank := func(name, label string) error {
		return fault.New(fault.Invalid, "invalid_attribute", "%s can't be blank", label).At("/data/attributes/" + name)
	}
	switch {
	case !a.Serial.Set():
		return state.Create{}, blank("serial", "Serial")
	case a.Serial.Value < 0:
		return state.Create{}, fault.New(fault.Invalid, "invalid_attribute", "Serial must not be negative").At("/data/attributes/serial")
	case a.MD5.Or("") == "":
		return state.Create{}, blank("md5", "MD5")
	}
	outputs, err := base64Attribute("json-state-outputs", a.JSONStateOutputs)
	if err != nil {
		return state.Create{}, err
	}
	return state.Create{
		Serial: a.Serial.Value, Lineage: a.Lineage.Or(""), MD5: strings.ToLower(a.MD5.Value), Force: a.Force.Or(false), Outputs: outputs,
	}, nil
}

// checkInline reads the inline states once without keeping them.
func (a stateVersionAttributes) checkInline() error {
	for _, part := range []struct {
		name string
		text Opt[string]
	}{{"state", a.State}, {"json-state", a.JSONState}} {
		if _, err := io.Copy(io.Discard, decoded(part.text)); err != nil {
			return notBase64(part.name)
		}
	}
	return nil
}

// takeInline publishes the state that came in the document itself.
func (s *server) takeInline(r *request, v state.Version, a stateVersionAttributes) (state.Version, error) {
	v, err := s.State.Upload(r.ctx, v.ID, decoded(a.State))
	if err != nil || a.JSONState.Or("") == "" {
		return v, err
	}
	if err := s.State.UploadJSON(r.ctx, v.ID, decoded(a.JSONState)); err != nil {
		return state.Version{}, err
	}
	return s.State.Version(r.ctx, r.actor, v.ID)
}

func decoded(text Opt[string]) io.Reader {
	return base64.NewDecoder(base64.StdEncoding, strings.NewReader(text.Or("")))
}

func notBase64(name string) error {
	return malformed("/data/attributes/"+name, "The value must be base64 (standard alphabet, padded).")
}

func base64Attribute(name string, value Opt[string]) ([]byte, error) {
	plain, err := base64.StdEncoding.DecodeString(value.Or(""))
	if err != nil {
		return nil, notBase64(name)
	}
	return plain, nil
}

// rollbackState makes an earlier version current again, as a new one.
func (s *server) rollbackState(r *request) (answer, error) {
	wantSnapshots(r)
	workspace, err := id[ids.Workspace](r)
	if err != nil {
		return answer{}, err
	}
	body, err := r.body()
	if err != nil {
		return answer{}, err
	}
	in, err := decode[struct{}](body, "state-versions")
	if err != nil {
		return answer{}, err
	}
	earlier, err := in.required("rollback-state-version", "state-versions")
	if err != nil {
		return answer{}, err
	}
	to, err := ids.Parse[ids.StateVersion](earlier)
	if err != nil {
		return answer{}, err
	}
	v, err := s.State.Rollback(r.ctx, r.actor, workspace, to)
	if err != nil {
		return answer{}, err
	}
	return created(s.newStateVersionView(v, false)), nil
}

func (s *server) uploadState(r *request) (answer, error) {
	if err := s.checkLink(uploadStateLink, r); err != nil {
		return answer{}, err
	}
	version, err := id[ids.StateVersion](r)
	if err != nil {
		return answer{}, err
	}
	_, err = s.State.Upload(r.ctx, version, r.upload())
	return answer{status: http.StatusOK}, err
}

func (s *server) uploadJSONState(r *request) (answer, error) {
	if err := s.checkLink(uploadJSONStateLink, r); err != nil {
		return answer{}, err
	}
	version, err := id[ids.StateVersion](r)
	if err != nil {
		return answer{}, err
	}
	return answer{status: http.StatusOK}, s.State.UploadJSON(r.ctx, version, r.upload())
}

func (s *server) downloadState(r *request) (answer, error) {
	version, err := id[ids.StateVersion](r)
	if err != nil {
		return answer{}, err
	}
	body, v, err := s.State.Download(r.ctx, r.actor, version)
	if err != nil {
		return answer{}, err
	}
	return download(body, v.Size), nil
}

func (s *server) downloadJSONState(r *request) (answer, error) {
	version, err := id[ids.StateVersion](r)
	if err != nil {
		return answer{}, err
	}
	body, _, err := s.State.DownloadJSON(r.ctx, r.actor, version)
	if err != nil {
		return answer{}, err
	}
	return download(body, unknownSize), nil
}
