package notifications

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net"
	"net/mail"
	"net/smtp"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/clock"
)

// mailWithin is how long one message may take to be handed over.
const mailWithin = 20 * time.Second

// Mail hands messages to the operator's mail server.
type Mail struct {
	host, port     string
	implicit       bool // TLS from the first byte; otherwise STARTTLS where the server has it
	user, password string
	from           mail.Address
}

// MailShown is what may be shown of a mail server: all but the password.
type MailShown struct {
	Host         string
	Port         int
	Sender, User string
}

// Shown gives it.
func (m *Mail) Shown() MailShown {
	port, err := strconv.Atoi(m.port)
	if err != nil {
		port = 0 // the name of a service
	}
	return MailShown{Host: m.host, Port: port, Sender: m.from.Address, User: m.user}
}

// ParseMail reads the operator's settings: smtp://user:password@host:port, or smtps://… for TLS from the
// first byte, and the sender's address. An error repeats no password.
func ParseMail(address, from string) (*Mail, error) {
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "smtp" && u.Scheme != "smtps") || u.Hostname() == "" || (u.Path != "" && u.Path != "/") {
		return nil, errors.New("the mail server must be given as smtp://host:587 or smtps://host:465, with user:password@ before the host where it asks for them")
	}
	sender, err := mail.ParseAddress(from)
	if err != nil {
		return nil, errors.New("the sender of email must be an address, such as Holdfast <holdfast@example.com>")
	}
	m := &Mail{host: u.Hostname(), port: u.Port(), implicit: u.Scheme == "smtps", from: *sender}
	if m.port == "" {
		m.port = map[bool]string{false: "587", true: "465"}[m.implicit]
	}
	if u.User != nil {
		m.user = u.User.Username()
		m.password, _ = u.User.Password()
	}
	return m, nil
}

// Send hands over one message for all recipients, who do not see one another. A refusal of the mail server is a
// *textproto.Error. A password is given only under TLS, or to this machine.
func (m *Mail) Send(ctx context.Context, recipients []string, subject, text string) error {
	ctx, cancel := context.WithTimeout(ctx, mailWithin)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort(m.host, m.port))
	if err != nil {
		return err
	}
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return err
		}
	}
	secure := &tls.Config{ServerName: m.host, MinVersion: tls.VersionTLS12}
	if m.implicit {
		conn = tls.Client(conn, secure)
	}
	client, err := smtp.NewClient(conn, m.host)
	if err != nil {
		_ = conn.Close()
		return err
	}
	defer func() { _ = client.Close() }() // after Quit it is closed already
	if offered, _ := client.Extension("STARTTLS"); offered && !m.implicit {
		if err := client.StartTLS(secure); err != nil {
			return err
		}
	}
	if m.user != "" {
		if err := client.Auth(smtp.PlainAuth("", m.user, m.password, m.host)); err != nil {
			return err
		}
	}
	if err := client.Mail(m.from.Address); err != nil {
		return err
	}
	for _, recipient := range recipients {
		if err := client.Rcpt(recipient); err != nil {
			return err
		}
	}
	body, err := client.Data()
	if err != nil {
		return err
	}
	if _, err := body.Write(m.message(subject, text)); err != nil {
		return err
	}
	if err := body.Close(); err != nil {
		return err
	}
	_ = client.Quit() // the message was taken
	return nil
}

// message is the whole text with its headers. Nothing that a user wrote stands in a header without
// being encoded, and the body is base64, so no line of it is one of SMTP.
func (m *Mail) message(subject, text string) []byte {
	var out bytes.Buffer
	for _, header := range [][2]string{
		{"From", m.from.String()}, {"To", "undisclosed-recipients:;"}, {"Subject", mime.BEncoding.Encode("utf-8", strings.Join(strings.Fields(subject), " "))},
		{"Date", clock.Now().UTC().Format(time.RFC1123Z)}, {"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "base64"},
		{"Auto-Submitted", "auto-generated"},
	} {
		fmt.Fprintf(&out, "%s: %s\r\n", header[0], header[1])
	}
	out.WriteString("\r\n")
	encoded := base64.StdEncoding.EncodeToString([]byte(text))
	for len(encoded) > 0 {
		n := min(76, len(encoded))
		out.WriteString(encoded[:n] + "\r\n")
		encoded = encoded[n:]
	}
	return out.Bytes()
}
