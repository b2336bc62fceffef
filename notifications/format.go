package notifications

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/holdfast-run/holdfast/outbound"
)

// SignatureHeader holds the hex HMAC-SHA512 of a generic message's body under the
// configuration's token (EV-04).
const SignatureHeader = "X-TFE-Notification-Signature"

// send tells the receiver and gives its answer. Why there is none is in the answer as well: the log
// keeps it.
func (s *Service) send(ctx context.Context, c Configuration, e Event, recipients []string) Response {
	if c.Destination == Email {
		return s.sendMail(ctx, e, recipients)
	}
	body, err := s.body(c.Destination, e)
	if err != nil {
		return Response{Error: "The message could not be drawn."}
	}
	header := map[string]string{"Content-Type": "application/json"}
	if c.Destination == Generic && c.Token != "" {
		header[SignatureHeader] = outbound.Sign(c.Token, body)
	}
	answer, err := s.client.Do(ctx, outbound.Request{Method: "POST", URL: c.URL, Header: header, Body: body})
	if err != nil {
		return Response{Error: outbound.Why(err)}
	}
	return Response{Code: answer.Status, Body: beginning(answer.Body), OK: answer.OK()}
}

func (s *Service) sendMail(ctx context.Context, e Event, recipients []string) Response {
	switch {
	case s.settings.Mail == nil:
		return Response{Error: "This server has not been told of a mail server (HOLDFAST_SMTP_URL)."}
	case len(recipients) == 0:
		return Response{OK: true, Error: "It goes to nobody: the configuration has neither addresses nor users."}
	}
	err := s.settings.Mail.Send(ctx, recipients, subject(e), plain(e))
	var refused *textproto.Error
	switch {
	case errors.As(err, &refused):
		return Response{Code: refused.Code, Error: "The mail server refused the message."}
	case err != nil:
		return Response{Error: "The mail server could not be reached, or broke off."}
	}
	return Response{OK: true}
}

func statusText(code int) string { return strconv.Itoa(code) }

// beginning is what the log keeps of a body: text that the database can hold.
func beginning(body []byte) string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(body[:min(len(body), longestAnswer)]), ""), "\x00", "")
	return text
}

func (s *Service) body(to Destination, e Event) ([]byte, error) {
	switch to {
	case Slack:
		return json.Marshal(slackMessage(e))
	case MicrosoftTeams:
		return json.Marshal(teamsMessage(e))
	default:
		return s.settings.Document(e)
	}
}

// facts are what a person wants to know of an event, in reading order.
func facts(e Event) [][2]string {
	if e.Trigger == Verification {
		return nil
	}
	return [][2]string{
		{"Workspace", e.OrganizationName + "/" + e.WorkspaceName}, {"Run", string(e.RunID)}, {"Message", e.RunMessage}, {"Created by", e.RunCreatedBy}, {"Event", e.Name() + " by " + e.By},
	}
}

func subject(e Event) string {
	if e.Trigger == Verification {
		return e.Title()
	}
	return fmt.Sprintf("%s: %s/%s", e.Title(), e.OrganizationName, e.WorkspaceName)
}

func plain(e Event) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\r\n\r\n", e.Title())
	for _, fact := range facts(e) {
		fmt.Fprintf(&text, "%s: %s\r\n", fact[0], fact[1])
	}
	if e.URL != "" {
		fmt.Fprintf(&text, "\r\n%s\r\n", e.URL)
	}
	return text.String()
}

// slackText keeps what a person wrote from being read as a link or a mention.
var slackText = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

func slackMessage(e Event) map[string]any {
	var text strings.Builder
	fmt.Fprintf(&text, "*%s*", slackText.Replace(e.Title()))
	for _, fact := range facts(e) {
		fmt.Fprintf(&text, "\n%s: %s", fact[0], slackText.Replace(fact[1]))
	}
	if e.URL != "" {
		fmt.Fprintf(&text, "\n<%s|Open the run>", e.URL)
	}
	return map[string]any{
		"text":   slackText.Replace(subject(e)),
		"blocks": []any{map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": text.String()}}},
	}
}

// teamsMessage is an Adaptive Card, which both kinds of Microsoft's webhooks take.
func teamsMessage(e Event) map[string]any {
	list := []any{}
	for _, fact := range facts(e) {
		list = append(list, map[string]any{"title": fact[0], "value": fact[1]})
	}
	card := map[string]any{
		"$schema": "http://adaptivecards.io/schemas/adaptive-card.json", "type": "AdaptiveCard", "version": "1.4",
		"body": []any{
			map[string]any{"type": "TextBlock", "size": "Medium", "weight": "Bolder", "wrap": true, "text": e.Title()},
			map[string]any{"type": "FactSet", "facts": list},
		},
	}
	if e.URL != "" {
		card["actions"] = []any{map[string]any{"type": "Action.OpenUrl", "title": "Open the run", "url": e.URL}}
	}
	return map[string]any{
		"type":        "message",
		"attachments": []any{map[string]any{"contentType": "application/vnd.microsoft.card.adaptive", "content": card}},
	}
}
