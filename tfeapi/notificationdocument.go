package tfeapi

import (
	"encoding/json"
	"time"

	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/runs"
)

// notificationDocument is the message of a generic notification, version 1. event and durable_status are
// this server's own.
type notificationDocument struct {
	PayloadVersion  int                    `json:"payload_version"`
	ConfigurationID string                 `json:"notification_configuration_id"`
	RunURL          *string                `json:"run_url"`
	RunID           *string                `json:"run_id"`
	RunMessage      *string                `json:"run_message"`
	RunCreatedAt    *string                `json:"run_created_at"`
	RunCreatedBy    *string                `json:"run_created_by"`
	WorkspaceID     *string                `json:"workspace_id"`
	WorkspaceName   *string                `json:"workspace_name"`
	Organization    *string                `json:"organization_name"`
	Notifications   []notificationOccurred `json:"notifications"`
}

type notificationOccurred struct {
	Message       string  `json:"message"`
	Trigger       string  `json:"trigger"`
	RunStatus     *string `json:"run_status"`
	RunUpdatedAt  *string `json:"run_updated_at"`
	RunUpdatedBy  *string `json:"run_updated_by"`
	Event         string  `json:"event"`
	DurableStatus *string `json:"durable_status"`
}

// NotificationDocument draws an event for a generic receiver. The run's status is what it was by
// the event, in the words of native clients.
func NotificationDocument(e notifications.Event) ([]byte, error) {
	doc := notificationDocument{
		PayloadVersion: 1, ConfigurationID: string(e.Configuration),
		Notifications: []notificationOccurred{{Message: e.Title(), Trigger: string(e.Trigger), Event: e.Name()}},
	}
	if e.Trigger == notifications.Verification {
		return json.Marshal(doc)
	}
	text := func(s string) *string { return &s }
	at := func(t time.Time) *string { return text(t.UTC().Format("2006-01-02T15:04:05.000Z")) }
	doc.RunURL, doc.RunID, doc.RunMessage, doc.RunCreatedAt, doc.RunCreatedBy = text(e.URL), text(string(e.RunID)), text(e.RunMessage), at(e.RunCreatedAt), text(e.RunCreatedBy)
	doc.WorkspaceID, doc.WorkspaceName, doc.Organization = text(string(e.WorkspaceID)), text(e.WorkspaceName), text(e.OrganizationName)
	one := &doc.Notifications[0]
	one.RunStatus, one.RunUpdatedAt, one.RunUpdatedBy, one.DurableStatus = text(statusAt(e)), at(e.At), text(e.By), text(e.ToStatus)
	return json.Marshal(doc)
}

// statusAt is the run's status on the wire when the event happened, by the projection of runs.
func statusAt(e notifications.Event) string {
	applied := runs.Status(e.FromStatus) == runs.Applying
	return project(runFacts{
		durable: runs.Status(e.ToStatus), planFinished: e.PlanFinished, savePlan: e.SavePlan, autoApply: e.AutoApply, confirmed: applied, applyAttempt: applied,
		keepsPlan: e.SavePlan && e.HasChanges && !applied,
	}).run
}
