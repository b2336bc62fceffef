package notifications

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/postgres"
)

const (
	longestAnswer = 1024 // bytes of an answer's body that the log keeps
	mostResponses = 10   // that are shown with a configuration
	forgetBatch   = 1000
)

// Response is what a receiver answered, as far as it is kept.
type Response struct {
	Code   int    // HTTP status; 0 when there was no answer, or none is given, as by mail
	Body   string // the first KiB
	Error  string // why there was no answer
	OK     bool
	SentAt time.Time
}

// Delivery is one line of a configuration's log.
type Delivery struct {
	ID        int64
	RunID     ids.Run // empty for a verification
	Trigger   Trigger
	Status    string    // pending, delivered, failed (given up) or dropped (not sent any more)
	Attempts  int       // calls so far
	DueAt     time.Time // of a pending one: when it is sent, or sent again
	Code      int       // of the last call, as in Response
	Answer    string
	Error     string
	CreatedAt time.Time
	EndedAt   *time.Time
}

// Deliveries is the log of a configuration, the newest first, for whoever may administer it.
func (s *Service) Deliveries(ctx context.Context, actor authz.Actor, id ids.NotificationConfiguration, page accounts.Page) (list []Delivery, total int, err error) {
	err = postgres.InSnapshot(ctx, s.db, "notifications.deliveries", func(tx postgres.Tx) error {
		if _, err := s.loadAllowed(ctx, tx, actor, id); err != nil {
			return err
		}
		args := postgres.Args{"id": id, "limit": page.Limit(), "offset": page.Offset()}
		if total, err = postgres.Value[int](ctx, tx, Queries.Get("DeliveriesCount"), args); err != nil {
			return err
		}
		list, err = postgres.All[Delivery](ctx, tx, Queries.Get("Deliveries"), args)
		return err
	})
	return list, total, err
}

// withResponses puts the newest answers into the configurations of a list.
func withResponses(ctx context.Context, tx postgres.Tx, list []Configuration) error {
	wanted := make([]ids.NotificationConfiguration, len(list))
	for i, c := range list {
		wanted[i] = c.ID
	}
	rows, err := postgres.All[struct {
		ConfigurationID ids.NotificationConfiguration
		Code            int
		Answer          string
		Error           string
		Status          string
		EndedAt         time.Time
	}](ctx, tx, Queries.Get("Responses"), postgres.Args{"ids": wanted, "most": mostResponses})
	if err != nil {
		return err
	}
	for i := range list {
		for _, r := range rows {
			if r.ConfigurationID == list[i].ID {
				list[i].Responses = append(list[i].Responses, Response{Code: r.Code, Body: r.Answer, Error: r.Error, OK: r.Status == "delivered", SentAt: r.EndedAt})
			}
		}
	}
	return nil
}

// Verify sends a message that asks for nothing but an answer, enabled or not, and gives the configuration with
// it. Invalid "verification_failed" when the answer is not one of success.
func (s *Service) Verify(ctx context.Context, actor authz.Actor, id ids.NotificationConfiguration) (Configuration, error) {
	c, err := s.Get(ctx, actor, id)
	if err != nil {
		return Configuration{}, err
	}
	said, failed := s.verify(ctx, c)
	err = postgres.InTx(ctx, s.db, "notifications.verified", func(tx postgres.Tx) error {
		if c, err = s.loadAllowed(ctx, tx, actor, id); err != nil {
			return err
		}
		if err := keepVerification(ctx, tx, c, said); err != nil {
			return err
		}
		c, err = s.load(ctx, tx, id)
		return err
	})
	if err == nil {
		err = failed
	}
	return c, err
}

// verifyEnabled verifies where it is asked to. said is nil where it is not.
func (s *Service) verifyEnabled(ctx context.Context, c Configuration, asked bool) (said *Response, err error) {
	if !asked {
		return nil, nil
	}
	response, err := s.verify(ctx, c)
	return &response, err
}

func (s *Service) verify(ctx context.Context, c Configuration) (Response, error) {
	e := Event{Configuration: c.ID, ConfigurationName: c.Name, Trigger: Verification}
	var recipients []string
	err := postgres.InSnapshot(ctx, s.db, "notifications.recipients", func(tx postgres.Tx) (err error) {
		recipients, err = s.recipients(ctx, tx, c)
		return err
	})
	if err != nil {
		return Response{}, err
	}
	said := s.send(ctx, c, e, recipients)
	if said.OK {
		return said, nil
	}
	why := said.Error
	if why == "" {
		why = "It answered with status " + statusText(said.Code) + "."
	}
	return said, fault.New(fault.Invalid, "verification_failed", "The receiver did not take the verification: %s A configuration is enabled when its receiver answers with a status from 200 to 299.", why).At("/data/attributes/url")
}

func keepVerification(ctx context.Context, tx postgres.Tx, c Configuration, said Response) error {
	_, err := postgres.Exec(ctx, tx, Queries.Get("Verified"), postgres.Args{
		"organization_id": c.Organization, "configuration_id": c.ID, "status": ended(said), "code": said.Code, "answer": said.Body, "error": said.Error,
	})
	return err
}

func ended(said Response) string {
	if said.OK {
		return "delivered"
	}
	return "failed"
}

// claim is a delivery that is this server's to send, until the lease ends.
type claim struct {
	ID              int64
	OrganizationID  ids.Organization
	ConfigurationID ids.NotificationConfiguration
	Attempts        int // with the one that begins
}

// claims takes up to most deliveries that are due.
func (s *Service) claims(ctx context.Context, most int) (list []claim, err error) {
	err = postgres.InTx(ctx, s.db, "notifications.claim", func(tx postgres.Tx) error {
		list, err = postgres.All[claim](ctx, tx, Queries.Get("Claim"), postgres.Args{"limit": most, "lease_seconds": s.settings.Lease.Seconds()})
		return err
	})
	return list, err
}

// Deliver sends what is due, once, one after the other, and tells how many there were. The
// servers' own loop is Run.
func (s *Service) Deliver(ctx context.Context) (sent int, err error) {
	for {
		list, err := s.claims(ctx, 1)
		if err != nil || len(list) == 0 {
			return sent, err
		}
		if err := s.deliver(ctx, list[0]); err != nil {
			return sent, err
		}
		sent++
	}
}

// deliver sends a claimed delivery and writes down what came of it. Without that, for instance
// because the server dies in between, it is sent once more when the lease has ended.
func (s *Service) deliver(ctx context.Context, cl claim) error {
	var c Configuration
	var e Event
	var recipients []string
	atOnce := false
	err := postgres.InSnapshot(ctx, s.db, "notifications.event", func(tx postgres.Tx) (err error) {
		if c, err = s.load(ctx, tx, cl.ConfigurationID); err != nil {
			return err
		}
		if recipients, err = s.recipients(ctx, tx, c); err != nil {
			return err
		}
		e, atOnce, err = s.event(ctx, tx, c, cl.ID)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil // the configuration was deleted, and the delivery with it
	}
	if err != nil {
		return err
	}
	switch {
	case !c.Enabled:
		return s.drop(ctx, cl, "The configuration was disabled.")
	case atOnce:
		return s.drop(ctx, cl, "The run was approved by itself, so nobody was needed.")
	}
	return s.settle(ctx, cl, c, s.send(ctx, c, e, recipients))
}

func (s *Service) drop(ctx context.Context, cl claim, why string) error {
	return postgres.InTx(ctx, s.db, "notifications.drop", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("End"), postgres.Args{"id": cl.ID, "attempts": cl.Attempts, "status": "dropped", "code": 0, "answer": "", "error": why})
		return err
	})
}

// settle writes down the answer: delivered, to be sent again, or given up. A server whose lease has
// ended changes nothing any more.
func (s *Service) settle(ctx context.Context, cl claim, c Configuration, said Response) error {
	return postgres.InTx(ctx, s.db, "notifications.settle", func(tx postgres.Tx) error {
		args := postgres.Args{"id": cl.ID, "attempts": cl.Attempts, "status": ended(said), "code": said.Code, "answer": said.Body, "error": said.Error}
		if !said.OK && cl.Attempts <= len(s.settings.Pauses) {
			args["pause_seconds"] = s.settings.Pauses[cl.Attempts-1].Seconds()
			_, err := postgres.Exec(ctx, tx, Queries.Get("Retry"), args)
			return err
		}
		n, err := postgres.Exec(ctx, tx, Queries.Get("End"), args)
		if err != nil || n == 0 {
			return err
		}
		if said.OK {
			_, err := postgres.Exec(ctx, tx, Queries.Get("Answered"), postgres.Args{"id": c.ID})
			return err
		}
		return s.gaveUp(ctx, tx, c)
	})
}

// gaveUp disables a configuration whose deliveries are given up one after the other.
func (s *Service) gaveUp(ctx context.Context, tx postgres.Tx, c Configuration) error {
	inARow, err := postgres.Value[int](ctx, tx, Queries.Get("GaveUp"), postgres.Args{"id": c.ID})
	if err != nil || inARow < s.settings.MostGivenUp {
		return err
	}
	const why = "The receiver has not answered with success for too long, so the server has disabled the configuration. Enable it again when the receiver works."
	n, err := postgres.Exec(ctx, tx, Queries.Get("Disable"), postgres.Args{"id": c.ID, "reason": why})
	if err != nil || n == 0 {
		return err
	}
	if _, err := postgres.Exec(ctx, tx, Queries.Get("Drop"), postgres.Args{"id": c.ID, "error": why}); err != nil {
		return err
	}
	return audit.Append(ctx, tx, audit.Entry{
		Organization: c.Organization, Actor: authz.System(), Action: "notification-configuration.disabled", ObjectKind: "notification-configuration", ObjectID: string(c.ID), Reason: why,
	})
}

// recipients are the addresses that an email goes to.
func (s *Service) recipients(ctx context.Context, tx postgres.Tx, c Configuration) ([]string, error) {
	if c.Destination != Email {
		return nil, nil
	}
	users, err := postgres.Values[string](ctx, tx, Queries.Get("Recipients"), postgres.Args{"organization_id": c.Organization, "users": c.Users})
	return append(users, c.EmailAddresses...), err
}

// event reads what a delivery tells. atOnce is true for a wait for approval that was over with
// the transaction that began it.
func (s *Service) event(ctx context.Context, tx postgres.Tx, c Configuration, delivery int64) (e Event, atOnce bool, err error) {
	r, err := postgres.One[struct {
		Trigger          Trigger
		RunID            ids.Run
		RunMessage       string
		RunCreatedAt     time.Time
		RunCreatedBy     string
		WorkspaceID      ids.Workspace
		WorkspaceName    string
		OrganizationName string
		FromStatus       string
		ToStatus         string
		At               time.Time
		By               string
		AutoApply        bool
		SavePlan         bool
		PlanOnly         bool
		HasChanges       bool
		PlanFinished     bool
		DecidedAtOnce    bool
	}](ctx, tx, Queries.Get("Event"), postgres.Args{"id": delivery})
	if postgres.NoRow(err) {
		return e, false, fault.Missing("notification delivery", "")
	}
	e = Event{
		Configuration: c.ID, ConfigurationName: c.Name, Trigger: r.Trigger, WorkspaceName: r.WorkspaceName, OrganizationName: r.OrganizationName,
		RunID: r.RunID, RunMessage: r.RunMessage, RunCreatedAt: r.RunCreatedAt, RunCreatedBy: r.RunCreatedBy, WorkspaceID: r.WorkspaceID,
		FromStatus: r.FromStatus, ToStatus: r.ToStatus, At: r.At, By: r.By, AutoApply: r.AutoApply, SavePlan: r.SavePlan, PlanOnly: r.PlanOnly, HasChanges: r.HasChanges, PlanFinished: r.PlanFinished,
		URL: strings.Join([]string{s.settings.Address, "app", r.OrganizationName, r.WorkspaceName, "runs", string(r.RunID)}, "/"),
	}
	return e, r.Trigger == NeedsAttention && r.DecidedAtOnce, err
}

// Run sends what is due until ctx ends: when it is woken, and every interval. Each server runs it.
func (s *Service) Run(ctx context.Context, wake *postgres.Listener, interval time.Duration) {
	woken, cancel := wake.Wait(Channel, "")
	defer cancel()
	ticker, forget := time.NewTicker(interval), time.NewTicker(time.Hour)
	defer ticker.Stop()
	defer forget.Stop()
	const atATime = 16
	busy, done := 0, make(chan struct{}, atATime)
	for ctx.Err() == nil {
		list, err := s.claims(ctx, atATime-busy)
		if err != nil && ctx.Err() == nil {
			slog.Error("the notifications that are due could not be read; it is tried again", "error", err)
		}
		for _, cl := range list {
			busy++
			go func() {
				// What is being sent is sent and written down, also while the server stops.
				if err := s.deliver(context.WithoutCancel(ctx), cl); err != nil {
					slog.Error("a notification could not be sent or written down; it is sent again", "configuration", cl.ConfigurationID, "error", err)
				}
				done <- struct{}{}
			}()
		}
		select {
		case <-ctx.Done():
		case <-woken:
		case <-ticker.C:
		case <-done: // the next one of that run may be due now
			busy--
		case <-forget.C:
			if err := s.Forget(ctx); err != nil && !errors.Is(err, context.Canceled) {
				slog.Error("old notifications could not be removed; it is tried again", "error", err)
			}
		}
	}
	for ; busy > 0; busy-- {
		<-done
	}
}

// Forget removes from the log what has ended long enough ago.
func (s *Service) Forget(ctx context.Context) error {
	return postgres.InTx(ctx, s.db, "notifications.forget", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("Forget"), postgres.Args{"keep_seconds": s.settings.Keep.Seconds(), "limit": forgetBatch})
		return err
	})
}
