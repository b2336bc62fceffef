package web

import (
	"context"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/gorilla/mux"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/site"
)

//go:embed *.html
var templates embed.FS

//go:embed holdfast.css
var stylesheet []byte

// pages are never executed themselves, but with the texts of the site (withTexts).
var pages = template.Must(template.New("pages").Funcs(template.FuncMap{"texts": func() texts { return texts{} }}).ParseFS(templates, "*.html"))

// Deps is what the pages call.
type Deps struct {
	Authenticate func(ctx context.Context, token string) (authz.Actor, error)
	Accounts     *accounts.Service
	Runs         *runs.Service
	Site         *site.Service // has what site admins say on the pages; nil says nothing
	// Address is the public address of the server, such as https://localhost:8443.
	Address string
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	Log            *slog.Logger
	// Observe counts an answered request, for the metrics; nil counts nothing.
	Observe func(method, route string, status int, took time.Duration)
}

// host gives host and port of the public address, as people name the server.
func (d Deps) host() string { return strings.TrimPrefix(d.Address, "https://") }

// The addresses of the pages.
const (
	signInPath    = "/sign-in"
	signOutPath   = "/sign-out"
	authorizePath = "/oauth/authorize"
	tokenPath     = "/oauth/token"
	tokensPath    = "/app/settings/tokens"
	securityPath  = "/app/settings/security"
	stylePath     = "/app/holdfast.css"
)

// Serves tells whether an address is one of a page.
func Serves(path string) bool {
	return path == signInPath || path == signOutPath || strings.HasPrefix(path, "/app/") || strings.HasPrefix(path, "/oauth/")
}

// New makes the handler of the addresses that Serves names. A form that a page of
// another site sends is refused, whatever it holds.
func New(deps Deps) http.Handler {
	r := mux.NewRouter()
	r.Use(deps.logged)
	page := func(path string, get, post http.HandlerFunc) {
		if get != nil {
			r.HandleFunc(path, get).Methods(http.MethodGet, http.MethodHead)
		}
		if post != nil {
			r.HandleFunc(path, post).Methods(http.MethodPost)
		}
	}
	page("/app/{organization}/{workspace}/runs/{run}", deps.run, nil)
	page(stylePath, deps.style, nil)
	page(signInPath, deps.showSignIn, deps.signIn)
	page(signOutPath, nil, deps.signedIn(deps.signOut))
	page(authorizePath, deps.authorize, deps.signedIn(deps.consent))
	page(tokenPath, nil, deps.token)
	page(tokensPath, deps.signedIn(deps.showTokens), deps.signedIn(deps.createToken))
	page(tokensPath+"/{token}/revoke", nil, deps.signedIn(deps.revokeToken))
	page(securityPath, deps.signedIn(deps.showSecurity), nil)
	for action, do := range deps.securityForms() {
		page(securityPath+"/"+action, nil, deps.signedIn(deps.securityForm(do)))
	}
	r.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		guard(w)
		http.Error(w, "There is no such page. The address of a run is /app/ORGANIZATION/WORKSPACE/runs/RUN.", http.StatusNotFound)
	})
	r.MethodNotAllowedHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		guard(w)
		http.Error(w, "This address does not know that method.", http.StatusMethodNotAllowed)
	})

	sameOrigin := http.NewCrossOriginProtection()
	if deps.Address != "" {
		// Behind a proxy the Host may be another than the one that browsers see.
		if err := sameOrigin.AddTrustedOrigin(deps.Address); err != nil {
			deps.Log.Error("the public address is no origin, so only the Host of a request is compared", "address", deps.Address, "error", err)
		}
	}
	sameOrigin.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, denied *http.Request) {
		deps.show(denied.Context(), w, http.StatusForbidden, "problem.html", problem{"That form did not come from here", "Another site sent it. Nothing was done."})
	}))
	return sameOrigin.Handler(r)
}

// guard sets what every page carries: no scripts, no frames, no copies. A form leads
// to us, and to the further places named here when we redirect its answer there.
func guard(w http.ResponseWriter, formsMayEndAt ...string) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action "+
		strings.Join(append([]string{"'self'"}, formsMayEndAt...), " "))
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer old browsers would not say where a form came from
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
}

// show sends a page with the headers that it must carry.
func (d Deps) show(ctx context.Context, w http.ResponseWriter, status int, page string, view any, formsMayEndAt ...string) {
	guard(w, formsMayEndAt...)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	drawn, err := d.withTexts(ctx)
	w.WriteHeader(status)
	if err == nil {
		err = drawn.ExecuteTemplate(w, page, view)
	}
	if err != nil {
		d.Log.Error("a page broke off", "page", page, "error", err)
	}
}

// problem is the page that says why there is no other.
type problem struct{ Title, Text string }

// refuse shows what is wrong and what to do about it. Who is no longer signed in signs
// in again and then comes back.
func (d Deps) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p, status := problem{Title: "That did not work"}, http.StatusInternalServerError
	var known *fault.Error
	if errors.As(err, &known) {
		p.Text = known.Message
	}
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		askToSignIn(w, r, pageOf(r))
		return
	case fault.Malformed:
		status = http.StatusBadRequest
	case fault.Invalid:
		status = http.StatusUnprocessableEntity
	case fault.Forbidden:
		status = http.StatusForbidden
	case fault.NotFound:
		status = http.StatusNotFound
	case fault.Conflict:
		status = http.StatusConflict
	case fault.Exhausted:
		status = http.StatusTooManyRequests
	case fault.Unavailable, fault.Unknown:
		status = http.StatusServiceUnavailable
	default:
		d.Log.Error("a page failed", "error", err)
		p.Text = "The server failed. Its log says why."
	}
	d.show(r.Context(), w, status, "problem.html", p)
}

func (d Deps) style(w http.ResponseWriter, _ *http.Request) {
	guard(w)
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(stylesheet) // a browser that left gets nothing
}

// formLimit is more than any of our forms needs.
const formLimit = 64 << 10

// readForm reads the body of a form. A field that stands there twice is refused: two
// readers could take different ones.
func readForm(w http.ResponseWriter, r *http.Request) error {
	r.Body = http.MaxBytesReader(w, r.Body, formLimit)
	if err := r.ParseForm(); err != nil {
		return fault.New(fault.Malformed, "malformed_form", "The form cannot be read.").Because(err)
	}
	return noRepeats(r.PostForm)
}

func noRepeats(fields map[string][]string) error {
	for _, values := range fields {
		if len(values) > 1 {
			return fault.New(fault.Malformed, "malformed_form", "The request names a field twice.")
		}
	}
	return nil
}
