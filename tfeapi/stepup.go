package tfeapi

import (
	"context"
	"net/http"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/ids"
)

// from gives the address that wrong codes are counted under.
func (s *server) from(r *http.Request) string {
	if s.ClientAddress == nil {
		return r.RemoteAddr
	}
	return s.ClientAddress(r)
}

// stepUpView is a step-up that has just happened. Its id is the user's.
type stepUpView struct {
	ID            string    `jsonapi:"primary,step-ups"`
	SteppedUpAt   time.Time `jsonapi:"attr,stepped-up-at,iso8601"`
	ExpiresAt     time.Time `jsonapi:"attr,expires-at,iso8601"`
	MaxAge        int       `jsonapi:"attr,max-age"` // seconds
	Method        string    `jsonapi:"attr,method"`
	RecoveryCodes int       `jsonapi:"attr,recovery-codes-left"`
}

func (*stepUpView) relations() relations { return nil }

// proofInput is what a user proves itself by. The document's type may be left out.
type proofInput struct {
	Password     Opt[string] `json:"password"`
	Code         Opt[string] `json:"code"`
	RecoveryCode Opt[string] `json:"recovery-code"`
}

func (s *server) proof(r *request) (proofInput, error) {
	body, err := r.body()
	if err != nil {
		return proofInput{}, err
	}
	in, err := decodeUntyped[proofInput](body)
	return in.Attributes, err
}

// stepUp stamps the token of the request (G-30).
func (s *server) stepUp(r *request) (answer, error) {
	in, err := s.proof(r)
	if err != nil {
		return answer{}, err
	}
	proof := accounts.Proof{Password: in.Password.Value, Code: in.Code.Value, RecoveryCode: in.RecoveryCode.Value}
	done, err := s.Accounts.StepUp(r.ctx, r.actor, proof, s.from(r.http))
	if err != nil {
		return answer{}, err
	}
	return ok(&stepUpView{
		ID: string(r.actor.User), SteppedUpAt: done.At, ExpiresAt: done.At.Add(done.Window), MaxAge: int(done.Window.Seconds()),
		Method: done.Method, RecoveryCodes: done.RecoveryCodes,
	}), nil
}

// factorView is the state of the caller's second factor. Its id is the user's. Secret and
// recovery codes are there only in the answer to the request that made them.
type factorView struct {
	ID             string     `jsonapi:"primary,totp-factors"`
	Enrolled       bool       `jsonapi:"attr,enrolled"`
	EnrolledAt     *time.Time `jsonapi:"attr,enrolled-at,iso8601"`
	CodesLeft      int        `jsonapi:"attr,recovery-codes-left"`
	HeldUntil      *time.Time `jsonapi:"attr,held-until,iso8601"`
	SteppedUpUntil *time.Time `jsonapi:"attr,stepped-up-until,iso8601"`
	Secret         string     `jsonapi:"attr,secret,omitempty"`
	URI            string     `jsonapi:"attr,otpauth-uri,omitempty"`
	RecoveryCodes  []string   `jsonapi:"attr,recovery-codes,omitempty"`
}

func (*factorView) relations() relations { return nil }

// factorView reads the state as it is now.
func (s *server) factorView(r *request) (*factorView, error) {
	f, err := s.Accounts.Factor(r.ctx, r.actor)
	if err != nil {
		return nil, err
	}
	return &factorView{
		ID: string(r.actor.User), Enrolled: f.EnrolledAt != nil, EnrolledAt: f.EnrolledAt, CodesLeft: f.RecoveryCodes,
		HeldUntil: f.HeldUntil, SteppedUpUntil: f.SteppedUpUntil,
	}, nil
}

func (s *server) readFactor(r *request) (answer, error) {
	view, err := s.factorView(r)
	if err != nil {
		return answer{}, err
	}
	return ok(view), nil
}

func (s *server) beginTOTP(r *request) (answer, error) {
	in, err := s.proof(r)
	if err != nil {
		return answer{}, err
	}
	begun, err := s.Accounts.BeginTOTP(r.ctx, r.actor, in.Password.Value, accounts.SiteOf(s.Address), s.from(r.http))
	if err != nil {
		return answer{}, err
	}
	return created(&factorView{ID: string(r.actor.User), Secret: begun.Secret, URI: begun.URI}), nil
}

func (s *server) confirmTOTP(r *request) (answer, error) {
	in, err := s.proof(r)
	if err != nil {
		return answer{}, err
	}
	codes, err := s.Accounts.ConfirmTOTP(r.ctx, r.actor, in.Code.Value, s.from(r.http))
	if err != nil {
		return answer{}, err
	}
	return s.withRecoveryCodes(r, codes, ok)
}

func (s *server) newRecoveryCodes(r *request) (answer, error) {
	codes, err := s.Accounts.NewRecoveryCodes(r.ctx, r.actor)
	if err != nil {
		return answer{}, err
	}
	return s.withRecoveryCodes(r, codes, func(v view, _ ...view) answer { return created(v) })
}

func (s *server) withRecoveryCodes(r *request, codes []string, say func(view, ...view) answer) (answer, error) {
	view, err := s.factorView(r)
	if err != nil {
		return answer{}, err
	}
	view.RecoveryCodes = codes
	return say(view), nil
}

func (s *server) disableTOTP(r *request) (answer, error) {
	return noContent(), s.Accounts.DisableTOTP(r.ctx, r.actor)
}

// onFactor gives a handler for what a site admin does to another user's factor. go-tfe calls
// the reset Disable2FA.
func (s *server) onFactor(do func(context.Context, authz.Actor, ids.User) (accounts.User, error)) func(*request) (answer, error) {
	return s.onUser(func(ctx context.Context, actor authz.Actor, user ids.User) (accounts.SiteUser, error) {
		if _, err := do(ctx, actor, user); err != nil {
			return accounts.SiteUser{}, err
		}
		return s.Accounts.SiteUser(ctx, actor, user)
	})
}
