package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

type attributes map[string]any

// fakeAPI plays the API for one user. What changes things is in sent.
type fakeAPI struct {
	t           *testing.T
	url         string
	mu          sync.Mutex
	evidence    map[string]attributes // by run
	list        []attributes          // by pages of one
	steppedUp   bool
	refuse      map[string]attributes // by run: the error that a recovery of it gets
	sent        []sent
	stepUps     []attributes
	wrongCodes  int // so many step-ups are refused first
	tokensAsked map[string]bool
}

type sent struct {
	run  string
	body attributes
}

func newFakeAPI(t *testing.T) *fakeAPI {
	f := &fakeAPI{t: t, evidence: map[string]attributes{}, refuse: map[string]attributes{}, tokensAsked: map[string]bool{}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.url = server.URL
	return f
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tokensAsked[r.Header.Get("Authorization")] = true
	var body struct {
		Data struct{ Attributes attributes }
	}
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	path := strings.TrimPrefix(r.URL.Path, "/api/v2/")
	run := strings.Split(path, "/")
	switch {
	case path == "account/details":
		answer(w, 200, resourceOf("users", "user-me", attributes{"username": "ada"}))
	case path == "organizations":
		answer(w, 200, []any{resourceOf("organizations", "acme", attributes{"name": "acme"})})
	case path == "organizations/acme/held-workspaces":
		f.page(w, r)
	case strings.HasSuffix(path, "/recovery") && f.evidence[run[1]] != nil:
		answer(w, 200, resourceOf("run-recoveries", run[1], f.evidence[run[1]]))
	case path == "account/actions/step-up" && r.Method == http.MethodPost:
		f.stepUp(w, body.Data.Attributes)
	case strings.HasSuffix(path, "/actions/recover") && r.Method == http.MethodPost:
		f.recover(w, run[1], body.Data.Attributes)
	default:
		refuseWith(w, 404, attributes{"code": "not_found", "detail": "There is no such thing."})
	}
}

func (f *fakeAPI) page(w http.ResponseWriter, r *http.Request) {
	number := 1
	_ = json.Unmarshal([]byte(r.URL.Query().Get("page[number]")), &number)
	data, next := []any{}, any(nil)
	if number <= len(f.list) {
		data = append(data, resourceOf("held-workspaces", "ws-1", f.list[number-1]))
	}
	if number < len(f.list) {
		next = number + 1
	}
	w.Header().Set("Content-Type", "application/vnd.api+json")
	_ = json.NewEncoder(w).Encode(attributes{"data": data, "meta": attributes{"pagination": attributes{"next-page": next}}})
}

func (f *fakeAPI) stepUp(w http.ResponseWriter, proof attributes) {
	f.stepUps = append(f.stepUps, proof)
	if f.wrongCodes > 0 {
		f.wrongCodes--
		refuseWith(w, 403, attributes{"code": "step_up_failed", "detail": "The password or the code is wrong."})
		return
	}
	f.steppedUp = true
	answer(w, 200, resourceOf("step-ups", "user-me", attributes{"expires-at": "2026-01-02T03:19:05Z"}))
}

func (f *fakeAPI) recover(w http.ResponseWriter, run string, in attributes) {
	if !f.steppedUp {
		refuseWith(w, 403, attributes{"code": "step_up_required", "detail": "Prove once more who you are.", "meta": attributes{"max-age": 900}})
		return
	}
	f.sent = append(f.sent, sent{run, in})
	if refusal := f.refuse[run]; refusal != nil {
		refuseWith(w, 409, refusal)
		return
	}
	done := attributes{"status": "committed", "resolution": in["resolution"], "target-state-version-id": in["current-state-version-id"], "fence-epoch": 5}
	if in["prepare-only"] == true {
		done = attributes{"status": "prepared", "resolution": in["resolution"], "lease-expires-at": "2026-01-02T03:19:05Z"}
	} else {
		f.evidence[run]["required"] = false
	}
	answer(w, 200, resourceOf("recovery-operations", "rcv-1", done))
}

func resourceOf(kind, id string, a attributes) attributes {
	return attributes{"type": kind, "id": id, "attributes": a}
}

func answer(w http.ResponseWriter, status int, data any) {
	w.Header().Set("Content-Type", "application/vnd.api+json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(attributes{"data": data})
}

func refuseWith(w http.ResponseWriter, status int, e attributes) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(attributes{"errors": []any{e}})
}

// ordinary is the evidence of a failed apply of which nothing is in doubt.
func ordinary() attributes {
	state := attributes{"id": "sv-2", "serial": 2, "checksum": "abcd", "resource-count": 3, "finalized-at": "2026-01-02T03:04:05Z"}
	return attributes{
		"organization-name": "acme", "workspace-name": "app", "required": true, "proven": true, "doubt": nil, "durable-status": "apply_failed", "durable-reason": "apply_failed",
		"status-message": "exit status 1", "held-since": "2026-01-02T03:04:05Z", "fence-epoch": 4, "pre-apply-state": nil, "current-state": state, "publications": []any{state},
		"claimed-uploads": []any{}, "unclaimed-uploads": []any{}, "emergency-states": []any{}, "log-tail": "Error: no\n",
		"writer":      attributes{"proven-stopped": true, "how": "done-report", "reported-at": "2026-01-02T03:04:05Z"},
		"resolutions": []any{attributes{"resolution": "current_state_verified", "possible": true}, attributes{"resolution": "import_emergency_state", "possible": false, "code": "predecessor_moved", "detail": "It published."}},
	}
}

func heldAs(run string, proven bool) attributes {
	a := attributes{"name": "app", "organization-name": "acme", "run-id": run, "held-since": "2026-01-02T03:04:05Z", "durable-status": "apply_failed", "durable-reason": "apply_failed",
		"waiting-runs": 2, "proven": proven, "permissions": attributes{"can-recover": true}}
	if !proven {
		a["doubt"] = attributes{"code": "emergency_state", "detail": "There is an emergency state."}
	}
	return a
}

// typed gives what a person types, line by line.
type typed struct {
	lines       []string
	asked       []string
	interactive bool
}

func (p *typed) Read(question string) (string, error) {
	p.asked = append(p.asked, question)
	if len(p.lines) == 0 {
		return "", errors.New("nothing more is typed")
	}
	line := p.lines[0]
	p.lines = p.lines[1:]
	return line, nil
}

func (p *typed) Interactive() bool { return p.interactive }

// ran is what a command did.
type ran struct {
	out, notes string
	err        error
}

// admin runs `holdfast admin recover` with the arguments, against the fake.
func (f *fakeAPI) admin(person *typed, args ...string) (r ran) {
	f.t.Helper()
	var commands Commands
	parser, err := kong.New(&commands, kong.BindTo(f.t.Context(), (*context.Context)(nil)))
	require.NoError(f.t, err)
	command, err := parser.Parse(args)
	if err != nil {
		return ran{err: err}
	}
	address, err := url.Parse(f.url)
	require.NoError(f.t, err)
	api, err := newClient(address, "secret-token", "")
	require.NoError(f.t, err)
	var out, notes bytes.Buffer
	t := &tool{client: api, out: &out, notes: &notes, secrets: person, json: commands.JSON, passwordFile: commands.PasswordFile}
	commands.made = t
	err = command.Run()
	return ran{out.String(), notes.String(), err}
}
