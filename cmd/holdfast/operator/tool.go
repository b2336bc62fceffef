package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/holdfast-run/holdfast/cmd/holdfast/terminal"
)

// secrets gives what a person knows: terminal.Secrets.
type secrets interface {
	Read(question string) (string, error)
	Interactive() bool
}

// tool is what every command works with.
type tool struct {
	*client
	out, notes   io.Writer // results; what is only for who watches
	secrets      secrets
	passwordFile string
	json         bool
}

func (c *Commands) tool() (*tool, error) {
	if c.made != nil {
		return c.made, nil
	}
	api, err := c.client()
	if err != nil {
		return nil, err
	}
	return &tool{client: api, out: os.Stdout, notes: os.Stderr, secrets: terminal.NewSecrets(os.Stdin, os.Stderr), passwordFile: c.PasswordFile, json: c.JSON}, nil
}

// printf writes a line of result. Foreign text among args goes through terminal.Line.
func (t *tool) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(t.out, format+"\n", args...)
}

func (t *tool) evidence(ctx context.Context, run string) (e evidence, err error) {
	raw, err := t.one(ctx, http.MethodGet, "runs/"+run+"/recovery", nil, &e)
	e.run, e.raw = run, raw
	return e, err
}

// recover sends the request, and steps up when the server demands it.
func (t *tool) recover(ctx context.Context, run string, in request) (done recovered, err error) {
	err = t.steppingUp(ctx, func() error {
		raw, err := t.one(ctx, http.MethodPost, "runs/"+run+"/actions/recover", in, &done)
		done.id, done.raw = raw.ID, raw
		return err
	})
	return done, err
}

// whoAmI gives the user of the token: its id and its name.
func (t *tool) whoAmI(ctx context.Context) (id, name string, err error) {
	var me struct {
		Username string `json:"username"`
	}
	raw, err := t.one(ctx, http.MethodGet, "account/details", nil, &me)
	return raw.ID, me.Username, err
}

// mostTries is how often somebody at a terminal may mistype.
const mostTries = 3

// steppingUp does what may need a recent step-up. Only when the server says that it does
// are password and code asked for; then it is done once more.
func (t *tool) steppingUp(ctx context.Context, do func() error) error {
	err := do()
	if !refusedAs(err, "step_up_required") {
		return err
	}
	_, name, err := t.whoAmI(ctx)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		err := t.stepUp(ctx, terminal.Line(name))
		if err == nil {
			return do()
		}
		if !refusedAs(err, "step_up_failed") || !t.secrets.Interactive() || try == mostTries {
			return err
		}
		_, _ = fmt.Fprintln(t.notes, err)
	}
}

func (t *tool) stepUp(ctx context.Context, name string) error {
	password, err := t.password(name)
	if err != nil {
		return err
	}
	code, err := t.secrets.Read("Code of your second factor, or a recovery code: ")
	if err != nil {
		return err
	}
	if password == "" || code == "" {
		return errors.New("step_up_required: the server demands your password and a code, and none was given")
	}
	proof := map[string]string{"password": password}
	if code = strings.ReplaceAll(code, " ", ""); strings.ContainsFunc(code, func(r rune) bool { return !unicode.IsDigit(r) }) {
		proof["recovery-code"] = code
	} else {
		proof["code"] = code
	}
	var done struct {
		ExpiresAt time.Time `json:"expires-at"`
	}
	if _, err := t.one(ctx, http.MethodPost, "account/actions/step-up", proof, &done); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(t.notes, "The server asks no more until %s.\n", moment(done.ExpiresAt.Format(time.RFC3339)))
	return nil
}

func (t *tool) password(name string) (string, error) {
	if t.passwordFile == "" {
		return t.secrets.Read(fmt.Sprintf("Password of %s: ", name))
	}
	text, err := os.ReadFile(t.passwordFile)
	if err != nil {
		return "", fmt.Errorf("read the password: %w", err)
	}
	return strings.TrimRight(string(text), "\r\n"), nil
}

// moment shows an instant of the API; what is none stays as it came.
func moment(text string) string {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return terminal.Line(text)
	}
	return at.UTC().Format("2006-01-02 15:04:05 UTC")
}
