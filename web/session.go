package web

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
)

// sessionCookie holds the secret of a session. Its prefix makes browsers refuse it from
// another host, without TLS or for a part of the site.
const sessionCookie = "__Host-holdfast-session"

// session is who looks at a page.
type session struct {
	secret string
	actor  authz.Actor
}

// session gives who is signed in in this browser. Nobody, or a session that is over, is
// Unauthenticated.
func (d Deps) session(r *http.Request) (session, error) {
	cookie, err := r.Cookie(sessionCookie)
	if err != nil {
		return session{}, fault.New(fault.Unauthenticated, "session_over", "You are signed out. Sign in to go on.")
	}
	actor, err := d.Accounts.AuthenticateSession(r.Context(), cookie.Value)
	return session{cookie.Value, actor}, err
}

func setSession(w http.ResponseWriter, secret string) {
	cookie := &http.Cookie{Name: sessionCookie, Value: secret, Path: "/", Secure: true, HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if secret == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

// formToken is what every form of a session holds. Only pages of ours can know it, for
// it is made from the cookie's secret, which it does not give away.
func (s session) formToken() string {
	mac := hmac.New(sha256.New, []byte(s.secret))
	mac.Write([]byte("form"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signedIn lets through only who is signed in, and of forms only those that a page of
// the same session held. Everybody else signs in first and then comes back; from a
// form they come back to the page that asks for it.
func (d Deps) signedIn(handle func(http.ResponseWriter, *http.Request, session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if err := readForm(w, r); err != nil {
				d.refuse(w, r, err)
				return
			}
		}
		s, err := d.session(r)
		switch {
		case fault.Is(err, fault.Unauthenticated):
			askToSignIn(w, r, pageOf(r))
		case err != nil:
			d.refuse(w, r, err)
		case r.Method == http.MethodPost && !hmac.Equal([]byte(r.PostForm.Get("form_token")), []byte(s.formToken())):
			d.show(r.Context(), w, http.StatusForbidden, "problem.html",
				problem{"That form is too old", "It was made for another session. Go back, load the page again and repeat what you did."})
		default:
			handle(w, r, s)
		}
	}
}

// pageOf gives the page that a request is about: itself, or the one whose form it sends.
func pageOf(r *http.Request) string {
	switch {
	case r.Method != http.MethodPost:
		return r.URL.RequestURI()
	case r.URL.Path == authorizePath:
		return authorizePath + "?" + loginFields(r.PostForm).Encode()
	case strings.HasPrefix(r.URL.Path, securityPath):
		return securityPath
	default:
		return tokensPath
	}
}

func askToSignIn(w http.ResponseWriter, r *http.Request, next string) {
	guard(w)
	http.Redirect(w, r, signInFor(next), http.StatusSeeOther)
}

// signInFor gives the address of the sign-in that leads to the page afterwards.
func signInFor(next string) string { return signInPath + "?" + url.Values{"next": {next}}.Encode() }

// localPage gives the page of ours that next names, or else that of the tokens. It is
// written anew from its parts, so that no text which a browser reads as the address of
// another site can pass.
func localPage(next string) string {
	const longest = 4 << 10
	u, err := url.Parse(next)
	if err != nil || len(next) > longest || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" {
		return tokensPath
	}
	if strings.Contains(u.Path, "//") || strings.ContainsAny(u.Path, "\\\r\n\t") || strings.Contains(u.Path, "..") {
		return tokensPath
	}
	if u.Path != authorizePath && !strings.HasPrefix(u.Path, "/app/") {
		return tokensPath
	}
	return (&url.URL{Path: u.Path, RawQuery: u.Query().Encode()}).String()
}

// from gives the address a request comes from.
func (d Deps) from(r *http.Request) string { return ClientAddress(d.TrustedProxies, r) }

// ClientAddress gives the address a request comes from. What a proxy says of it counts
// when the proxy is trusted: then it is the last address that is not itself such a proxy.
// Of an IPv6 address it is the network, because a single machine has as many as it likes.
func ClientAddress(trusted []netip.Prefix, r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	address := peer.Addr().Unmap()
	told := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(told) - 1; i >= 0 && within(trusted, address); i-- {
		before, err := netip.ParseAddr(strings.TrimSpace(told[i]))
		if err != nil {
			break
		}
		address = before.Unmap()
	}
	if address.Is6() {
		if network, err := address.WithZone("").Prefix(64); err == nil {
			return network.String()
		}
	}
	return address.String()
}

func within(networks []netip.Prefix, address netip.Addr) bool {
	for _, network := range networks {
		if network.Contains(address) {
			return true
		}
	}
	return false
}
