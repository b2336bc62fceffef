package runtasks

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/postgres"
)

// SignatureHeader holds the hex HMAC-SHA512 of a request's body under the task's key.
const SignatureHeader = "X-TFC-Task-Signature"

// Request is what a task is asked.
type Request struct {
	Test bool `db:"-"` // of a task's address, without a run

	ID                     ids.TaskResult
	Stage                  Stage
	Enforcement            Enforcement
	RunID                  ids.Run
	RunMessage             string
	RunCreatedAt           time.Time
	RunCreatedBy           string // a user's name
	PlanOnly               bool
	PlanID                 ids.Plan
	ConfigurationVersionID ids.ConfigurationVersion
	WorkingDirectory       string
	WorkspaceID            ids.Workspace
	WorkspaceName          string
	OrganizationName       string
	HasPlan                bool // there is a plan to be read
}

// test asks a task's address whether it answers.
func (s *Service) test(ctx context.Context, t Task) error {
	err := s.post(ctx, t, Request{Test: true})
	if err == nil {
		return nil
	}
	return fault.New(fault.Invalid, "verification_failed", "The service of the run task did not take a test request: %s", outbound.Why(err)).At("/data/attributes/url")
}

// post sends a request. Any answer but one of success is an error.
func (s *Service) post(ctx context.Context, t Task, r Request) error {
	body, err := s.settings.Document(r)
	if err != nil {
		return err
	}
	header := map[string]string{"Content-Type": "application/json"}
	if t.HMACKey != "" {
		header[SignatureHeader] = outbound.Sign(t.HMACKey, body)
	}
	answer, err := s.client.Do(ctx, outbound.Request{Method: "POST", URL: t.URL, Header: header, Body: body})
	if err != nil {
		return err
	}
	if !answer.OK() {
		return fault.New(fault.Invalid, "task_refused", "It answered with status %s.", strconv.Itoa(answer.Status))
	}
	return nil
}

// claim is a request that is this server's to send, until the lease ends.
type claim struct {
	ID       ids.TaskResult
	TaskID   ids.RunTask
	Attempts int // with the one that begins
}

func (s *Service) claims(ctx context.Context, most int) (list []claim, err error) {
	err = postgres.InTx(ctx, s.db, "runtasks.claim", func(tx postgres.Tx) error {
		list, err = postgres.All[claim](ctx, tx, Queries.Get("Claim"), postgres.Args{"limit": most, "lease_seconds": s.settings.Lease.Seconds()})
		return err
	})
	return list, err
}

// Reporter writes down what became of a request, and lets the run go on or end by it.
type Reporter func(ctx context.Context, result ids.TaskResult, r Report) error

// Send sends the requests that are due, one after the other, and tells how many there were. The servers' own loop is Run.
func (s *Service) Send(ctx context.Context, report Reporter) (sent int, err error) {
	for {
		list, err := s.claims(ctx, 1)
		if err != nil || len(list) == 0 {
			return sent, err
		}
		if err := s.send(ctx, list[0], report); err != nil {
			return sent, err
		}
		sent++
	}
}

func (s *Service) send(ctx context.Context, c claim, report Reporter) error {
	var t Task
	var r Request
	err := postgres.InSnapshot(ctx, s.db, "runtasks.request", func(tx postgres.Tx) (err error) {
		if r, err = postgres.One[Request](ctx, tx, Queries.Get("Request"), postgres.Args{"id": c.ID}); err != nil {
			return err
		}
		t, err = s.load(ctx, tx, c.TaskID)
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return notEnded(report(ctx, c.ID, Report{Status: Errored, Message: "The run task was deleted before it was asked."}))
	}
	if err != nil {
		return err
	}
	err = s.post(ctx, t, r)
	switch {
	case err == nil:
		return notEnded(report(ctx, c.ID, Report{Status: Running, Message: "The service has taken the request.", Accepted: true}))
	case c.Attempts <= len(s.settings.Pauses):
		return s.retry(ctx, c)
	default:
		return notEnded(report(ctx, c.ID, Report{Status: Errored, Message: "The service of the run task could not be asked: " + outbound.Why(err)}))
	}
}

// notEnded forgives that the service was faster than we: its answer is in already.
func notEnded(err error) error {
	if fault.HasCode(err, "task_result_ended") {
		return nil
	}
	return err
}

func (s *Service) retry(ctx context.Context, c claim) error {
	return postgres.InTx(ctx, s.db, "runtasks.retry", func(tx postgres.Tx) error {
		_, err := postgres.Exec(ctx, tx, Queries.Get("Retry"), postgres.Args{"id": c.ID, "attempts": c.Attempts, "pause_seconds": s.settings.Pauses[c.Attempts-1].Seconds()})
		return err
	})
}

// Run sends what is due until ctx ends: when it is woken, and every interval. Each server runs it.
func (s *Service) Run(ctx context.Context, wake *postgres.Listener, interval time.Duration, report Reporter) {
	woken, cancel := wake.Wait(Channel, "")
	defer cancel()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	const atATime = 16
	busy, done := 0, make(chan struct{}, atATime)
	for ctx.Err() == nil {
		list, err := s.claims(ctx, atATime-busy)
		if err != nil && ctx.Err() == nil {
			slog.Error("the run tasks that are to be asked could not be read; it is tried again", "error", err)
		}
		for _, c := range list {
			busy++
			go func() {
				if err := s.send(context.WithoutCancel(ctx), c, report); err != nil {
					slog.Error("a run task could not be asked, or its answer not be written down; it is asked again", "result", c.ID, "error", err)
				}
				done <- struct{}{}
			}()
		}
		select {
		case <-ctx.Done():
		case <-woken:
		case <-ticker.C:
		case <-done:
			busy--
		}
	}
	for ; busy > 0; busy-- {
		<-done
	}
}
