package envelope

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/ids"
)

// NoSerial is the Serial of an object that belongs to no state.
const NoSerial = -1

// Context is what a sealed object belongs to. All of it is authenticated and
// stands readable in the object's header, so that a store can be understood when
// the database is lost.
type Context struct {
	Kind         string // what the object is, such as "state"
	Object       ids.Object
	Organization ids.Organization
	Workspace    ids.Workspace
	Serial       int64  // of the state; NoSerial when there is none
	Lineage      string // of the state, free text; empty when there is none
	Run          ids.Run
	Epoch        int64 // of the writer's fence; 0 when no fence was held
}

// args encodes the context as arguments of an age stanza, which are printable
// ASCII without spaces. The order is fixed and absent members are left out, so
// that one context has exactly one encoding.
func (c Context) args() ([]string, error) {
	if c.Kind == "" || c.Object == "" || c.Organization == "" {
		return nil, errors.New("a sealed object needs a kind, an id and an organization")
	}
	var args []string
	add := func(name, value string) { args = append(args, name+"="+value) }
	add("kind", c.Kind)
	add("object", string(c.Object))
	add("organization", string(c.Organization))
	if c.Workspace != "" {
		add("workspace", string(c.Workspace))
	}
	if c.Serial >= 0 {
		add("serial", strconv.FormatInt(c.Serial, 10))
	}
	if c.Lineage != "" { // free text that a client chose
		add("lineage", base64.RawURLEncoding.EncodeToString([]byte(c.Lineage)))
	}
	if c.Run != "" {
		add("run", string(c.Run))
	}
	if c.Epoch != 0 {
		add("epoch", strconv.FormatInt(c.Epoch, 10))
	}
	for _, a := range args {
		if strings.IndexFunc(a, func(r rune) bool { return r <= ' ' || r > '~' }) >= 0 {
			return nil, fmt.Errorf("%q cannot stand in the header of a sealed object", a)
		}
	}
	return args, nil
}

// canonical is the encoding that is authenticated. Arguments hold no space, so
// joining them is unambiguous.
func canonical(args []string) []byte {
	return []byte("holdfast object v1 " + strings.Join(args, " "))
}

// parseContext reads what args wrote.
func parseContext(args []string) (Context, error) {
	c := Context{Serial: NoSerial}
	for _, a := range args {
		name, value, _ := strings.Cut(a, "=")
		var err error
		switch name {
		case "kind":
			c.Kind = value
		case "object":
			c.Object = ids.Object(value)
		case "organization":
			c.Organization = ids.Organization(value)
		case "workspace":
			c.Workspace = ids.Workspace(value)
		case "serial":
			c.Serial, err = strconv.ParseInt(value, 10, 64)
		case "lineage":
			var text []byte
			text, err = base64.RawURLEncoding.DecodeString(value)
			c.Lineage = string(text)
		case "run":
			c.Run = ids.Run(value)
		case "epoch":
			c.Epoch, err = strconv.ParseInt(value, 10, 64)
		default:
			err = errors.New("unknown member")
		}
		if err != nil {
			return Context{}, fmt.Errorf("header member %q: %w", a, err)
		}
	}
	return c, nil
}
