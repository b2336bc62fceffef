package web

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/ids"
)

// tokenDays are the lifetimes offered for a new token.
var tokenDays = []int{30, 90, 365, 730}

type tokensView struct {
	Host, User, FormToken string
	ForLogin              bool // tofu login sent the user here to fetch a token
	Days                  []int
	Tokens                []accounts.Token
	New                   string // a token just made, shown this once
	Problem, Description  string
}

func (d Deps) showTokens(w http.ResponseWriter, r *http.Request, s session) {
	d.showTokensWith(w, r, s, http.StatusOK, tokensView{ForLogin: r.URL.Query().Get("source") == "terraform-login"})
}

func (d Deps) showTokensWith(w http.ResponseWriter, r *http.Request, s session, status int, view tokensView) {
	tokens, err := d.Accounts.UserTokens(r.Context(), s.actor, s.actor.User)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	view.Host, view.User, view.FormToken, view.Days, view.Tokens = d.host(), s.actor.Name, s.formToken(), tokenDays, tokens
	d.show(r.Context(), w, status, "tokens.html", view)
}

// createToken answers with the page itself and no redirect: the token is shown once and
// kept nowhere.
func (d Deps) createToken(w http.ResponseWriter, r *http.Request, s session) {
	view := tokensView{Description: r.PostForm.Get("description"), ForLogin: r.PostForm.Get("source") == "terraform-login"}
	days, err := strconv.Atoi(r.PostForm.Get("days"))
	if err != nil || !slices.Contains(tokenDays, days) || view.Description == "" {
		view.Problem = "A token needs a description and a lifetime from the list."
		d.showTokensWith(w, r, s, http.StatusUnprocessableEntity, view)
		return
	}
	plain, _, err := d.Accounts.CreateUserToken(r.Context(), s.actor, s.actor.User, view.Description, time.Duration(days)*24*time.Hour)
	if err != nil {
		d.refuse(w, r, err)
		return
	}
	view.New, view.Description = plain, ""
	d.showTokensWith(w, r, s, http.StatusOK, view)
}

// revokeToken revokes one of the user's own tokens, also for a site admin. One that is
// gone already is as the user wants it.
func (d Deps) revokeToken(w http.ResponseWriter, r *http.Request, s session) {
	id, err := ids.Parse[ids.Token](mux.Vars(r)["token"])
	if err == nil {
		own := s.actor
		own.SiteAdmin = false
		err = d.Accounts.RevokeUserToken(r.Context(), own, id)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		d.refuse(w, r, err)
		return
	}
	guard(w)
	http.Redirect(w, r, tokensPath, http.StatusSeeOther)
}
