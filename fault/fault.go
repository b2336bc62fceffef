package fault

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
)

// Kind says what the caller can do about an error.
type Kind int

// The kinds. Every one has a row in tfeapi's error table; a test holds that.
const (
	Internal        Kind = iota // a defect of ours, or an error nobody classified
	Unknown                     // a commit whose outcome cannot be decided
	Malformed                   // the request cannot be read
	Unauthenticated             // no valid credential
	Forbidden                   // the thing is visible, the action is not allowed
	NotFound                    // no such thing, or not visible to the caller
	Conflict                    // the thing is in another state than the action needs
	Locked                      // the workspace is locked by somebody else
	RecoveryHeld                // the workspace is held until a run is recovered
	TooLarge                    // over a size limit
	Invalid                     // well-formed, but a value breaks a rule
	Exhausted                   // a rate or quota limit
	Unavailable                 // the database, the store or a launch control says "not now"
)

var kindNames = map[Kind]string{
	Internal: "internal", Unknown: "unknown", Malformed: "malformed", Unauthenticated: "unauthenticated",
	Forbidden: "forbidden", NotFound: "not_found", Conflict: "conflict", Locked: "locked",
	RecoveryHeld: "recovery_held", TooLarge: "too_large", Invalid: "invalid", Exhausted: "exhausted",
	Unavailable: "unavailable",
}

// Kinds lists every kind, for tests that walk them all.
func Kinds() []Kind {
	kinds := make([]Kind, 0, len(kindNames))
	for k := Internal; k <= Unavailable; k++ {
		kinds = append(kinds, k)
	}
	return kinds
}

// String gives the name of the kind.
func (k Kind) String() string { return kindNames[k] }

// Error is a classified failure. Code is a stable machine name; Message says
// what is wrong and what to do. Pointer, when set, is the JSON pointer of the
// offending member of a request document. Meta holds facts for programs, such as
// "max-age": 900; nothing secret stands there.
type Error struct {
	Kind    Kind
	Code    string
	Message string
	Pointer string
	Meta    map[string]any
	cause   error
}

// Error gives the message, and the cause when there is one.
func (e *Error) Error() string {
	if e.cause != nil {
		return e.Message + ": " + e.cause.Error()
	}
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.cause }

// New makes a classified error. The message is formatted with args.
func New(kind Kind, code, message string, args ...any) *Error {
	if len(args) > 0 {
		message = fmt.Sprintf(message, args...)
	}
	return &Error{Kind: kind, Code: code, Message: message}
}

// At returns a copy that points at a member of the request document, such as
// "/data/attributes/name".
func (e *Error) At(pointer string) *Error {
	c := *e
	c.Pointer = pointer
	return &c
}

// PointAt is At for an error that may be another.
func PointAt(err error, pointer string) error {
	var classified *Error
	if errors.As(err, &classified) {
		return classified.At(pointer)
	}
	return err
}

// With returns a copy that tells programs a fact more.
func (e *Error) With(name string, value any) *Error {
	c := *e
	c.Meta = maps.Clone(e.Meta)
	if c.Meta == nil {
		c.Meta = map[string]any{}
	}
	c.Meta[name] = value
	return &c
}

// Because returns a copy that carries cause for the log; the cause's text never
// reaches a client.
func (e *Error) Because(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// KindOf gives the kind of the first classified error in err's chain; an
// unclassified error is Internal.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}

// Is tells whether err is classified as kind.
func Is(err error, kind Kind) bool {
	var e *Error
	return errors.As(err, &e) && e.Kind == kind
}

// HasCode tells whether err carries the stable code.
func HasCode(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Missing is the one answer for a thing that does not exist or is not visible:
// both read the same, so that nobody can probe for names.
func Missing(what, name string) *Error {
	return New(NotFound, "not_found", "%s %q was not found, or you are not allowed to see it.", what, name)
}

// Caught makes an error of a panic: deferred, it sets err. Whoever starts a goroutine for a
// request defers it there, out of reach of what catches the panics of the request itself: one
// that nobody catches ends the server, with all that it does for others.
func Caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
	}
}
