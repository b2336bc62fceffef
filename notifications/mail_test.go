package notifications

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/mail"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-run/holdfast/ids"
)

// letter is what a mail server took.
type letter struct {
	from       string
	recipients []string
	auth       string
	data       string
}

// mailServer speaks as much SMTP as a client needs. It refuses recipients of nowhere.test.
func mailServer(t *testing.T) (address string, letters <-chan letter) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	taken := make(chan letter, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveMail(conn, taken)
		}
	}()
	return listener.Addr().String(), taken
}

func serveMail(conn net.Conn, taken chan<- letter) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	say := func(line string) { _, _ = fmt.Fprintf(conn, "%s\r\n", line) }
	say("220 mail.test")
	var l letter
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		verb, rest, _ := strings.Cut(line, " ")
		switch verb {
		case "EHLO":
			say("250-mail.test")
			say("250 AUTH PLAIN")
		case "AUTH":
			l.auth = rest
			say("235 ok")
		case "MAIL":
			l.from = rest
			say("250 ok")
		case "RCPT":
			if strings.Contains(rest, "@nowhere.test") {
				say("550 nobody of that name")
				continue
			}
			l.recipients = append(l.recipients, strings.Trim(strings.TrimPrefix(rest, "TO:"), "<>"))
			say("250 ok")
		case "DATA":
			say("354 go on")
			for {
				line, err := in.ReadString('\n')
				if err != nil {
					return
				}
				if line == ".\r\n" {
					break
				}
				l.data += line
			}
			taken <- l
			say("250 taken")
		case "QUIT":
			say("221 bye")
			return
		default:
			say("500 what?")
		}
	}
}

func TestEmailOfARun(t *testing.T) {
	address, letters := mailServer(t)
	m, err := ParseMail("smtp://holdfast:hunter2@"+address, "Holdfast <holdfast@acme.test>")
	require.NoError(t, err)
	w := newWorld(t, func(s *Settings) { s.Mail = m })
	c := w.subscribed(func(ch *Changes) {
		ch.Destination, ch.EmailAddresses, ch.Users = ptr(Email), &[]string{"ops@acme.test"}, &[]ids.User{w.bob.User}
	})
	verification := <-letters
	assert.Equal(t, []string{"bob@acme.test", "ops@acme.test"}, verification.recipients)
	assert.Equal(t, "PLAIN "+base64.StdEncoding.EncodeToString([]byte("\x00holdfast\x00hunter2")), verification.auth)
	assert.Contains(t, verification.from, "<holdfast@acme.test>")

	run := w.run()
	w.step(run, "dispatch_pending", "queued")
	require.Equal(t, 1, w.deliver())
	l := <-letters
	message, err := mail.ReadMessage(strings.NewReader(l.data))
	require.NoError(t, err)
	assert.Equal(t, "Run Created: acme/shop", message.Header.Get("Subject"))
	assert.Equal(t, "undisclosed-recipients:;", message.Header.Get("To"), "they do not see one another")
	body, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, message.Body))
	require.NoError(t, err)
	assert.Contains(t, string(body), "https://tofu.test/app/acme/shop/runs/"+string(run))
	assert.Contains(t, string(body), "Message: a <change>")
	assert.Equal(t, []string{"delivered verification", "delivered run:created"}, w.log(c.ID))

	t.Log("a refusal is in the log; who has left the organization is told no more")
	_, err = w.Update(t.Context(), w.ada, c.ID, Changes{EmailAddresses: &[]string{"x@nowhere.test"}})
	require.NoError(t, err)
	w.value("with gone as (delete from memberships where user_id = '"+string(w.bob.User)+"' returning 1) select count(*) from gone", nil)
	said, err := w.Verify(t.Context(), w.ada, c.ID)
	require.Error(t, err)
	assert.Equal(t, 550, said.Responses[0].Code)
	_, err = w.Update(t.Context(), w.ada, c.ID, Changes{EmailAddresses: &[]string{}})
	require.NoError(t, err)
	said, err = w.Verify(t.Context(), w.ada, c.ID)
	require.NoError(t, err)
	assert.Contains(t, said.Responses[0].Error, "goes to nobody")
	assert.Empty(t, letters)
}

// TestWhatAUserWritesStaysOutOfTheHeaders: neither a line of its own nor the end of the message.
func TestWhatAUserWritesStaysOutOfTheHeaders(t *testing.T) {
	t.Parallel()
	m, err := ParseMail("smtps://mail.test", "holdfast@acme.test")
	require.NoError(t, err)
	raw := m.message("Verification of x\r\nBcc: eve@evil.test\r\n\r\nhello — ü", "a\r\n.\r\nRCPT TO:<eve@evil.test>\r\n")
	message, err := mail.ReadMessage(strings.NewReader(string(raw)))
	require.NoError(t, err)
	assert.Empty(t, message.Header.Get("Bcc"))
	assert.NotContains(t, string(raw), "\r\n.\r\n")
	assert.NotContains(t, string(raw), "RCPT")
}

func TestMailSettings(t *testing.T) {
	t.Parallel()
	m, err := ParseMail("smtps://mail.test", "holdfast@acme.test")
	require.NoError(t, err)
	assert.Equal(t, []any{"mail.test", "465", true}, []any{m.host, m.port, m.implicit})
	m, err = ParseMail("smtp://u:p@mail.test", "holdfast@acme.test")
	require.NoError(t, err)
	assert.Equal(t, []any{"587", "u", "p", false}, []any{m.port, m.user, m.password, m.implicit})
	for _, wrong := range [][2]string{
		{"mail.test:25", "a@b.test"}, {"http://mail.test", "a@b.test"}, {"smtp://", "a@b.test"}, {"smtp://u:hunter2@mail.test/path", "a@b.test"}, {"smtp://mail.test", ""}, {"smtp://mail.test", "nobody"},
	} {
		_, err := ParseMail(wrong[0], wrong[1])
		require.Error(t, err, wrong)
		assert.NotContains(t, err.Error(), "hunter2")
	}
}
