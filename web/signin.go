package web

import (
	"errors"
	"net/http"

	"github.com/holdfast-run/holdfast/fault"
)

type signInView struct {
	Host     string
	Next     string // the page to show afterwards
	Login    bool   // it belongs to a tofu login
	Username string
	Problem  string
}

func (d Deps) signInView(next string) signInView {
	next = localPage(next)
	return signInView{Host: d.host(), Next: next, Login: isLogin(next)}
}

func (d Deps) showSignIn(w http.ResponseWriter, r *http.Request) {
	d.show(r.Context(), w, http.StatusOK, "signin.html", d.signInView(r.URL.Query().Get("next")))
}

// signIn starts a new session, whatever the browser had before, and goes on to the page
// that was asked for.
func (d Deps) signIn(w http.ResponseWriter, r *http.Request) {
	if err := readForm(w, r); err != nil {
		d.refuse(w, r, err)
		return
	}
	view := d.signInView(r.PostForm.Get("next"))
	view.Username = r.PostForm.Get("username")
	secret, err := d.Accounts.SignIn(r.Context(), view.Username, r.PostForm.Get("password"), d.from(r))
	status := 0
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		status = http.StatusUnauthorized
	case fault.Exhausted:
		status = http.StatusTooManyRequests
		d.Log.Warn("too many attempts to sign in", "from", d.from(r))
	case fault.Unavailable:
		status = http.StatusServiceUnavailable
	}
	if err == nil {
		guard(w)
		setSession(w, secret)
		http.Redirect(w, r, view.Next, http.StatusSeeOther)
		return
	}
	var known *fault.Error
	if status == 0 || !errors.As(err, &known) {
		d.refuse(w, r, err)
		return
	}
	view.Problem = known.Message
	d.show(r.Context(), w, status, "signin.html", view)
}

func (d Deps) signOut(w http.ResponseWriter, r *http.Request, s session) {
	if err := d.Accounts.SignOut(r.Context(), s.actor, s.secret); err != nil {
		d.refuse(w, r, err)
		return
	}
	guard(w)
	setSession(w, "")
	http.Redirect(w, r, signInPath, http.StatusSeeOther)
}
