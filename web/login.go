package web

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
)

// loginParameters are those of RFC 6749 and 7636 that a client sends with the browser.
var loginParameters = []string{"client_id", "redirect_uri", "response_type", "code_challenge", "code_challenge_method", "scope", "state"}

// loginFields picks the parameters of a login.
func loginFields(from url.Values) url.Values {
	fields := url.Values{}
	for _, name := range loginParameters {
		if from.Has(name) {
			fields.Set(name, from.Get(name))
		}
	}
	return fields
}

// isLogin tells whether a page of ours is the consent to a login.
func isLogin(page string) bool { return strings.HasPrefix(page, authorizePath) }

// loginRequest reads the parameters. What is wrong is shown here and never sent to the
// client: tofu does not understand a refusal, and a wrong address must get nothing.
func loginRequest(fields url.Values) (accounts.LoginRequest, error) {
	if err := noRepeats(fields); err != nil {
		return accounts.LoginRequest{}, err
	}
	r := accounts.LoginRequest{
		Client: fields.Get("client_id"), RedirectURI: fields.Get("redirect_uri"), Challenge: fields.Get("code_challenge"),
	}
	const longestState = 512
	switch {
	case fields.Get("response_type") != "code":
		return r, fault.New(fault.Invalid, "unsupported_response_type", "The login asks for something other than a code. Update the program that wants to log in.")
	case fields.Get("code_challenge_method") != "S256":
		return r, fault.New(fault.Invalid, "invalid_challenge", "The login lacks its proof key (PKCE, S256). Update the program that wants to log in.")
	case fields.Get("scope") != "":
		return r, fault.New(fault.Invalid, "invalid_scope", "The login asks for scopes, and this server has none: a token may do all that its user may do.")
	case len(fields.Get("state")) > longestState:
		return r, fault.New(fault.Invalid, "invalid_state", "The login's state is too long: at most %d bytes.", longestState)
	}
	return r, r.Check()
}

type consentView struct {
	Host, User, Waiting, FormToken string
	SiteAdmin                      bool
	Days                           int
	Fields                         url.Values
}

// authorize asks the user whether a client may have a token. Who is not signed in, or no
// longer, signs in first and comes back with the same request.
func (d Deps) authorize(w http.ResponseWriter, r *http.Request) {
	login, err := loginRequest(r.URL.Query())
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	d.signedIn(func(w http.ResponseWriter, r *http.Request, s session) {
		back, _ := url.Parse(login.RedirectURI) // checked
		d.show(r.Context(), w, http.StatusOK, "consent.html", consentView{
			Host: d.host(), User: s.actor.Name, SiteAdmin: s.actor.SiteAdmin, Waiting: back.Host, FormToken: s.formToken(),
			Days: int(accounts.LoginLifetime.Hours() / 24), Fields: loginFields(r.URL.Query()),
		}, "http://"+back.Host) // the form's answer leads there
	})(w, r)
}

// consent does what the user decided. A code goes to the client on the user's machine.
func (d Deps) consent(w http.ResponseWriter, r *http.Request, s session) {
	fields := loginFields(r.PostForm)
	login, err := loginRequest(fields)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	switch r.PostForm.Get("decision") {
	case "allow":
		code, err := d.Accounts.CreateLoginCode(r.Context(), s.secret, login, d.from(r))
		if err != nil {
			d.refuse(w, r, err)
			return
		}
		guard(w)
		answer := url.Values{"code": {code}, "state": {fields.Get("state")}}
		http.Redirect(w, r, login.RedirectURI+"?"+answer.Encode(), http.StatusSeeOther)
	case "switch":
		if err := d.Accounts.SignOut(r.Context(), s.actor, s.secret); err != nil {
			d.refuse(w, r, err)
			return
		}
		setSession(w, "")
		askToSignIn(w, r, pageOf(r))
	default:
		d.show(r.Context(), w, http.StatusOK, "problem.html", problem{"Nothing was allowed", "The terminal still waits: end it there with Ctrl-C. You can close this page."})
	}
}

// token exchanges a code. It is asked by the client itself, without a browser.
func (d Deps) token(w http.ResponseWriter, r *http.Request) {
	guard(w)
	w.Header().Set("Pragma", "no-cache") // RFC 6749, 5.1
	if err := readForm(w, r); err != nil {
		answerToken(w, http.StatusBadRequest, tokenRefusal{"invalid_request", "The form cannot be read, or names a field twice."})
		return
	}
	if r.PostForm.Get("grant_type") != "authorization_code" {
		answerToken(w, http.StatusBadRequest, tokenRefusal{"unsupported_grant_type", "The grant type must be authorization_code."})
		return
	}
	plain, _, err := d.Accounts.RedeemLoginCode(r.Context(), accounts.LoginExchange{
		Code: r.PostForm.Get("code"), Client: r.PostForm.Get("client_id"), RedirectURI: r.PostForm.Get("redirect_uri"), Verifier: r.PostForm.Get("code_verifier"),
	})
	var known *fault.Error
	switch {
	case err == nil:
		answerToken(w, http.StatusOK, map[string]any{
			"access_token": plain, "token_type": "bearer", "expires_in": int(accounts.LoginLifetime.Seconds()),
		})
	case fault.Is(err, fault.Invalid) && errors.As(err, &known):
		answerToken(w, http.StatusBadRequest, tokenRefusal{known.Code, known.Message})
	default:
		d.Log.Error("the exchange of a login code failed", "error", err)
		answerToken(w, http.StatusServiceUnavailable, tokenRefusal{"temporarily_unavailable", "The server cannot do this now. Run tofu login again in a moment."})
	}
}

// tokenRefusal is RFC 6749's answer to a client whose code is not exchanged.
type tokenRefusal struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func answerToken(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // a client that left gets nothing
}
