package web

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
)

type securityView struct {
	Host, User, FormToken string
	Factor                accounts.Factor
	Begun                 *accounts.Enrolment // a secret just made, shown this once
	RecoveryCodes         []string            // just made, shown this once
	Problem, Done         string
	Wait                  bool // for a code: the enrolment is begun, perhaps on a page before
}

func (d Deps) showSecurity(w http.ResponseWriter, r *http.Request, s session) {
	d.showSecurityWith(w, r, s, http.StatusOK, securityView{})
}

func (d Deps) showSecurityWith(w http.ResponseWriter, r *http.Request, s session, status int, view securityView) {
	var err error
	if view.Factor, err = d.Accounts.Factor(r.Context(), s.actor); err != nil {
		d.refuse(w, r, err)
		return
	}
	view.Host, view.User, view.FormToken = d.host(), s.actor.Name, s.formToken()
	d.show(r.Context(), w, status, "security.html", view)
}

// securityAct does what a form of the page asks for, and gives what the page then shows.
type securityAct func(ctx context.Context, s session, form func(name string) string, from string) (securityView, error)

// securityForms are the forms of the page, by the last part of their addresses.
func (d Deps) securityForms() map[string]securityAct {
	return map[string]securityAct{
		"begin": func(ctx context.Context, s session, form func(string) string, from string) (securityView, error) {
			begun, err := d.Accounts.BeginTOTP(ctx, s.actor, form("password"), d.host(), from)
			if err != nil {
				return securityView{}, err
			}
			return securityView{Begun: &begun, Wait: true}, nil
		},
		"confirm": func(ctx context.Context, s session, form func(string) string, from string) (securityView, error) {
			codes, err := d.Accounts.ConfirmTOTP(ctx, s.actor, form("code"), from)
			return securityView{RecoveryCodes: codes, Done: "Your second factor is enrolled.", Wait: err != nil}, err
		},
		"step-up": func(ctx context.Context, s session, form func(string) string, from string) (securityView, error) {
			proof := accounts.Proof{Password: form("password"), Code: form("code")}
			if isRecoveryCode(proof.Code) {
				proof.Code, proof.RecoveryCode = "", proof.Code
			}
			_, err := d.Accounts.StepUp(ctx, s.actor, proof, from)
			return securityView{Done: "You have proved who you are."}, err
		},
		"recovery-codes": func(ctx context.Context, s session, _ func(string) string, _ string) (securityView, error) {
			codes, err := d.Accounts.NewRecoveryCodes(ctx, s.actor)
			return securityView{RecoveryCodes: codes, Done: "The recovery codes you had count no more."}, err
		},
		"disable": func(ctx context.Context, s session, _ func(string) string, _ string) (securityView, error) {
			return securityView{Done: "Your second factor is gone."}, d.Accounts.DisableTOTP(ctx, s.actor)
		},
	}
}

// isRecoveryCode tells what was typed where either code may stand: the device's has
// digits only.
func isRecoveryCode(code string) bool { return strings.Trim(code, "0123456789 ") != "" }

// securityForm answers with the page itself and no redirect: what was made is shown once
// and kept nowhere.
func (d Deps) securityForm(act securityAct) func(http.ResponseWriter, *http.Request, session) {
	return func(w http.ResponseWriter, r *http.Request, s session) {
		view, err := act(r.Context(), s, r.PostForm.Get, d.from(r))
		if err == nil {
			d.showSecurityWith(w, r, s, http.StatusOK, view)
			return
		}
		status := map[fault.Kind]int{
			fault.Forbidden: http.StatusForbidden, fault.Invalid: http.StatusUnprocessableEntity,
			fault.Conflict: http.StatusConflict, fault.Exhausted: http.StatusTooManyRequests,
		}[fault.KindOf(err)]
		var known *fault.Error
		if status == 0 || !errors.As(err, &known) {
			d.refuse(w, r, err)
			return
		}
		view.Problem, view.Done = known.Message, ""
		if known.Code == "step_up_required" {
			view.Problem = "Prove once more who you are, with the form below. Then repeat what you did."
		}
		d.showSecurityWith(w, r, s, status, view)
	}
}
