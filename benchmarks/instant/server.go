package instant

import (
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
)

const (
	jsonAPI  = "application/vnd.api+json"
	jsonType = "application/json"
)

// Server listens on a free port of 127.0.0.1 with a certificate of its own.
type Server struct {
	http    *httptest.Server
	version string
}

// Start serves workspaces whose runs use that version of tofu. It must be the client's own,
// or the client refuses to work with the workspace. Close ends it.
func Start(version string) *Server {
	s := &Server{version: version}
	s.http = httptest.NewUnstartedServer(s.routes())
	s.http.EnableHTTP2 = true
	s.http.StartTLS()
	return s
}

// Close waits for requests under way and stops listening.
func (s *Server) Close() { s.http.Close() }

// Host is what a cloud block names, port included.
func (s *Server) Host() string { return s.http.Listener.Addr().String() }

// CertificatePEM is what a client must trust.
func (s *Server) CertificatePEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

func (s *Server) url(path string) string { return s.http.URL + path }

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	say := func(pattern, contentType string, body func(*http.Request) string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the client gives its upload up when it is not read
			w.Header().Set("Content-Type", contentType)
			_, _ = io.WriteString(w, body(r)) // a client that has gone needs no answer
		})
	}
	document := func(pattern string, body func(*http.Request) string) { say(pattern, jsonAPI, body) }
	always := func(text string) func(*http.Request) string { return func(*http.Request) string { return text } }

	say("GET /.well-known/terraform.json", jsonType, always(`{"tfe.v2":"/api/v2/","tfe.v2.1":"/api/v2/"}`))
	mux.HandleFunc("GET /api/v2/ping", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("TFP-API-Version", "2.6")
		w.Header().Set("X-TFE-Version", "v202502-1")
		w.WriteHeader(http.StatusNoContent)
	})
	document("GET /api/v2/organizations/{org}/entitlement-set", always(
		`{"data":{"id":"demo","type":"entitlement-sets","attributes":{"operations":true,"state-storage":true}}}`))
	document("GET /api/v2/organizations/{org}/workspaces/{name}", func(*http.Request) string {
		return `{"data":` + s.workspace() + `}`
	})
	document("POST /api/v2/workspaces/{id}/configuration-versions", func(*http.Request) string { return s.configuration("pending") })
	document("GET /api/v2/configuration-versions/{id}", func(*http.Request) string { return s.configuration("uploaded") })
	say("PUT /upload", jsonType, always(""))
	document("POST /api/v2/runs", func(*http.Request) string { return s.run() })
	document("GET /api/v2/runs/{id}", func(*http.Request) string { return s.run() })
	document("GET /api/v2/runs/{id}/run-events", always(`{"data":[]}`))
	document("GET /api/v2/plans/{id}", func(*http.Request) string { return s.phase("plans", "plan") })
	document("GET /api/v2/applies/{id}", func(*http.Request) string { return s.phase("applies", "apply") })
	say("GET /api/v2/plans/{id}/json-output-redacted", jsonType, always(redactedPlan))
	say("GET /logs/{phase}", "text/plain", func(r *http.Request) string { return window(logs[r.PathValue("phase")], r) })
	return mux
}

func (s *Server) workspace() string {
	return fmt.Sprintf(`{"id":"ws-1","type":"workspaces","attributes":{"name":"w","execution-mode":"remote","terraform-version":%q,
		"auto-apply":false,"locked":false,"working-directory":"","tag-names":[],"structured-run-output-enabled":true,"vcs-repo":null,
		"permissions":{"can-queue-run":true,"can-queue-apply":true,"can-update":true,"can-lock":true,"can-unlock":true,"can-force-delete":true}},
		"relationships":{"organization":{"data":{"id":"demo","type":"organizations"}}}}`, s.version)
}

func (s *Server) configuration(status string) string {
	return fmt.Sprintf(`{"data":{"id":"cv-1","type":"configuration-versions","attributes":{"status":%q,"upload-url":%q}}}`, status, s.url("/upload"))
}

// run is over from its first moment, planned and applied.
func (s *Server) run() string {
	return `{"data":{"id":"run-1","type":"runs","attributes":{"status":"applied","has-changes":true,
		"actions":{"is-confirmable":false,"is-cancelable":false,"is-discardable":false},"permissions":{"can-apply":true}},
		"relationships":{"workspace":{"data":{"id":"ws-1","type":"workspaces"}},"plan":{"data":{"id":"plan-1","type":"plans"}},
		"apply":{"data":{"id":"apply-1","type":"applies"}}}},"included":[` + s.workspace() + `]}`
}

func (s *Server) phase(kind, name string) string {
	return fmt.Sprintf(`{"data":{"id":"%[2]s-1","type":%[1]q,"attributes":{"status":"finished","has-changes":true,"log-read-url":%[3]q}}}`,
		kind, name, s.url("/logs/"+name))
}

// redactedPlan is a plan of one new value, rendered by the client.
const redactedPlan = `{"plan_format_version":"1.2","provider_format_version":"1.0","output_changes":{"v":{"actions":["create"],
	"before":null,"after":"value","after_unknown":false,"before_sensitive":false,"after_sensitive":false}},
	"resource_changes":[],"resource_drift":[],"relevant_attributes":[],"provider_schemas":{}}`

// logs are whole: both marks stand around them. Of the apply's, the client drops three lines.
var logs = map[string]string{
	"plan":  "\x02OpenTofu\non linux_amd64\nPlanned.\n\x03",
	"apply": "\x02OpenTofu\non linux_amd64\nInitializing plugins and modules...\nApplied.\n\x03",
}

// window is the part of a log that the client asks for.
func window(text string, r *http.Request) string {
	offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
	if err != nil || offset < 0 || offset >= len(text) {
		return ""
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit <= 0 {
		return ""
	}
	return text[offset:min(len(text), offset+limit)]
}
