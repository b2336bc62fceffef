package tfeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/holdfast-run/holdfast/fault"
)

// wireError is how a kind of failure looks on the wire. An empty title means that
// the error's code is its title.
type wireError struct {
	status int
	title  string
}

// wireErrors has a row for every fault.Kind. A refusal of the domain is never a 5xx,
// because the client would repeat it for six minutes (NC-18).
var wireErrors = map[fault.Kind]wireError{
	fault.Internal:        {http.StatusInternalServerError, "internal server error"},
	fault.Unknown:         {http.StatusServiceUnavailable, ""},
	fault.Malformed:       {http.StatusBadRequest, ""},
	fault.Unauthenticated: {http.StatusUnauthorized, "unauthorized"},
	fault.Forbidden:       {http.StatusForbidden, ""},
	fault.NotFound:        {http.StatusNotFound, "not found"},
	fault.Conflict:        {http.StatusConflict, ""},
	fault.Locked:          {http.StatusConflict, ""},
	fault.RecoveryHeld:    {http.StatusLocked, "Workspace locked"},
	fault.TooLarge:        {http.StatusRequestEntityTooLarge, ""},
	fault.Invalid:         {http.StatusUnprocessableEntity, ""},
	fault.Exhausted:       {http.StatusTooManyRequests, ""},
	fault.Unavailable:     {http.StatusServiceUnavailable, ""},
}

// titles are the texts that clients of the original API know, by code.
var titles = map[string]string{
	"invalid_attribute":  "invalid attribute",
	"invalid_attributes": "invalid attributes",
	"malformed":          "invalid JSON:API document",

	"transition_not_allowed": "transition not allowed",
}

// retryAfter is what a 503 asks for, in seconds: a launch control lasts longer than
// a database that is being restarted (ER-01).
func retryAfter(code string) int {
	if code == "service_unavailable" {
		return 60
	}
	return 5
}

// errorObject is one JSON:API error.
type errorObject struct {
	ID     string         `json:"id,omitempty"` // the request's id, for finding it in the server's log
	Status string         `json:"status"`
	Code   string         `json:"code"`
	Title  string         `json:"title"`
	Detail string         `json:"detail,omitempty"`
	Source *errorSource   `json:"source,omitempty"`
	Meta   map[string]any `json:"meta,omitempty"`
}

type errorSource struct {
	Pointer string `json:"pointer"`
}

// statusClientGone is logged, never sent: the request was given up, by its client or because
// the server ends. Its connection is cut.
const statusClientGone = 499

// writeError answers with err and gives the status it used. The text of an error
// that nobody classified stays in the log.
func writeError(w http.ResponseWriter, r *http.Request, err error, requestID string) int {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		return statusClientGone
	}
	objects, status := describeAll(err, requestID)
	object := objects[0]
	header := w.Header()
	if status == http.StatusServiceUnavailable {
		header.Set("Retry-After", strconv.Itoa(retryAfter(object.Code)))
	}
	if status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", "Bearer")
	}
	if object.Code == "step_up_required" {
		// RFC 9470: the token is good, and its user must prove itself anew.
		header.Set("WWW-Authenticate", fmt.Sprintf(`Bearer error="insufficient_user_authentication", error_description="Prove once more who you are", max_age=%v`, object.Meta["max-age"]))
	}
	header.Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": objects}) // a client that left gets nothing
	return status
}

// describeAll gives one object, or several for refusals of attributes that were joined.
func describeAll(err error, requestID string) (objects []errorObject, status int) {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, one := range joined.Unwrap() {
			if !fault.Is(one, fault.Invalid) {
				objects = nil
				break
			}
			object, its := describe(one, requestID)
			objects, status = append(objects, object), its
		}
	}
	if len(objects) == 0 {
		object, status := describe(err, requestID)
		return []errorObject{object}, status
	}
	return objects, status
}

func describe(err error, requestID string) (errorObject, int) {
	kind := fault.KindOf(err)
	row := wireErrors[kind]
	object := errorObject{Status: strconv.Itoa(row.status), Code: kind.String(), Title: row.title}
	var classified *fault.Error
	if kind == fault.Internal || !errors.As(err, &classified) {
		object.ID = requestID
		return object, row.status
	}
	object.Code, object.Detail, object.Meta = classified.Code, classified.Message, classified.Meta
	if object.Title == "" {
		object.Title = titles[classified.Code]
	}
	if object.Title == "" {
		object.Title = classified.Code
	}
	if classified.Pointer != "" {
		object.Source = &errorSource{Pointer: classified.Pointer}
	}
	return object, row.status
}

// notReady makes any failure of a readiness check a 503.
func notReady(err error) error {
	if fault.Is(err, fault.Unavailable) {
		return err
	}
	return fault.New(fault.Unavailable, "not_ready", "The database or the object store does not answer.").Because(err)
}
