package tfeapi

import (
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/notifications"
)

// notificationView is a notification configuration on the wire. Its token is never shown.
// disabled-reason is this server's own: why it, and not a person, has disabled it.
type notificationView struct {
	ID                string             `jsonapi:"primary,notification-configurations"`
	Name              string             `jsonapi:"attr,name"`
	DestinationType   string             `jsonapi:"attr,destination-type"`
	Enabled           bool               `jsonapi:"attr,enabled"`
	URL               *string            `jsonapi:"attr,url"`
	Token             *string            `jsonapi:"attr,token"`
	Triggers          []string           `jsonapi:"attr,triggers"`
	EmailAddresses    []string           `jsonapi:"attr,email-addresses"`
	DeliveryResponses []deliveryResponse `jsonapi:"attr,delivery-responses"`
	DisabledReason    string             `jsonapi:"attr,disabled-reason"`
	CreatedAt         time.Time          `jsonapi:"attr,created-at,iso8601"`
	UpdatedAt         time.Time          `jsonapi:"attr,updated-at,iso8601"`
	related           relations
}

// deliveryResponse is what a receiver answered; a string stands for each value, as clients
// expect. Headers are not kept: the client drops an answer that has them.
type deliveryResponse struct {
	URL        string `json:"url"`
	Body       string `json:"body"`
	Code       string `json:"code"`
	SentAt     string `json:"sent-at"`
	Successful string `json:"successful"`
	Error      string `json:"error,omitempty"`
}

func (v *notificationView) relations() relations { return v.related }

func newNotificationView(c notifications.Configuration) *notificationView {
	v := &notificationView{
		ID: string(c.ID), Name: c.Name, DestinationType: string(c.Destination), Enabled: c.Enabled, Triggers: c.Triggers, EmailAddresses: list(c.EmailAddresses),
		DeliveryResponses: make([]deliveryResponse, 0, len(c.Responses)), DisabledReason: c.DisabledReason, CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt,
		related: relations{"users": refs("users", c.Users)},
	}
	if c.URL != "" {
		v.URL = &c.URL
	}
	if c.For.Workspace != "" {
		v.related["subscribable"] = ref{"workspaces", string(c.For.Workspace)}
	} else {
		v.related["subscribable"] = ref{"projects", string(c.For.Project)}
	}
	for _, r := range c.Responses {
		v.DeliveryResponses = append(v.DeliveryResponses, deliveryResponse{
			URL: c.URL, Body: r.Body, Code: codeText(r.Code), SentAt: rfc3339(r.SentAt), Successful: strconv.FormatBool(r.OK), Error: r.Error,
		})
	}
	return v
}

// codeText is empty where nothing answered.
func codeText(code int) string {
	if code == 0 {
		return ""
	}
	return strconv.Itoa(code)
}

type notificationAttributes struct {
	Name            Opt[string]   `json:"name"`
	DestinationType Opt[string]   `json:"destination-type"`
	Enabled         Opt[bool]     `json:"enabled"`
	Triggers        Opt[[]string] `json:"triggers"`
	URL             Opt[string]   `json:"url"`
	Token           Opt[string]   `json:"token"`
	EmailAddresses  Opt[[]string] `json:"email-addresses"`
}

func readNotificationInput(r *request) (ch notifications.Changes, err error) {
	body, err := r.body()
	if err != nil {
		return ch, err
	}
	in, err := decode[notificationAttributes](body, "notification-configurations")
	if err != nil {
		return ch, err
	}
	a := in.Attributes
	ch = notifications.Changes{
		Name: a.Name.Pointer(), Destination: (*notifications.Destination)(a.DestinationType.Pointer()), Enabled: a.Enabled.Pointer(), Triggers: a.Triggers.Pointer(), URL: a.URL.Pointer(),
		EmailAddresses: a.EmailAddresses.Pointer(),
	}
	if a.Token.Present { // null takes it away
		token := a.Token.Value
		ch.Token = &token
	}
	ch.Users, err = relatedIDs[ids.User](in, "users", "users")
	return ch, err
}

// subscribable is what the path names.
func subscribable(r *request, project bool) (of notifications.Subscribable, err error) {
	if project {
		of.Project, err = id[ids.Project](r)
	} else {
		of.Workspace, err = id[ids.Workspace](r)
	}
	return of, err
}

// listNotifications gives the page that is asked for; without one it gives all, and no
// count of pages, as Terraform Cloud does here.
func (s *server) listNotifications(project bool) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		of, err := subscribable(r, project)
		if err != nil {
			return answer{}, err
		}
		p, err := parsePaging(r.query)
		if err != nil {
			return answer{}, err
		}
		part := p.page()
		part.Whole = !r.pageAsked()
		found, total, err := s.Notifications.List(r.ctx, r.actor, of, part)
		if err != nil {
			return answer{}, err
		}
		items := make([]*notificationView, 0, len(found))
		for _, c := range found {
			items = append(items, newNotificationView(c))
		}
		drawn := page(items, p, total)
		if part.Whole {
			drawn.document.page = nil
		}
		return drawn, nil
	}
}

func (s *server) createNotification(project bool) func(r *request) (answer, error) {
	return func(r *request) (answer, error) {
		of, err := subscribable(r, project)
		if err != nil {
			return answer{}, err
		}
		ch, err := readNotificationInput(r)
		if err != nil {
			return answer{}, err
		}
		c, err := s.Notifications.Create(r.ctx, r.actor, of, ch)
		if err != nil {
			return answer{}, err
		}
		return created(newNotificationView(c)), nil
	}
}

func (s *server) readNotification(r *request) (answer, error) {
	return s.oneNotification(r, func(which ids.NotificationConfiguration) (notifications.Configuration, error) {
		return s.Notifications.Get(r.ctx, r.actor, which)
	})
}

func (s *server) updateNotification(r *request) (answer, error) {
	return s.oneNotification(r, func(which ids.NotificationConfiguration) (notifications.Configuration, error) {
		ch, err := readNotificationInput(r)
		if err != nil {
			return notifications.Configuration{}, err
		}
		return s.Notifications.Update(r.ctx, r.actor, which, ch)
	})
}

func (s *server) verifyNotification(r *request) (answer, error) {
	return s.oneNotification(r, func(which ids.NotificationConfiguration) (notifications.Configuration, error) {
		return s.Notifications.Verify(r.ctx, r.actor, which)
	})
}

func (s *server) oneNotification(r *request, do func(ids.NotificationConfiguration) (notifications.Configuration, error)) (answer, error) {
	which, err := id[ids.NotificationConfiguration](r)
	if err != nil {
		return answer{}, err
	}
	c, err := do(which)
	if err != nil {
		return answer{}, err
	}
	return ok(newNotificationView(c)), nil
}

func (s *server) deleteNotification(r *request) (answer, error) {
	which, err := id[ids.NotificationConfiguration](r)
	if err != nil {
		return answer{}, err
	}
	return noContent(), s.Notifications.Delete(r.ctx, r.actor, which)
}

// deliveryView is a line of the log of a configuration.
type deliveryView struct {
	ID        string     `jsonapi:"primary,notification-deliveries"`
	Trigger   string     `jsonapi:"attr,trigger"`
	Status    string     `jsonapi:"attr,status"`
	Attempts  int        `jsonapi:"attr,attempts"`
	DueAt     *time.Time `jsonapi:"attr,due-at,iso8601"`
	Code      string     `jsonapi:"attr,code"`
	Body      string     `jsonapi:"attr,body"`
	Error     string     `jsonapi:"attr,error"`
	CreatedAt time.Time  `jsonapi:"attr,created-at,iso8601"`
	EndedAt   *time.Time `jsonapi:"attr,ended-at,iso8601"`
	run       ids.Run
}

func (v *deliveryView) relations() relations { return relations{"run": runRef(v.run)} }

func newDeliveryView(d notifications.Delivery) *deliveryView {
	v := &deliveryView{
		ID: strconv.FormatInt(d.ID, 10), Trigger: string(d.Trigger), Status: d.Status, Attempts: d.Attempts, Code: codeText(d.Code), Body: d.Answer, Error: d.Error,
		CreatedAt: d.CreatedAt, EndedAt: d.EndedAt, run: d.RunID,
	}
	if d.EndedAt == nil {
		v.DueAt = &d.DueAt
	}
	return v
}

func (s *server) listDeliveries(r *request) (answer, error) {
	which, err := id[ids.NotificationConfiguration](r)
	if err != nil {
		return answer{}, err
	}
	p, err := parsePaging(r.query)
	if err != nil {
		return answer{}, err
	}
	found, total, err := s.Notifications.Deliveries(r.ctx, r.actor, which, p.page())
	if err != nil {
		return answer{}, err
	}
	items := make([]*deliveryView, 0, len(found))
	for _, d := range found {
		items = append(items, newDeliveryView(d))
	}
	return page(items, p, total), nil
}
