package tfeapi

import (
	"errors"
	"net/url"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/recovery"
)

// heldView is a workspace that waits for a recovery. Its id is the workspace's. What takes
// the right to recover is null for who may only see the run.
type heldView struct {
	ID                    string             `jsonapi:"primary,held-workspaces"`
	Name                  string             `jsonapi:"attr,name"`
	OrganizationName      string             `jsonapi:"attr,organization-name"`
	EnvironmentClass      string             `jsonapi:"attr,environment-class"`
	FailedApply           string             `jsonapi:"attr,failed-apply"`
	RunID                 string             `jsonapi:"attr,run-id"` // also of a run that the database has lost
	HeldSince             *string            `jsonapi:"attr,held-since"`
	Because               string             `jsonapi:"attr,held-because"`
	DurableStatus         *string            `jsonapi:"attr,durable-status"` // null for a run that the database has lost
	DurableReason         string             `jsonapi:"attr,durable-reason"`
	StatusMessage         string             `jsonapi:"attr,status-message"`
	WaitingRuns           int                `jsonapi:"attr,waiting-runs"`
	AuthorityLost         *bool              `jsonapi:"attr,authority-lost"`
	Proven                *bool              `jsonapi:"attr,proven"`
	Doubt                 *doubt             `jsonapi:"attr,doubt"`
	WriterProvenStopped   *bool              `jsonapi:"attr,writer-proven-stopped"`
	Publications          *int               `jsonapi:"attr,publications"`
	ClaimedUploads        *int               `jsonapi:"attr,claimed-uploads"`
	EmergencyStates       *int               `jsonapi:"attr,emergency-states"`
	CurrentStateVersionID *string            `jsonapi:"attr,current-state-version-id"`
	Operation             *operationEvidence `jsonapi:"attr,operation"`
	Permissions           heldPermissions    `jsonapi:"attr,permissions"`
	related               relations
}

type heldPermissions struct {
	CanRecover bool `json:"can-recover"`
}

func (v *heldView) relations() relations { return v.related }

func newHeldView(h recovery.Held) *heldView {
	w, r := h.Workspace, h.Run
	v := &heldView{
		ID: string(w.ID), Name: w.Name, OrganizationName: w.OrganizationName, EnvironmentClass: string(w.EnvironmentClass), FailedApply: string(w.FailedApply),
		RunID: string(r.ID), HeldSince: stamp(r.FinishedAt), Because: w.Fence.Reason, DurableStatus: orNull(string(r.DurableStatus)), DurableReason: r.DurableReason,
		StatusMessage: r.StatusMessage, WaitingRuns: h.WaitingRuns, Permissions: heldPermissions{CanRecover: h.MayRecover},
		related: relations{"workspace": ref{"workspaces", string(w.ID)}, "run": nil},
	}
	if v.HeldSince == nil {
		v.HeldSince = stamp(w.Fence.AcquiredAt)
	}
	if r.DurableStatus != "" {
		v.related["run"] = ref{"runs", string(r.ID)}
	}
	if h.Evidence == nil {
		return v
	}
	e := newRecoveryView(*h.Evidence)
	publications, claimed, emergency := len(e.Publications), len(e.ClaimedUploads), len(e.EmergencyStates)
	v.AuthorityLost, v.Proven, v.Doubt, v.WriterProvenStopped = &e.AuthorityLost, &e.Proven, e.Doubt, &e.Writer.Proven
	v.Publications, v.ClaimedUploads, v.EmergencyStates = &publications, &claimed, &emergency
	v.CurrentStateVersionID, v.Operation = e.CurrentStateVersionID, e.Operation
	return v
}

// listHeld gives the workspaces of an organization that wait for a recovery.
func (s *server) listHeld(r *request) (answer, error) {
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	list, total, err := s.Recovery.List(r.ctx, r.actor, r.vars["organization"], p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*heldView, 0, len(list))
	for _, h := range list {
		items = append(items, newHeldView(h))
	}
	return page(items, p, total), nil
}

// withPage adds the address of the run's page to the refusal of whoever finds a workspace
// held (RC-08). tofu shows the detail, in both of its execution modes.
func (s *server) withPage(r *request, err error) error {
	var refused *fault.Error
	if r == nil || r.actor.Kind == authz.AttemptActor || !errors.As(err, &refused) || refused.Code != "workspace_recovery_pending" {
		return err
	}
	text, _ := refused.Meta["run-id"].(string)
	run, unknown := ids.Parse[ids.Run](text)
	if unknown != nil {
		return err
	}
	d, unseen := s.Runs.Get(r.ctx, r.actor, run)
	if unseen != nil { // also a run that the database has lost
		return err
	}
	page := s.Address + "/app/" + url.PathEscape(d.OrganizationName) + "/" + url.PathEscape(d.WorkspaceName) + "/runs/" + string(d.ID)
	shown := *refused
	shown.Message += " The run: " + page
	return shown.With("url", page)
}
