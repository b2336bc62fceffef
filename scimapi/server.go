package scimapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	protocol "github.com/elimity-com/scim"
	scimerrors "github.com/elimity-com/scim/errors"
	"github.com/elimity-com/scim/optional"
	"github.com/elimity-com/scim/schema"

	"github.com/holdfast-run/holdfast/audit"
	"github.com/holdfast-run/holdfast/authz"
	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/scim"
	"github.com/holdfast-run/holdfast/throttle"
)

// Prefix is where all of it is.
const Prefix = "/scim/v2"

// Serves tells whether the path is one of this package's.
func Serves(path string) bool { return path == Prefix || strings.HasPrefix(path, Prefix+"/") }

// Deps is what the handlers call.
type Deps struct {
	// Authenticate says whom a SCIM token stands for. Any other token is fault.Unauthenticated.
	Authenticate func(ctx context.Context, token string) (authz.Actor, error)
	SCIM         *scim.Service
	// Limit is how many requests a second each token may make in this process; nil is no limit.
	Limit *throttle.Limit
	// Observe counts an answered request, for the metrics; nil counts nothing.
	Observe func(method, route string, status int, took time.Duration)
	// Address is the public address of the server, without a slash at its end.
	Address string
	Log     *slog.Logger
}

const (
	maxDocument = 4 << 20 // bytes: a group with all its members
	maxFilter   = 2000    // bytes
	maxResults  = 100
)

type server struct {
	Deps
	protocol protocol.Server
}

// Some identity providers write "True" for true.
func init() { schema.SetAllowStringValues(true) }

// New makes the handler of everything below Prefix.
func New(deps Deps) http.Handler {
	s := &server{Deps: deps}
	enterprise := protocol.SchemaExtension{Schema: schema.ExtensionEnterpriseUser()}
	made, err := protocol.NewServer(&protocol.ServerArgs{
		ServiceProviderConfig: &protocol.ServiceProviderConfig{
			SupportFiltering: true, SupportPatch: true, MaxResults: maxResults,
			AuthenticationSchemes: []protocol.AuthenticationScheme{{
				Type: protocol.AuthenticationTypeOauthBearerToken, Name: "SCIM token", Primary: true,
				Description: "A token that a site admin makes with POST /api/v2/admin/scim-tokens.",
			}},
		},
		ResourceTypes: []protocol.ResourceType{
			{
				ID: optional.NewString("User"), Name: "User", Endpoint: "/Users", Description: optional.NewString("A person"),
				Schema: schema.CoreUserSchema(), SchemaExtensions: []protocol.SchemaExtension{enterprise}, Handler: people{s},
			},
			{ID: optional.NewString("Group"), Name: "Group", Endpoint: "/Groups", Description: optional.NewString("A group of persons"), Schema: schema.CoreGroupSchema(), Handler: groups{s}},
		},
	}, protocol.WithBaseURL(strings.TrimSuffix(deps.Address, "/")+Prefix))
	if err != nil {
		panic(err) // only where the lines above are wrong
	}
	s.protocol = made
	return s
}

// ServeHTTP authenticates, answers, and writes one line to the log, without bodies and ids.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started, requestID := clock.Now(), rand.Text()[:16]
	header := w.Header()
	header.Set("X-Request-Id", requestID)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	c := &call{ResponseWriter: w, status: http.StatusOK}
	route := routeOf(r.URL.Path)
	defer func() {
		if p := recover(); p != nil {
			c.err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			writeError(c, scimerrors.ScimErrorInternal)
		}
		if s.Observe != nil {
			s.Observe(r.Method, route, c.status, clock.Since(started))
		}
		attrs := []slog.Attr{slog.String("request_id", requestID), slog.String("method", r.Method), slog.String("route", route), slog.Int("status", c.status), slog.Duration("duration", clock.Since(started))}
		if c.actor.Kind != "" {
			attrs = append(attrs, slog.String("actor", c.actor.ID()))
		}
		level := slog.LevelInfo
		if c.status >= 500 && c.err != nil {
			level = slog.LevelError
			attrs = append(attrs, slog.Any("error", c.err))
		}
		s.Log.LogAttrs(r.Context(), level, "request", attrs...)
	}()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	actor, err := s.Authenticate(r.Context(), strings.TrimSpace(token))
	if err != nil {
		header.Set("WWW-Authenticate", "Bearer")
		writeError(c, c.answerTo(err))
		return
	}
	c.actor = actor
	if err := s.Limit.Check(actor, header); err != nil {
		writeError(c, c.answerTo(err))
		return
	}
	if len(r.URL.Query().Get("filter")) > maxFilter {
		writeError(c, invalidFilter())
		return
	}
	body, problem := readDocument(r)
	if problem != nil {
		writeError(c, *problem)
		return
	}
	inside := r.WithContext(context.WithValue(audit.InRequest(r.Context(), requestID), callKey{}, c))
	inside.Body = io.NopCloser(bytes.NewReader(body))
	inside.URL.Path = "/v2" + strings.TrimPrefix(r.URL.Path, Prefix)
	s.protocol.ServeHTTP(c, inside)
}

// call is one request: who asks, and what became of it.
type call struct {
	http.ResponseWriter
	actor  authz.Actor
	status int
	err    error // behind an internal error
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// WriteHeader notes the status for the log.
func (c *call) WriteHeader(status int) {
	c.status = status
	c.ResponseWriter.WriteHeader(status)
}

// routeOf is the path without ids.
func routeOf(path string) string {
	for _, known := range []string{"/Users", "/Groups", "/Schemas", "/ResourceTypes"} {
		if strings.HasPrefix(path, Prefix+known+"/") {
			return Prefix + known + "/{id}"
		}
		if path == Prefix+known {
			return path
		}
	}
	if path == Prefix+"/ServiceProviderConfig" {
		return path
	}
	return "(no route)"
}

// readDocument reads a body of an ordinary size. Some clients leave the schemas out, which the
// address says as well.
func readDocument(r *http.Request) ([]byte, *scimerrors.ScimError) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxDocument+1))
	if err != nil {
		return nil, &scimerrors.ScimErrorInvalidSyntax
	}
	if len(body) > maxDocument {
		return nil, &scimerrors.ScimError{Status: http.StatusRequestEntityTooLarge, Detail: fmt.Sprintf("The document is larger than %d bytes.", maxDocument)}
	}
	if r.Method != http.MethodPost && r.Method != http.MethodPut {
		return body, nil
	}
	var document map[string]json.RawMessage
	if json.Unmarshal(body, &document) != nil || document == nil {
		return body, nil // which the protocol refuses
	}
	for name := range document {
		if strings.EqualFold(name, "schemas") {
			return body, nil
		}
	}
	kind := schema.UserSchema
	if strings.HasPrefix(r.URL.Path, Prefix+"/Groups") {
		kind = schema.GroupSchema
	}
	document["schemas"] = json.RawMessage(`["` + kind + `"]`)
	with, err := json.Marshal(document)
	if err != nil {
		return body, nil
	}
	return with, nil
}

func writeError(w http.ResponseWriter, problem scimerrors.ScimError) {
	w.Header().Set("Content-Type", "application/scim+json")
	body, err := json.Marshal(problem)
	if err != nil {
		body = nil
	}
	w.WriteHeader(problem.Status)
	_, _ = w.Write(body) // a client that left gets nothing
}

// answerTo says a failure in the protocol's words. The text of one that nobody classified stays
// in the log.
func (c *call) answerTo(err error) scimerrors.ScimError {
	var said scimerrors.ScimError
	var classified *fault.Error
	switch {
	case errors.As(err, &said):
		return said
	case !errors.As(err, &classified):
		c.err = err
		return scimerrors.ScimErrorInternal
	}
	answer := scimerrors.ScimError{Detail: classified.Message}
	switch fault.KindOf(err) {
	case fault.Unauthenticated:
		answer.Status = http.StatusUnauthorized
	case fault.Forbidden:
		answer.Status = http.StatusForbidden
	case fault.NotFound:
		answer.Status = http.StatusNotFound
	case fault.Conflict, fault.Locked, fault.RecoveryHeld:
		answer.Status, answer.ScimType = http.StatusConflict, scimerrors.ScimTypeUniqueness
	case fault.Invalid, fault.Malformed, fault.TooLarge:
		answer.Status, answer.ScimType = http.StatusBadRequest, scimerrors.ScimTypeInvalidValue
	case fault.Exhausted:
		answer.Status = http.StatusTooManyRequests
	case fault.Unavailable, fault.Unknown: // the database does not answer; the identity provider asks again
		c.err = err
		answer.Status = http.StatusServiceUnavailable
	default:
		c.err = err
		answer.Status = http.StatusInternalServerError
	}
	return answer
}

func invalidFilter() scimerrors.ScimError {
	refused := scimerrors.ScimErrorInvalidFilter
	refused.Detail = `This filter cannot be used. A list is filtered by exact values: userName, externalId, displayName, emails.value or id, with eq, and several of them with and.`
	return refused
}
